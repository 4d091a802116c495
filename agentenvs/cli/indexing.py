"""``runs``: an index over run folders. The folders stay the truth; the index can be thrown away and made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from agentenvs.harness.runs.frontier import Point

Db: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar="AGENTENVS_RUNS_DB",
        help="The index: a file, or a postgresql:// URL; this user's own otherwise.",
        metavar="DB",
    ),
]
Env: TypeAlias = Annotated[str | None, typer.Option("--env", help="Only of this environment.")]
PolicyName: TypeAlias = Annotated[str | None, typer.Option("--policy", help="Only of this player.")]
ModelName: TypeAlias = Annotated[str | None, typer.Option("--model", help="Only of this model.")]
Split: TypeAlias = Annotated[str | None, typer.Option("--split", help="Only on this split.")]
State: TypeAlias = Annotated[str | None, typer.Option("--state", help="Only complete, ended or open ones.")]
Since: TypeAlias = Annotated[str | None, typer.Option("--since", help="Begun since 2026-11-30, or 12h, 7d, 2w ago.")]
Tag: TypeAlias = Annotated[str | None, typer.Option("--tag", help="Only those filed under this.")]
Named: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Runs: the beginning of a name, or a folder.", metavar="[RUN]...")
]

_SHOWN = 18
"""Characters of a run's name that are shown: the time of its beginning, and enough to tell runs of a moment apart."""


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    verbs = typer.Typer(
        help="An index over run folders: list them, ask, export. The folders stay the truth.",
        epilog=arguments.examples("runs index runs", "runs ls --env household --since 7d", "runs export --csv all.csv"),
    )
    shown = arguments.examples(
        "runs index runs", "runs index runs/demo/oracle --tag paper", "runs index runs --db r.db"
    )
    verbs.command("index", epilog=shown)(index)
    shown = arguments.examples("runs ls", "runs ls --env household --since 7d", "runs ls --tag paper --json")
    verbs.command("ls", epilog=shown)(ls)
    verbs.command("show", epilog=arguments.examples("runs show 0199", "runs show runs/demo/oracle --json"))(show)
    shown = arguments.examples("runs export --csv all.csv", "runs export --tag paper --parquet paper.parquet")
    verbs.command("export", epilog=shown)(export)
    verbs.command("rm", epilog=arguments.examples("runs rm 0199a2c4"))(rm)
    shown = arguments.examples("runs frontier --env household --split dev", "runs frontier --tag paper --svg paper.svg")
    verbs.command("frontier", epilog=shown)(frontier)
    app.add_typer(verbs, name="runs")


