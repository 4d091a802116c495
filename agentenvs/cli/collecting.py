"""``collect``: episodes that were played again, as chat data to train on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentenvs.cli import arguments, completing, console, evaluating, making, modelling
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.harness.collect.writing import Collected


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "collect household --policy expert --verified --out expert.jsonl",
        "collect household --policy openai --model m --trials 4 --per-scenario 2 --max-turns 30 --out m.jsonl",
        "collect household --from runs/a --from runs/b --out both.jsonl",
    )
    app.command("collect", epilog=shown)(modelling.with_model(collect))


def collect(
    env: arguments.Env,
    out: Annotated[Path, typer.Option(help="File of rows (JSONL); what decided stands in OUT.manifest.json.")],
    policy: Annotated[
        str | None, typer.Option(help="Who plays, as for eval.", autocompletion=completing.policies)
    ] = None,
    source: Annotated[
        list[Path], typer.Option("--from", metavar="RUN", help="Play nothing: take this run; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the default
    verified: Annotated[
        bool, typer.Option("--verified", help="Play every record again first. It is always done; this says so.")
    ] = True,
    any_outcome: Annotated[bool, typer.Option("--any-outcome", help="Keep lost episodes too.")] = False,
    min_reward: Annotated[float | None, typer.Option(help="Keep only rewards of this or more.")] = None,
    max_turns: Annotated[int | None, typer.Option(help="Keep only episodes of so many turns or fewer.")] = None,
    allow_invalid: Annotated[
        bool, typer.Option("--allow-invalid", help="Keep episodes with actions that the world refused.")
    ] = False,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Keep the same states and actions more than once.")
    ] = False,
    per_scenario: Annotated[int | None, typer.Option(help="Keep at most so many episodes of a scenario.")] = None,
    split: arguments.Split = None,
    episodes: Annotated[int | None, typer.Option(help="How many; the whole split otherwise.")] = None,
    start: Annotated[int, typer.Option(help="Index (or seed) of the first.")] = 0,
    trials: Annotated[int, typer.Option(help="How often each is played.")] = 1,
    concurrency: Annotated[int, typer.Option(help="Episodes at a time.")] = 1,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    url: arguments.Url = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
    **model: Any,
) -> None:
    """Write verified trajectories: whole episodes as chat messages, with the spans that are the player's own.

    Only won episodes without a refused action are kept, each course of events once, unless you say otherwise. Exit
    code 1 where none is kept.
    """
    from agentenvs.harness.collect import writing
    from agentenvs.harness.planning import RunConfig
    from agentenvs.harness.stage import Stage

    rules = writing.Rules(not any_outcome, min_reward, max_turns, not allow_invalid, not keep_duplicates, per_scenario)
    writing.refuse_taken(out)
    stage = Stage(env, url)
    given = making.with_data(stage.spec, making.parse_options(option, stage.spec), data)
    if (policy is None) == (not source):
        raise ConfigError("somebody plays, or runs are taken", fix="give --policy NAME, or --from RUN")
    runs = list(source)
    if policy is not None:
        settings, protocol_options = evaluating.model_of(stage.spec, policy, model)
        config = RunConfig(
            env=env,
            policy=policy,
            split=split,
            episodes=episodes,
            start=start,
            concurrency=concurrency,
            options={**protocol_options, **given},
            trials=trials,
            settings=settings,
            url=url,
        )
        runs = [_played(config)]
    machine = {name: given[name] for name in stage.machine_options(given)}
    with console.progress("verify", "kept") as progress, console.files():
        came = writing.collect(runs, out, rules, machine, progress, env=stage.spec.id)
    _tell(came, out, runs, as_json)
    raise typer.Exit(console.OK if came.kept else console.FAILED)


def _played(config: Any) -> Path:
    from agentenvs.harness import run

    result = evaluating.played(config, run.evaluate)
    if result.interrupted:
        console.message(f"Interrupted: nothing is collected. Go on: agentenvs eval --resume {result.folder}")
        raise typer.Exit(console.INTERRUPTED)
    return result.folder


def _tell(came: Collected, out: Path, runs: Sequence[Path], as_json: bool) -> None:
    from agentenvs.harness.collect.rules import REASONS
    from agentenvs.harness.collect.writing import manifest_path

    if as_json:
        files = {"file": str(out), "manifest": str(manifest_path(out)), "runs": [str(run) for run in runs]}
        console.result({**came.to_json(), **files})
        return
    typer.echo(f"{came.kept} of {came.played} episode(s) kept in {out}")
    for reason, count in came.to_json()["dropped"].items():
        typer.echo(f"  {count} dropped: {REASONS[reason]}")
    if came.privileged:
        typer.echo(f"  {came.privileged} are of a player that was shown the hidden scenario, and say so")
    typer.echo(f"run:  {', '.join(map(str, runs))}")
    typer.echo(f"how:  {manifest_path(out)}")
