"""``leaderboard host`` and its kin: a board's own server of sealed scenarios, and how a contestant plays it."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import arguments, completing, console, evaluating, making, modelling
from agentenvs.core.errors import AgentEnvsError, ConfigError, DataError

if TYPE_CHECKING:
    from agentenvs.cli.settling import Admit
    from agentenvs.core.spec import SplitSpec

LOOK_SECONDS = 5.0
"""How often a host looks for tickets that are due."""

_HOUR = 3_600.0

_Folder: TypeAlias = Annotated[Path, typer.Argument(help="The host's folder.", metavar="FOLDER")]
_Store: TypeAlias = Annotated[
    Path | None, typer.Option("--store", help="Folder of a board: settled runs become rows of it.")
]


def add_to(verbs: typer.Typer) -> None:
    """Add the verbs to those of ``leaderboard``."""
    shown = arguments.examples(
        "leaderboard host household --folder host --board spring --episodes 100",
        "leaderboard host household --folder host --board spring --episodes 100 --own 20 --store board --port 8100",
    )
    verbs.command("host", epilog=shown)(host)
    verbs.command("ticket", epilog=arguments.examples("leaderboard ticket host Ada --agent planner-3 --hours 24"))(
        ticket
    )
    verbs.command("tickets", epilog=arguments.examples("leaderboard tickets host"))(tickets)
    verbs.command("settle", epilog=arguments.examples("leaderboard settle host --store board"))(settle)
    shown = arguments.examples(
        "leaderboard play --url http://127.0.0.1:8100 --policy expert",
        "leaderboard play --url http://127.0.0.1:8100 --policy exec:'python my_agent.py'",
    )
    verbs.command("play", epilog=shown)(modelling.with_model(play))
    shown = arguments.examples("leaderboard attest receipt.json --store board --on spring --trust KEY")
    verbs.command("attest", epilog=shown)(attest)
    shown = arguments.examples(
        "leaderboard reveal host --out revealed.json",
        "leaderboard reveal host --check revealed.json",
    )
    verbs.command("reveal", epilog=shown)(reveal)


def host(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment.", autocompletion=completing.envs)],
    folder: Annotated[Path, typer.Option(help="Where the host keeps its journal, its key and its promise.")],
    board: Annotated[str, typer.Option(help="Id of the board.")],
    episodes: Annotated[int, typer.Option(min=0, help="Sealed scenarios that all contestants have in common.")] = 100,
    own: Annotated[int, typer.Option(min=0, help="Further ones of each ticket.")] = 0,
    split: Annotated[str | None, typer.Option(help="Sealed split; the only one otherwise.")] = None,
    store: _Store = None,
    address: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for a free one.")] = 8000,
    ttl: Annotated[int, typer.Option(min=1, help="Seconds that an episode waits for its next turn.")] = 900,
    token_file: Annotated[str | None, typer.Option(help="File of tokens that control the server.")] = None,
    url_file: Annotated[Path | None, typer.Option(help="Write the address here once it answers.")] = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Serve a sealed split to holders of tickets, and enter what they played.

    The secret is read from AGENTENVS_SEALED_SECRET. Control needs a token always: $AGENTENVS_TOKEN or --token-file,
    else one that nobody is told. Every record is played again before it counts.
    """
    from agentenvs.cli import serving, settling
    from agentenvs.core import targets
    from agentenvs_servers import run
    from agentenvs_servers.settings import Settings

    spec = targets.spec_of(env)
    options = making.with_data(spec, making.parse_options(option, spec), data)
    sealed, public = _sealed(env, options, split)
    wanted = {"board": board, "env": spec.id, "split": sealed.name, "size": sealed.size or 0, "options": public}
    epoch = settling.begin(folder, {**wanted, "shared": episodes, "own": own})
    token = os.environ.get(serving.TOKEN_VARIABLE) or secrets.token_urlsafe()
    settings = Settings(
        tokens=() if token_file is not None else (token,),
        token_file=token_file,
        idle_ttl=ttl,
        max_idle_ttl=max(ttl, 86_400),
        doors="v1,mcp" if importlib.util.find_spec("mcp") else "v1",
    )
    console.message(f"promised of {board}: {epoch.commitment} (see {folder / 'published.json'})")
    with _settling(folder, store, option, data) as settler:

        def up(url: str) -> None:
            serving.tell([env], url, url_file, logged=False)
            settler.start()

        run.serve(
            [env],
            host=address,
            port=port,
            settings=settings,
            options=options,
            journal=str(folder / settling.JOURNAL),
            up=up,
        )