def index(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.", metavar="PATH...")],
    tag: Annotated[list[str], typer.Option("--tag", help="File them under this; may be repeated.")] = [],  # noqa: B006
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Bring run folders into the index; what has not changed changes nothing.

    Exit code 1 where a folder or a line could not be read; the rest is in the index then.
    """
    from agentenvs.harness.runs import indexing, scanning

    done: list[indexing.Indexed] = []
    failed: list[dict[str, str]] = []
    with _opened(db) as engine:
        for path in folders:
            for folder in scanning.find(path):
                try:
                    done.append(indexing.index(engine, folder, tag))
                except UserError as error:
                    if isinstance(error, ConfigError):
                        raise
                    failed.append({"folder": str(folder), **error.to_json()})
    _tell_indexed(done, failed, as_json)
    raise typer.Exit(console.FAILED if failed or any(one.damage for one in done) else console.OK)


def _tell_indexed(done: Sequence[Any], failed: Sequence[dict[str, str]], as_json: bool) -> None:
    damaged = [(one, place) for one in done for place in one.damage]
    if as_json:
        runs = [
            {
                "run": one.run,
                "folder": one.folder,
                "what": one.what,
                "episodes": one.episodes,
                "damage": [place._asdict() for place in one.damage],
            }
            for one in done
        ]
        console.result({"runs": runs, "failed": failed})
    else:
        kinds = ("new", "grown", "changed", "moved", "unchanged")
        counts = {what: sum(one.what == what for one in done) for what in kinds}
        typer.echo(f"{len(done)} run(s): " + ", ".join(f"{count} {what}" for what, count in counts.items() if count))
    for one, place in damaged:
        where = f"{place.file}:{place.line}" if place.line else place.file
        console.message(f"{one.folder}/{where}: {place.why}")
    for item in failed:
        console.message(f"{item['folder']}: {item['what']}{_because(item['why'])}")


def _because(why: str) -> str:
    return f" ({why})" if why else ""


def ls(
    env: Env = None,
    policy: PolicyName = None,
    model: ModelName = None,
    split: Split = None,
    state: State = None,
    since: Since = None,
    tag: Tag = None,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """List runs, the newest first."""
    from agentenvs.harness.runs import asking

    wanted = asking.Filter(env, policy, model, split, state, tag, since)
    with _opened(db) as engine:
        found = asking.listed(engine, wanted)
    if as_json:
        console.result([_without_number(run) for run in found])
        return
    if found:
        console.out().print(_table(found))
    console.message(f"{len(found)} run(s)")


def _without_number(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "no"}


def _table(found: Sequence[dict[str, Any]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from agentenvs.harness.report import percent

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    # What no run has takes no room: a terminal has 80 columns.
    more = [name for name in ("cost_microusd", "tags") if any(run[name] for run in found)]
    for heading in ("run, begun (UTC)", "played", "policy", "state", "n", "success", *map(_HEADINGS.__getitem__, more)):
        table.add_column(heading, overflow="fold", no_wrap=heading not in ("played", "policy", "tags"))
    for run in found:
        name = f"{run['policy']} {run['model']}" if run["model"] else run["policy"]
        rate = percent(run["successes"] / run["episodes"]) if run["episodes"] else "-"
        cells = [
            f"{run['id'][:_SHOWN]}\n{run['created'][:16].replace('T', ' ')}",
            f"{run['env'].rpartition('/')[2]}\n{run['split']}",
            name,
            "damaged" if run["damaged"] else run["state"],
            f"{run['episodes']}/{run['planned']}",
            rate,
            *(_dollars(run[name]) if name == "cost_microusd" else " ".join(run[name]) for name in more),
        ]
        table.add_row(*map(console.safe, cells))
    return table


_HEADINGS = {"cost_microusd": "dollars", "tags": "tags"}


def _dollars(micro: float | None) -> str:
    return "-" if micro is None else f"{micro / 1e6:.4f}"


def show(
    run: Annotated[str, typer.Argument(help="The beginning of a run's name, or its folder.", metavar="RUN")],
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show what the index holds of a run."""
    from agentenvs.harness.runs import asking

    with _opened(db) as engine:
        found = _without_number(asking.one(engine, run))
    if as_json:
        console.result(found)
        return
    for name, value in found.items():
        if value in (None, [], ""):
            continue
        if name.startswith("by_"):
            said = ", ".join(f"{row[name[3:]] or '-'} {row['successes']}/{row['episodes']}" for row in value)
        elif name == "damage":
            said = "; ".join(f"{place['file']}:{place['line']} {place['why']}" for place in value)
        else:
            said = " ".join(value) if isinstance(value, list) else str(value)
        typer.echo(f"{name:14} {console.safe(said)}")


def export(
    run: Named = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Write a Parquet file (needs pyarrow).")] = None,
    env: Env = None,
    policy: PolicyName = None,
    model: ModelName = None,
    split: Split = None,
    state: State = None,
    since: Since = None,
    tag: Tag = None,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write a row for each episode of the runs."""
    from agentenvs.harness.runs import asking, exporting

    if (csv is None) == (parquet is None):
        raise ConfigError("an export has one file", fix="give --csv FILE or --parquet FILE")
    wanted = asking.Filter(env, policy, model, split, state, tag, since, tuple(run or ()))
    with _opened(db) as engine, console.files():
        batches = asking.rows(engine, wanted)
        count = exporting.to_csv(batches, csv) if csv is not None else exporting.to_parquet(batches, parquet or Path())
    if as_json:
        console.result({"file": str(csv or parquet), "episodes": count})
    else:
        console.message(f"{count} episode(s) in {csv or parquet}")


def rm(
    run: Annotated[list[str], typer.Argument(help="Runs: the beginning of a name, or a folder.", metavar="RUN...")],
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Take runs out of the index. Their folders stay."""
    from agentenvs.harness.runs import asking, indexing

    with _opened(db) as engine:
        names = [asking.named(engine, name) for name in run]
        for name in dict.fromkeys(names):
            indexing.forget(engine, name)
    if as_json:
        console.result({"forgotten": sorted(set(names))})
    else:
        console.message(f"{len(set(names))} run(s) taken out of the index; their folders stay")


def frontier(
    run: Named = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the picture into this file.")] = None,
    env: Env = None,
    policy: PolicyName = None,
    model: ModelName = None,
    split: Split = None,
    state: State = None,
    since: Since = None,
    tag: Tag = None,
    db: Db = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Lay success against cost: which runs no other beats in both, with intervals."""
    from agentenvs.harness.runs import asking, frontier, picture

    wanted = asking.Filter(env, policy, model, split, state, tag, since, tuple(run or ()))
    with _opened(db) as engine:
        points = frontier.frontier(engine, wanted)
    if svg is not None:
        with console.files():
            svg.write_text(picture.svg(points), encoding="utf-8")
    if as_json:
        console.result([point.to_json() for point in points])
        return
    console.out().print(_frontier_table(points))
    if svg is not None:
        typer.echo(f"picture: {svg}")


_PLACES = {
    "frontier": "on the frontier",
    "open": "behind, within the noise",
    "beaten": "beaten",
    "unpriced": "no known cost",
}


def _frontier_table(points: Sequence[Point]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("player", "run", "n", "success, 95 %", "dollars an episode, 95 %", ""):
        table.add_column(heading, overflow="fold")
    for point in points:
        low, high = point.rate_interval
        cost = "-"
        if point.cost is not None and point.cost_interval is not None:
            cost = f"{point.cost / 1e6:.6f} ({point.cost_interval.low / 1e6:.6f}-{point.cost_interval.high / 1e6:.6f})"
        rate = f"{100 * point.rate:.1f} ({100 * low:.1f}-{100 * high:.1f})"
        cells = (point.name, point.run[:_SHOWN], str(point.episodes), rate, cost, _PLACES[point.place])
        table.add_row(*map(console.safe, cells))
    return table


@contextmanager
def _opened(db: str | None) -> Iterator[Engine]:
    from agentenvs.harness.runs.opening import opened

    with opened(db) as engine:
        yield engine
