"""``eval`` and ``compare``: play a policy over a split, and lay runs side by side."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentenvs.cli import arguments, completing, console, modelling

if TYPE_CHECKING:
    from agentenvs.harness.run import RunConfig, RunResult


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("eval", epilog="Example: agentenvs eval household --policy expert --episodes 12 --concurrency 2")(
        evaluate
    )
    app.command("compare", epilog="Example: agentenvs compare runs/demo/oracle runs/demo/random")(compare)


def evaluate(
    env: arguments.Env,
    policy: Annotated[
        str,
        typer.Option(
            help="A player of the environment, openai, or MODULE:FACTORY.", autocompletion=completing.policies
        ),
    ],
    split: arguments.Split = None,
    episodes: Annotated[int | None, typer.Option(help="How many; the whole split otherwise.")] = None,
    start: Annotated[int, typer.Option(help="Index (or seed) of the first.")] = 0,
    concurrency: Annotated[int, typer.Option(help="Episodes at a time.")] = 1,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; a new one under runs/ otherwise.")] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="One policy through a declared order of episodes: 'split', indices 3,1,2, or a file of them."
        ),
    ] = None,
    reward_visible: Annotated[
        Literal["none", "true", "flipped", "random"],
        typer.Option(help="What a policy that learns in a stream sees of the reward."),
    ] = "none",
    episode_seconds: Annotated[float | None, typer.Option(help="Wall limit of an episode.")] = None,
    model: modelling.Model = None,
    base_url: modelling.BaseUrl = None,
    api_key_env: modelling.KeyEnv = None,
    protocol: modelling.Protocol = "native",
    history: modelling.History = None,
    tools: modelling.Tools = None,
    temperature: modelling.Temperature = None,
    top_p: modelling.TopP = None,
    max_tokens: modelling.MaxTokens = None,
    model_seed: modelling.Seed = None,
    timeout: modelling.Timeout = None,
    retries: modelling.Retries = None,
    max_calls: modelling.MaxCalls = None,
    examples: modelling.Examples = None,
    price_in: modelling.PriceIn = None,
    price_out: modelling.PriceOut = None,
    price_cached: modelling.PriceCached = None,
    extra: modelling.Extra = None,
    fail_under: Annotated[float | None, typer.Option(help="Exit 1 where the success rate is lower.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be played, and stop.")] = False,
    as_json: arguments.Json = False,
) -> None:
    """Play a policy over a split; leaves a run folder with records, numbers and a report."""
    from agentenvs.harness import run

    settings, protocol_options = _model(env, policy, locals())
    options = {**protocol_options, **console.with_data(env, console.parse_options(option, env), data)}
    config = run.RunConfig(
        env=env,
        policy=policy,
        split=split,
        episodes=episodes,
        start=start,
        concurrency=concurrency,
        options=options,
        out=out,
        order=None if stream is None else _order(stream, env, split, options),
        reward_visible=reward_visible,
        episode_seconds=episode_seconds,
        settings=settings,
    )
    if dry_run:
        _dry(config, as_json)
        return
    with console.progress(f"{env} {policy}") as progress:
        result = run.evaluate(config, progress)
    _show(result, data, as_json)
    low = fail_under is not None and result.summary["success_rate"] < fail_under
    code = console.INTERRUPTED if result.interrupted else console.OK if result.clean and not low else console.FAILED
    raise typer.Exit(code)


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    report: Annotated[Path | None, typer.Option(help="Write one page over all runs here.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Lay runs side by side: one table, and one page where asked for."""
    from agentenvs.harness.report import read_run, table, write_report

    found = [read_run(folder) for folder in runs]
    if report is not None:
        write_report(runs, report)
    if as_json:
        console.result([{"run": str(run.folder), "policy": run.name, **run.summary} for run in found])
        return
    console.out().print(table(found))
    if report is not None:
        typer.echo(f"report: {report}")


def _model(env: str, policy: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the settings of the model, where one plays, and the options its protocol sets on the environment."""
    from agentenvs.core import registry

    if policy != "openai":
        modelling.refuse(given)
        return None, {}
    from agentenvs.harness.openai import env_options

    settings = modelling.settings(given)
    return settings, env_options(registry.spec(env), settings)


def _order(stream: str, env: str, split: str | None, options: dict[str, Any]) -> tuple[int, ...]:
    """Read the declared order of a stream.

    Raises:
        ConfigError: It is no list of whole numbers, and no file of one.
    """
    from agentenvs.core import registry
    from agentenvs.core.errors import ConfigError

    if stream == "split":
        made = registry.make(env, **options)
        size = made.splits()[split or made.spec.default_split].size
        made.close()
        return tuple(range(size or 100))
    text = Path(stream).read_text(encoding="utf-8") if Path(stream).is_file() else stream
    try:
        return tuple(int(item) for item in text.replace(",", " ").split())
    except ValueError as error:
        raise ConfigError(
            f"{stream!r} is no order of episodes", why=str(error), fix="give 'split', indices such as 3,1,2, or a file"
        ) from error


def _dry(config: RunConfig, as_json: bool) -> None:
    from agentenvs.harness.run import plan

    planned = plan(config)
    said = {
        "env": planned.spec.id,
        "policy": config.policy,
        "split": planned.split.name,
        "panel": planned.split.panel,
        "episodes": len(planned.indices),
        "concurrency": 1 if config.order is not None else config.concurrency,
    }
    if as_json:
        console.result(said)
    else:
        typer.echo(" ".join(f"{name}={value}" for name, value in said.items()))


def _show(result: RunResult, data: str | None, as_json: bool) -> None:
    from agentenvs.harness.report import kind_table, next_steps, read_run

    panel = result.manifest.envs[0].panel
    if as_json:
        said = {
            "folder": str(result.folder),
            "clean": result.clean,
            "complete": result.complete,
            "panel": panel,
            "summary": result.summary,
            "manifest": json.loads(result.manifest.to_bytes()),
        }
        console.result(said)
        return
    read = read_run(result.folder)
    console.out().print(kind_table(read))
    if panel:
        typer.echo(f"panel:  {panel}")
    for episode in [item for item in result.episodes if item.error][:5]:
        typer.echo(f"{episode.split}/{episode.index} {episode.ending}: {console.safe(episode.error or '')}", err=True)
    typer.echo(f"report: {result.folder / 'report.html'}")
    again = f" --data {shlex.quote(data)}" if data else ""
    for what, command in next_steps(read):
        console.message(f"{what}: {command}{again}" if command else what)
