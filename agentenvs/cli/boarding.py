"""``leaderboard``: boards of results that were computed again by whoever shows them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import arguments, console, hosting
from agentenvs.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from agentenvs.leaderboard.boards import Board
    from agentenvs.leaderboard.bundle import Submission
    from agentenvs.leaderboard.unpacking import Bundle

TOKEN = "AGENTENVS_LEADERBOARD_TOKEN"

Store: TypeAlias = Annotated[Path, typer.Option("--store", help="Folder of the boards.", metavar="FOLDER")]
Db: TypeAlias = Annotated[
    str | None, typer.Option("--db", help="Another database than the folder's own: postgresql://…", metavar="URL")
]
Where: TypeAlias = Annotated[
    str, typer.Option("--board", help="http://HOST:PORT/boards/ID, or the folder of a store.", metavar="BOARD")
]
On: TypeAlias = Annotated[str | None, typer.Option("--on", help="Id of the board, where there are several.")]
Name: TypeAlias = Annotated[str, typer.Option("--name", help="Contestant: who sends it.")]
Agent: TypeAlias = Annotated[str | None, typer.Option("--agent", help="Name of the agent; the run's policy otherwise.")]
Version: TypeAlias = Annotated[str, typer.Option("--agent-version", help="Of the agent.")]
Contact: TypeAlias = Annotated[str, typer.Option("--contact", help="For whoever runs the board; never shown.")]
Notes: TypeAlias = Annotated[str, typer.Option("--notes", help="Shown on the page of the row.")]
Image: TypeAlias = Annotated[
    str | None, typer.Option("--image", help="Digest of the image that played the worlds: sha256:…")
]
RunFolder: TypeAlias = Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")]

DEFAULT_STORE = Path("board")


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    verbs = typer.Typer(
        help="Boards of results that are computed again by whoever shows them.",
        epilog=arguments.examples(
            "leaderboard create household --split test --store board",
            "leaderboard serve --store board",
            "leaderboard submit runs/a --board http://127.0.0.1:8090 --name Ada",
        ),
    )
    shown = arguments.examples(
        "leaderboard create household", "leaderboard create webshop --episodes 100 --trials 4 --anchors none"
    )
    verbs.command("create", epilog=shown)(create)
    verbs.command("ls", epilog=arguments.examples("leaderboard ls --store board"))(ls)
    verbs.command("pack", epilog=arguments.examples("leaderboard pack runs/a --name Ada --out a.zip"))(pack)
    shown = arguments.examples("leaderboard verify runs/a", "leaderboard verify a.zip --board board")
    verbs.command("verify", epilog=shown)(verify)
    shown = arguments.examples(
        "leaderboard submit runs/a --board board --name Ada",
        "leaderboard submit runs/a --board https://boards.example.org --name Ada --agent searcher",
    )
    verbs.command("submit", epilog=shown)(submit)
    shown = arguments.examples(
        "leaderboard serve --store board", "leaderboard serve --store board --host 0.0.0.0 --tokens tokens.txt"
    )
    verbs.command("serve", epilog=shown)(serve)
    verbs.command("build", epilog=arguments.examples("leaderboard build --store board --out site"))(build)
    verbs.command("rescore", epilog=arguments.examples("leaderboard rescore BOARD --store board"))(rescore)
    hosting.add_to(verbs)
    app.add_typer(verbs, name="leaderboard")


def create(
    env: arguments.Env,
    split: arguments.Split = None,
    episodes: Annotated[int | None, typer.Option("--episodes", help="Scenarios; the whole split otherwise.")] = None,
    start: Annotated[int, typer.Option("--start", help="Index of the first.")] = 0,
    trials: Annotated[int, typer.Option("--trials", help="How often each is played.")] = 1,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    image: Annotated[str | None, typer.Option("--image", help="Take only worlds of this image: sha256:…")] = None,
    attempts: Annotated[int, typer.Option("--attempts", help="Submissions of one contestant.")] = 10,
    title: Annotated[str, typer.Option("--title", help="What people call it.")] = "",
    anchors: Annotated[
        str,
        typer.Option("--anchors", help="measured: play the built-in players now; card: as the score card says; none."),
    ] = "measured",
    store: Store = DEFAULT_STORE,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Make a board: one environment, one list of scenarios, one scoring."""
    from agentenvs.cli import making
    from agentenvs.core import registry
    from agentenvs.leaderboard import anchors as yardsticks
    from agentenvs.leaderboard.boards import Wanted, plan
    from agentenvs.leaderboard.store import opened
    from agentenvs.leaderboard.texts import check_text

    if anchors not in ("measured", "card", "none"):
        raise ConfigError(f"anchors cannot be {anchors!r}", fix="measured, card or none")
    options = making.parse_options(option, registry.spec(env))
    board = plan(Wanted(env, split, episodes, start, trials, options, image, attempts, check_text(title, "title", 80)))
    with opened(store, db, _machine(board, options)) as boards:
        new = boards.make(board)
        if not new:
            console.message("the board is there already")
        elif anchors == "measured" and not board.sealed:
            with console.progress("yardsticks", "done") as told:
                yardsticks.measure(boards, board.id, told=lambda name, done, total: told(done, total, done))
        elif anchors != "none":
            yardsticks.from_card(boards, board.id)
    if as_json:
        console.result({"id": board.id, "new": new, **board.to_json()})
    else:
        typer.echo(board.id)
        console.message(f"{board.scenarios} scenarios of {board.env} {board.split}")