def _sealed(env: str, options: dict[str, Any], name: str | None) -> tuple[SplitSpec, dict[str, Any]]:
    """Return the sealed split that is to be hosted, and the options that belong to its episodes.

    Raises:
        ConfigError: There is none, or several and none was named.
    """
    from agentenvs.harness.stage import Stage

    made = Stage(env).make(options)
    try:
        found = [split for split in made.splits().values() if split.sealed and name in (None, split.name)]
        public = made.public_options()
    finally:
        made.close()
    if len(found) != 1:
        known = ", ".join(split.name for split in found) or "none"
        raise ConfigError(f"{env} has not one sealed split to host", why=f"found: {known}", fix="give --split")
    return found[0], public


class _Settler(threading.Thread):
    """Looks for tickets that are due, and has them settled by another process.

    Args:
        folder: The host's.
        command: What settles them.
    """

    def __init__(self, folder: Path, command: list[str]) -> None:
        super().__init__(name="agentenvs-settler", daemon=True)
        self._folder = folder
        self._command = command
        self.over = threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        from agentenvs.cli import settling

        wait = 0.0
        while not self.over.wait(wait):
            wait = LOOK_SECONDS
            try:
                if settling.due(self._folder):
                    done = subprocess.run(self._command, stdout=sys.stderr, check=False)  # noqa: S603 - our own verb
                    wait = LOOK_SECONDS if done.returncode == 0 else 12 * LOOK_SECONDS
            except AgentEnvsError as error:
                console.message(str(error))


@contextmanager
def _settling(folder: Path, store: Path | None, option: list[str], data: str | None) -> Iterator[_Settler]:
    more = [*(["--store", str(store)] if store else []), *(["--data", data] if data else [])]
    for pair in option:
        more += ["-o", pair]
    settler = _Settler(folder, [sys.executable, "-m", "agentenvs.cli", "leaderboard", "settle", str(folder), *more])
    try:
        yield settler
    finally:
        settler.over.set()
        if settler.is_alive():
            settler.join()


