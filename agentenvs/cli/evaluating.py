"""``eval``: play a policy over a split."""

from __future__ import annotations

import importlib.util
import json
import secrets
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from agentenvs.cli import arguments, completing, console, making, modelling, resuming
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.core.spec import EnvSpec
    from agentenvs.harness.run import RunConfig, RunResult
    from agentenvs.harness.stage import Stage

_MOST_FAILURES = 5
"""Failed episodes that are named; all are in the run folder."""

_Env: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        help="Environment: household, an id, FILE.py, FILE.py:CLASS or MODULE:CLASS.",
        metavar="ENV",
        autocompletion=completing.envs,
    ),
]
_Policy: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="A player, openai, hf:PATH (a model's folder), MODULE:FACTORY, or exec:'COMMAND' (a process an episode).",
        autocompletion=completing.policies,
    ),
]
_Stream: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--stream",
        help="One policy through a declared order of episodes: 'split', indices 3,1,2, or a file of them.",
    ),
]
_Backend: TypeAlias = Annotated[
    Literal["local", "ray"], typer.Option("--backend", help="Where episodes are played: here, or on a Ray cluster.")
]
_Address: TypeAlias = Annotated[
    str | None, typer.Option("--address", help="Of the Ray cluster: HOST:PORT, or auto; a new one here otherwise.")
]
_Ticket: TypeAlias = Annotated[
    str | None,
    typer.Option("--ticket", envvar="AGENTENVS_TICKET", help="Plays the sealed scenarios of a board; see hosting.md."),
]
_FailUnder: TypeAlias = Annotated[
    float | None,
    typer.Option("--fail-under", min=0, max=1, help="Exit 1 where the success rate, from 0 to 1, is lower."),
]


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "eval household --policy expert --episodes 12 --concurrency 2",
        "eval household --policy oracle --data json_2.1.1 --split valid_unseen --out runs/oracle",
        "eval household --policy my_module:MyPolicy -o admissible=true --fail-under 0.5",
        "eval household --policy my_module:Learner --stream 3,1,2 --reward-visible true",
        "eval household --policy expert --url http://127.0.0.1:8000 --concurrency 16",
        "eval household --policy exec:'python my_agent.py' --concurrency 4 --episode-seconds 600",
        "eval household --policy exec:'python my_agent.py' --model m --base-url http://localhost:8000/v1",
        "eval household --policy expert --backend ray --address auto --concurrency 64",
        "eval household --policy openai --model m --base-url http://localhost:8000/v1 --protocol react",
        "eval household --policy hf:runs/first/model --temperature 0 --concurrency 16",
        "eval --resume runs/demo --retry-errors",
    )
    app.command("eval", epilog=shown)(modelling.with_model(evaluate))