def _machine(board: Board, options: dict[str, Any]) -> dict[str, Any]:
    from agentenvs.leaderboard.boards import machine_options

    return machine_options(board, options)


def ls(
    store: Store = DEFAULT_STORE,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """List the boards of a store."""
    from agentenvs.leaderboard import asking
    from agentenvs.leaderboard.store import opened

    _must_be_there(store)
    with opened(store, db) as boards:
        found = asking.listed(boards)
    if as_json:
        console.result([shown.to_json() for shown in found])
        return
    for shown in found:
        state = "open" if shown.open else f"closed, now {shown.successor}"
        typer.echo(console.safe(f"{shown.id}  {shown.name}  {shown.entries} entries  {state}"))
    console.message(f"{len(found)} board(s)")


def pack(
    run: RunFolder,
    name: Name,
    out: Annotated[Path, typer.Option("--out", help="File to write.")],
    agent: Agent = None,
    agent_version: Version = "",
    contact: Contact = "",
    notes: Notes = "",
    image: Image = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Put a run into the one file that is sent."""
    from agentenvs.core.canon import sha256
    from agentenvs.leaderboard.bundle import pack_folder

    data = pack_folder(run, _submission(run, name, agent, agent_version, contact, notes, image))
    with console.files():
        out.write_bytes(data)
    if as_json:
        console.result({"file": str(out), "bytes": len(data), "sha256": sha256(data)})
    else:
        typer.echo(f"{out}  {len(data):,} bytes  {sha256(data)}")


def _submission(
    run: Path, name: str, agent: str | None, version: str, contact: str, notes: str, image: str | None
) -> Submission:
    from agentenvs.harness.manifest import read_manifest
    from agentenvs.leaderboard.bundle import Submission

    played = agent or read_manifest(run / "manifest.json").agent.name
    try:
        return Submission(contestant=name, agent=played, version=version, contact=contact, notes=notes, image=image)
    except ValueError as error:
        raise ConfigError(
            "the submission cannot be made", why=str(error).partition("\n")[0], fix="check --image"
        ) from error


def verify(
    path: Annotated[Path, typer.Argument(help="A bundle, or a run folder.", metavar="BUNDLE|RUN")],
    board: Annotated[
        str | None, typer.Option("--board", help="Hold it against this board; against its own plan otherwise.")
    ] = None,
    on: On = None,
    option: Annotated[
        list[str], typer.Option("--option", "-o", help="An option that belongs to this machine, such as data=FOLDER.")
    ] = [],  # noqa: B006 - typer reads the default
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Play every record again, as a board would, and say what it is worth. Exit code 1 where it is refused."""
    import tempfile

    from agentenvs.leaderboard import clean
    from agentenvs.leaderboard.boards import machine_options
    from agentenvs.leaderboard.refusals import Refused
    from agentenvs.leaderboard.verifying import Terms

    machine = _pairs(option)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            file, bundle = _bundle(path, Path(scratch))
            against = _against(bundle, board, on, machine)
            terms = Terms(machine=machine_options(against, machine))
            with console.progress("verify", "played again") as told:
                found = clean.verified(file, against, terms, progress=lambda done, total: told(done, total, done))
    except Refused as refused:
        raise _tell_refused(refused, as_json) from refused
    episodes = found.verified.episodes
    won = sum(one.success for one in episodes)
    if as_json:
        console.result({"board": against.id, "digest": found.digest, "successes": won, **found.verified.to_json()})
    else:
        typer.echo(
            f"{len(episodes)} of {len(episodes)} records happen again: {won} won ({100 * won / len(episodes):.1f} %)"
        )
        console.message(f"held against {against.id}")


def _bundle(path: Path, scratch: Path) -> tuple[Path, Bundle]:
    from agentenvs.leaderboard import unpacking
    from agentenvs.leaderboard.bundle import Submission, pack_folder

    with console.files():
        if path.is_dir():
            file = scratch / "bundle.zip"
            file.write_bytes(pack_folder(path, Submission(contestant="verify", agent="verify")))
        else:
            file = path
        return file, unpacking.read(file.read_bytes())


def _against(bundle: Bundle, board: str | None, on: str | None, machine: dict[str, Any]) -> Board:
    """Return the board a bundle is held against: the one that is named, or its own plan."""
    from agentenvs.core import registry
    from agentenvs.core.record import parse_records
    from agentenvs.leaderboard.boards import Board, Wanted, plan
    from agentenvs.leaderboard.refusals import Refused
    from agentenvs.leaderboard.sending import Target

    made = bundle.manifest
    if made is None:
        raise Refused("no-bundle", "there is no manifest in it", fix="make it with `agentenvs leaderboard pack`")
    if board is not None:
        target = Target(board)
        named = target.choose(made, on)
        form = next((one for one in target.boards() if one["id"] == named), None)
        if form is None:
            raise Refused("no-board", f"there is no board {named!r}", fix="agentenvs leaderboard ls")
        return Board.from_json({name: form[name] for name in Board.__dataclass_fields__})
    entry = made.envs[0]
    options = json.loads(entry.options)
    known = {option.name: option.default for option in registry.spec(entry.env_id).options}
    changed = {name: value for name, value in options.items() if name in known and known[name] != value}
    first = min(record.ref.index for data in bundle.records for record in parse_records(data)[:1])
    secret = {option.name for option in registry.spec(entry.env_id).options if option.secret}
    mine = {name: value for name, value in machine.items() if name in secret}
    return plan(Wanted(entry.env_id, entry.split, entry.tasks, first, entry.trials, {**changed, **mine}))


def _pairs(option: list[str]) -> dict[str, Any]:
    found = dict(pair.partition("=")[::2] for pair in option)
    if missing := [pair for pair in option if "=" not in pair]:
        raise ConfigError(f"{missing[0]!r} is no option", fix="write name=value")
    return found


def _tell_refused(refused: Any, as_json: bool) -> typer.Exit:
    if as_json:
        console.result({"refused": refused.to_json()})
    typer.echo(console.safe(f"refused: {refused}"), err=True)
    return typer.Exit(console.FAILED)


def submit(
    run: RunFolder,
    board: Where,
    name: Name,
    on: On = None,
    agent: Agent = None,
    agent_version: Version = "",
    contact: Contact = "",
    notes: Notes = "",
    image: Image = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Send a run to a board, and print its row or why it is refused. Exit code 1 where it is refused.

    A server that asks for a token is given that of AGENTENVS_LEADERBOARD_TOKEN.
    """
    from agentenvs.harness.manifest import read_manifest
    from agentenvs.leaderboard.bundle import pack_folder
    from agentenvs.leaderboard.refusals import Refused
    from agentenvs.leaderboard.sending import Target

    try:
        data = pack_folder(run, _submission(run, name, agent, agent_version, contact, notes, image))
        target = Target(board, os.environ.get(TOKEN, ""))
        chosen = target.choose(read_manifest(run / "manifest.json"), on)
        with console.progress("verify", "played again") as told:
            row = target.send(chosen, data, lambda done, total: told(done, total, done))
    except Refused as refused:
        raise _tell_refused(refused, as_json) from refused
    if as_json:
        console.result({"board": chosen, "entry": row})
        return
    place = f"{row['best']}-{row['worst']}" if row["best"] != row["worst"] else str(row["best"])
    typer.echo(
        console.safe(
            f"{row['contestant']}  {row['agent']}  {100 * row['rate']:.1f} % ({100 * row['low']:.1f} to "
            f"{100 * row['high']:.1f})  place {place}  {row['tier']}  attempt {row['attempt']}"
        )
    )
    console.message(f"on {chosen} as {row['id']}")


def serve(
    store: Store = DEFAULT_STORE,
    db: Db = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 for a free one.")] = 8090,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="File of lines TOKEN CONTESTANT: who may submit.", metavar="FILE")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show boards, and take nothing.")] = False,
    allow_host: Annotated[
        list[str], typer.Option("--allow-host", help="Another name the server is called by; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the default
    workers: Annotated[int, typer.Option("--workers", help="Verifications at a time.")] = 1,
    option: Annotated[
        list[str], typer.Option("--option", "-o", help="An option that belongs to this machine, such as data=FOLDER.")
    ] = [],  # noqa: B006 - typer reads the default
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Serve the boards of a store: pages, JSON, and submissions, each played again before it is shown."""
    import uvicorn

    from agentenvs.leaderboard.app import Service, make_app
    from agentenvs.leaderboard.queueing import Queue
    from agentenvs.leaderboard.store import opened

    known = _tokens(tokens)
    local = host in ("127.0.0.1", "localhost", "::1")
    if not local and not known and not read_only:
        raise ConfigError(
            f"boards at {host} would take submissions of everybody",
            why="attempts are counted by contestant, and anybody could be any",
            fix="give --tokens FILE, or --read-only",
        )
    if workers < 1:
        raise ConfigError(f"{workers} workers verify nothing", fix="give 1 or more")
    hosts = ["127.0.0.1", "localhost", "[::1]", *allow_host, *([] if local or allow_host else ["*"])]
    with opened(store, db, _pairs(option)) as boards:
        service = Service(boards, Queue(boards, workers), known, hosts, open=not read_only)
        config = uvicorn.Config(
            make_app(service), host=host, port=port, log_level="warning", server_header=False, timeout_keep_alive=15
        )
        server = uvicorn.Server(config)
        sockets = [config.bind_socket()]
        sockets[0].listen(config.backlog)  # whoever reads the address may call at once
        address = f"http://{'127.0.0.1' if local else host}:{sockets[0].getsockname()[1]}"
        typer.echo(f"boards at {address}", err=quiet)
        sys.stdout.flush()
        server.run(sockets=sockets)


def _tokens(file: Path | None) -> dict[str, str]:
    """Read the tokens of contestants."""
    from agentenvs.leaderboard.texts import check_name, key_of

    if file is None:
        return {}
    found: dict[str, str] = {}
    with console.files():
        lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        token, _, name = line.strip().partition(" ")
        if not token or token.startswith("#"):
            continue
        if len(token) < 16 or not name.strip() or token in found:
            raise DataError(f"line {number} of {file} is no token", fix="16 or more characters, a blank, a contestant")
        mine = check_name(name.strip(), "contestant")
        if any(other != mine and key_of(other) == key_of(mine) for other in found.values()):
            raise DataError(f"line {number} of {file} names {mine}, who looks like another", fix="give another name")
        found[token] = mine
    return found


def build(
    out: Annotated[Path, typer.Option("--out", help="Folder to write.", metavar="FOLDER")],
    store: Store = DEFAULT_STORE,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write the boards as files that need no server."""
    from agentenvs.leaderboard.building import build as built
    from agentenvs.leaderboard.store import opened

    _must_be_there(store)
    with opened(store, db) as boards:
        number = built(boards, out)
    if as_json:
        console.result({"out": str(out), "files": number})
    else:
        typer.echo(f"{number} files in {out}; open {out / 'index.html'}")


def rescore(
    board: Annotated[str, typer.Argument(help="Id of the board.", metavar="BOARD")],
    store: Store = DEFAULT_STORE,
    db: Db = None,
    option: Annotated[
        list[str], typer.Option("--option", "-o", help="An option that belongs to this machine, such as data=FOLDER.")
    ] = [],  # noqa: B006 - typer reads the default
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Score a board again where the scoring was changed: a new board with both scores; the old one is closed."""
    from agentenvs.leaderboard.rescoring import rescore as again
    from agentenvs.leaderboard.store import opened

    _must_be_there(store)
    with opened(store, db, _pairs(option)) as boards, console.progress("rescore", "entries") as told:
        found = again(boards, board, lambda done, total: told(done, total, done))
    if as_json:
        lost = [{"entry": entry, "why": why} for entry, why in found.lost]
        console.result({"board": found.board, "entries": found.entries, "moved": found.moved, "lost": lost})
        return
    typer.echo(f"{found.board}  {found.entries} entries, {found.moved} with another score than before")
    for entry, why in found.lost:
        console.message(f"{entry[:12]} was not taken over: {why}")


def _must_be_there(store: Path) -> None:
    if not store.is_dir():
        raise ConfigError(f"there are no boards in {store}", fix="agentenvs leaderboard create ENV, or give --store")