def ticket(
    folder: _Folder,
    contestant: Annotated[str, typer.Argument(help="Name that stands on the board.")],
    agent: Annotated[str, typer.Option(help="Name of what plays, as the contestant says.")] = "agent",
    hours: Annotated[float, typer.Option(help="How long it opens scenarios.")] = 24.0,
    again: Annotated[
        bool, typer.Option("--again", help="A further attempt at scenarios that the contestant has played.")
    ] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Issue a ticket, and print it: it is written down nowhere else."""
    from agentenvs.cli import settling

    made, held = settling.issue(folder, contestant, hours * _HOUR, agent=agent, again=again)
    if as_json:
        said = {"ticket": made, "name": held.name, "scenarios": len(held.numbers), "attempt": held.attempt}
        console.result(said)
        return
    typer.echo(made)
    console.message(f"{held.name}: {len(held.numbers)} scenarios for {contestant} in {hours:g} hours")


def tickets(
    folder: _Folder,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """List the tickets of a host. The tickets themselves stand nowhere: each is shown by its public name."""
    from agentenvs.cli import settling

    found = settling.lines(folder)
    if as_json:
        console.result([line._asdict() for line in found])
        return
    for line in found:
        said = f"{line.ticket}  {line.contestant} #{line.attempt}  opened {line.opened} of {line.planned}  {line.state}"
        typer.echo(console.safe(said))
    console.message(f"{len(found)} ticket(s)")


def settle(
    folder: _Folder,
    store: _Store = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Play again what was played on tickets whose time is over, and enter it; the host does so by itself.

    Exit code 1 where a ticket could not be settled; it stays due.
    """
    from agentenvs.cli import settling
    from agentenvs.core import targets
    from agentenvs.leaderboard.hosting import epoch as epochs

    spec = targets.spec_of(epochs.read(folder).env)
    secret = {one.name for one in spec.options if one.secret}
    options = making.with_data(spec, making.parse_options(option, spec), data)
    machine = {name: value for name, value in options.items() if name in secret}
    done, failed = [], 0
    for one in settling.settle(folder, machine, _admission(store)):
        if not isinstance(one, settling.Settled):
            name, error = one
            console.message(f"{name} stays due: {error}")
            failed += 1
            continue
        result = one.result
        said = f"{result.successes} of {len(result.episodes)} won, {result.unopened} never opened"
        console.message(f"{result.ticket} of {result.contestant}: {said}; receipt: {one.receipt}")
        done.append({"ticket": result.ticket, "receipt": str(one.receipt), "row": one.row, "won": result.successes})
    if as_json:
        console.result(done)
    if failed:
        raise typer.Exit(console.FAILED)


def _admission(store: Path | None) -> Admit | None:
    if store is None:
        return None
    from agentenvs.leaderboard.receiving import admit_hosted

    return lambda result: admit_hosted(store, result, None)


def play(
    url: Annotated[str, typer.Option(help="The host's server.", metavar="URL")],
    policy: Annotated[
        str,
        typer.Option(
            help="A player of the environment, openai, MODULE:FACTORY, or exec:'COMMAND'.",
            autocompletion=completing.policies,
        ),
    ],
    ticket: Annotated[str, typer.Option(envvar="AGENTENVS_TICKET", help="As the operator issued it.")],
    out: Annotated[Path | None, typer.Option(help="Run folder; a new one under runs/ otherwise.")] = None,
    episode_seconds: Annotated[float | None, typer.Option(help="Wall limit of an episode.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
    **model: Any,
) -> None:
    """Play the sealed scenarios of a ticket, one after another; what runs goes on where it stands.

    The folder it leaves is for you: its records are redacted. The host counts what its own server has.
    """
    from agentenvs.client import TicketEnv
    from agentenvs.harness.run import RunConfig, evaluate

    with TicketEnv(ticket, url) as env:
        spec, standing = env.spec, env.standing
    settings, _ = evaluating.model_of(spec, policy, model)
    config = RunConfig(
        spec.id,
        policy,
        out=out,
        episode_seconds=episode_seconds,
        settings=settings,
        url=url,
        ticket=ticket,
    )
    result = evaluating.played(config, evaluate)
    won = sum(episode.success for episode in result.episodes)
    if as_json:
        console.result({"ticket": standing.ticket, "folder": str(result.folder), "summary": result.summary})
    else:
        typer.echo(f"{standing.ticket}: {won} of {len(result.episodes)} won; {standing.planned} on the ticket")
        typer.echo(f"report: {result.folder / 'report.html'}")
    raise typer.Exit(evaluating.exit_code(result, None))


def attest(
    receipt: Annotated[Path, typer.Argument(help="As its host signed it.")],
    on: Annotated[str, typer.Option("--on", help="Id of the board.")],
    store: Annotated[Path, typer.Option("--store", help="Folder of the boards.")] = Path("board"),
    trust: Annotated[
        list[str],
        typer.Option("--trust", help="Public key of a host, as its published.json says; more in STORE/trusted.keys."),
    ] = [],  # noqa: B006 - typer reads the default
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Enter a hosted run by its signed receipt, on a board that has not the secret."""
    from agentenvs.leaderboard import receipts
    from agentenvs.leaderboard.hosting import attesting

    with console.files():
        data = receipt.read_bytes()
    row = attesting.attest(store, data, on, receipts.trusted(*trust))
    if as_json:
        console.result({"row": row})
    else:
        typer.echo(row)


def reveal(
    folder: _Folder,
    out: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    check: Annotated[
        Path | None, typer.Option(help="Hold what was revealed against what the folder published, and every run in it.")
    ] = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Reveal the secret of a board that is over, or check one that was revealed.

    To check, the folder needs published.json and, for what was played, runs/: all of it the operator may publish then.
    """
    from agentenvs.leaderboard.hosting import epoch as epochs
    from agentenvs.leaderboard.hosting import rechecking

    if check is not None:
        runs = rechecking.recheck(folder, _json(check))
        typer.echo(f"what was promised was kept; {runs} run(s) played again, each worth what it was given")
        return
    text = json.dumps(epochs.read(folder).reveal(), sort_keys=True) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    epochs.write_private(out, text.encode())


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read", why=str(error)[:200]) from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no object")
    return found