def evaluate(
    ctx: typer.Context,
    env: _Env = None,
    policy: _Policy = None,
    split: arguments.Split = None,
    episodes: Annotated[int | None, typer.Option(help="How many; the whole split otherwise.")] = None,
    start: Annotated[int, typer.Option(help="Index (or seed) of the first.")] = 0,
    trials: Annotated[int, typer.Option(help="How often each is played, every time from the start.")] = 1,
    concurrency: Annotated[int, typer.Option(help="Episodes at a time.")] = 1,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    url: arguments.Url = None,
    ticket: _Ticket = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; a new one under runs/ otherwise.")] = None,
    resume: resuming.Resume = None,
    retry_errors: resuming.RetryErrors = False,
    stream: _Stream = None,
    reward_visible: Annotated[
        Literal["none", "true", "flipped", "random"],
        typer.Option(help="What a policy that learns in a stream sees of the reward."),
    ] = "none",
    episode_seconds: Annotated[float | None, typer.Option(help="Wall limit of an episode.")] = None,
    budget_tokens: resuming.BudgetTokens = None,
    budget_seconds: resuming.BudgetSeconds = None,
    budget_dollars: resuming.BudgetDollars = None,
    backend: _Backend = "local",
    address: _Address = None,
    fail_under: _FailUnder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be played, and stop.")] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
    **model: Any,
) -> None:
    """Play a policy over a split; leaves a run folder with records, numbers and a report.

    Exit code 1 where something failed outside the worlds, or below --fail-under; 4 where a budget ended the run.
    """
    from agentenvs.harness import run
    from agentenvs.harness.planning import served_sealed
    from agentenvs.harness.stage import Stage

    budget = resuming.budget(budget_tokens, budget_seconds, budget_dollars)
    if resume is not None:
        config = resuming.config(ctx, resume, option, data, url, budget)
    else:
        env, policy = resuming.named(env, policy, retry_errors)
        stage = Stage(env, url, ticket=ticket)
        settings, protocol_options = model_of(stage.spec, policy, model)
        if protocol_options and served_sealed(stage, split):
            protocol_options = {}  # a sealed scenario is shown to everybody as its server shows it
        options = {**protocol_options, **making.with_data(stage.spec, making.parse_options(option, stage.spec), data)}
        config = run.RunConfig(
            env=env,
            policy=policy,
            split=split,
            episodes=episodes,
            start=start,
            concurrency=concurrency,
            options=options,
            out=out,
            order=None if stream is None else _order(stream, stage, split, options, episodes),
            reward_visible=reward_visible,
            episode_seconds=episode_seconds,
            trials=trials,
            budget=budget,
            settings=settings,
            url=url,
            ticket=ticket,
        )
    config = replace(config, backend=backend, address=address)
    if dry_run:
        _dry(config, as_json)
        return
    play = run.evaluate if resume is None else partial(run.resume, retry_errors=retry_errors)
    result = played(config, play)
    _show(result, lambda command: _ready(command, config, option, data), as_json)
    raise typer.Exit(exit_code(result, fail_under))


def played(config: RunConfig, play: Callable[..., RunResult]) -> RunResult:
    """Play a run with everything that a command line has around it: progress, signals, a server for programs."""
    with (
        console.progress(f"{config.env} {config.policy}", "won") as progress,
        console.files(),
        console.own_output(),
        _winding_down(),
        _server_for(config) as served,
    ):
        return play(served, progress=progress)


def model_of(spec: EnvSpec, policy: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the settings of the model, where one plays, and the options its protocol sets on the environment."""
    from agentenvs.harness.program import is_program

    if is_program(policy):
        return modelling.proxy_settings(given), {}
    folder = policy.removeprefix("hf:") if policy.startswith("hf:") else None
    if policy != "openai" and folder is None:
        modelling.refuse(given)
        return None, {}
    from agentenvs.harness.openai import env_options

    settings = modelling.settings(given) if folder is None else modelling.folder_settings(given, folder)
    return settings, env_options(spec, settings)


def _order(
    stream: str, stage: Stage, split: str | None, options: dict[str, Any], episodes: int | None
) -> tuple[int, ...]:
    """Read the declared order of a stream.

    Raises:
        ConfigError: It is no list of whole numbers, and no file of one.
        DataError: Its file cannot be read.
    """
    from agentenvs.harness.run import ENDLESS_EPISODES

    if stream == "split":
        return tuple(range(_size(stage, split, options) or episodes or ENDLESS_EPISODES))
    with console.files():
        text = Path(stream).read_text(encoding="utf-8") if Path(stream).is_file() else stream
    try:
        return tuple(int(item) for item in text.replace(",", " ").split())
    except ValueError as error:
        raise ConfigError(
            f"{stream!r} is no order of episodes", why=str(error), fix="give 'split', indices such as 3,1,2, or a file"
        ) from error


def _size(stage: Stage, split: str | None, options: dict[str, Any]) -> int | None:
    """Return the number of scenarios in a split; None for an endless one.

    Raises:
        SplitError: There is no such split.
    """
    from agentenvs.core.task import TaskRef

    made = stage.make(options)
    try:
        name = split or made.spec.eval_split or made.spec.default_split
        made.check_ref(TaskRef(name, 0))
        return made.splits()[name].size
    finally:
        made.close()


def _dry(config: RunConfig, as_json: bool) -> None:
    from agentenvs.harness.run import plan

    planned = plan(config)
    said = {
        "env": planned.spec.id,
        "policy": config.policy,
        "split": planned.split.name,
        "panel": planned.split.panel,
        "episodes": len(planned.indices),
        "first": planned.indices[0],
        "last": planned.indices[-1],
        "concurrency": planned.workers(config),
        "options": planned.options,
        "trials": config.trials,
        "budgets": planned.budgets,
        "protocol": getattr(config.settings, "protocol", None),
    }
    if as_json:
        console.result(said)
        return
    for name, value in said.items():
        if value is not None:
            typer.echo(f"{name:12} {value if isinstance(value, str) else json.dumps(value)}")


def _show(result: RunResult, ready: Callable[[str], str], as_json: bool) -> None:
    from agentenvs.harness.report import kind_table, next_steps, read_run

    panel = result.manifest.envs[0].panel
    for episode in [item for item in result.episodes if item.error][:_MOST_FAILURES]:
        console.message(f"{episode.split}/{episode.index} {episode.ending}: {episode.error}")
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
    console.out(markup=True).print(kind_table(read))
    if panel:
        typer.echo(f"panel:  {panel}")
    _tell_standing(result)
    typer.echo(f"report: {result.folder / 'report.html'}")
    for what, command in next_steps(read):
        console.message(f"{what}: {ready(command)}" if command else what)


def _tell_standing(result: RunResult) -> None:
    """Say what was not played, and what was played more than once."""
    said, folder = result.summary, shlex.quote(str(result.folder))
    if said["ended_by"] not in (None, "interrupt"):
        typer.echo(f"ended:  the budget of {said['ended_by']}; {said['not_started']} of {said['planned']} not started")
    if said["not_started"]:
        console.message(f"Go on with it: agentenvs eval --resume {folder}")
    if said["restarted"] or said["retried"]:
        typer.echo(f"again:  {said['restarted']} attempt(s) lost and begun again, {said['retried']} episode(s) retried")
    if said["infrastructure"] and result.complete:
        console.message(
            f"{said['infrastructure']} failed by a world, a server or an endpoint; play only these again: "
            f"agentenvs eval --resume {folder} --retry-errors"
        )


@contextmanager
def _server_for(config: RunConfig) -> Iterator[RunConfig]:
    """Serve what a program is to play where no server was named; for its agent keys, and for nothing else of its."""
    from agentenvs.harness.program import is_program

    if config.url is not None or config.backend != "local" or not is_program(config.policy):
        yield config
        return
    from agentenvs_servers.run import background
    from agentenvs_servers.settings import Settings

    token = secrets.token_urlsafe()
    machine = {name: config.options[name] for name in config.stage().machine_options(config.options)}
    doors = "v1,mcp" if importlib.util.find_spec("mcp") else "v1"
    with background([config.env], Settings(tokens=(token,), doors=doors), machine) as url:
        yield replace(config, url=url, token=token)


@contextmanager
def _winding_down() -> Iterator[None]:
    """Take what a cluster sends before it kills as Ctrl-C: running episodes are closed and written."""
    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if main and hasattr(signal, name)]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(result: RunResult, fail_under: float | None) -> int:
    """Return what a command line that played a run exits with."""
    if result.interrupted:
        return console.INTERRUPTED
    if result.manifest.ended_by is not None:
        return console.BUDGET
    if not result.clean:
        return console.UNREACHABLE if _out_of_reach(result) else console.FAILED
    low = fail_under is not None and result.summary["success_rate"] < fail_under
    return console.FAILED if low else console.OK


def _out_of_reach(result: RunResult) -> bool:
    """Return whether no episode came to its end because a service stayed away in each."""
    return all(episode.fault == "service" for episode in result.episodes)


def _ready(command: str, config: RunConfig, option: list[str], data: str | None) -> str:
    """Return a command line to try next with what this one was given of the world."""
    from agentenvs.core import targets

    play, url = command.startswith("agentenvs play"), config.url
    if targets.is_source(config.env):
        where = shlex.quote(config.env)
        verb, name, *rest = command.split(" ")[1:]
        command = " ".join(["agentenvs", verb, where if play else name, *rest, *([] if play else ["--env", where])])
    more = [f"-o {shlex.quote(pair)}" for pair in option] if play else []
    if url is not None:
        return " ".join([command, *more, *([f"--url {shlex.quote(url)}"] if play else [])])
    return " ".join([command, *more, *([f"--data {shlex.quote(data)}"] if data else [])])
