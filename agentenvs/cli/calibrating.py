"""``calibrate``: what anchor policies reach on an environment, held against its score card or written into it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agentenvs.cli import arguments, console

if TYPE_CHECKING:
    from rich.table import Table

    from agentenvs.harness.calibrate.card import Kept
    from agentenvs.harness.calibrate.measuring import Measured
    from agentenvs.harness.calibrate.moved import Moved
    from agentenvs_scoring.cards import Card


_MOST_FAULTS = 12


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "calibrate household --check",
        "calibrate household --quick --check",
        "calibrate household --write",
        "calibrate ./my_world.py --write",
        "calibrate household --add runs/my-model --write",
    )
    app.command("calibrate", epilog=shown)(calibrate)


class _Wanted(NamedTuple):
    """What of an environment is to be measured."""

    players: list[str]
    splits: list[str]
    episodes: int | None
    data: str | None
    jobs: int

    @property
    def whole(self) -> bool:
        """Whether it is all that can be measured here."""
        return not self.players and not self.splits and self.episodes is None


def calibrate(
    env: arguments.Env,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 where a row is not what the card says.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Write what was measured into the card.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The first episodes of each row: has anything moved?")] = False,
    player: Annotated[list[str], typer.Option("--player", help="Only this player; may be repeated.")] = [],  # noqa: B006
    split: Annotated[list[str], typer.Option("--split", help="Only this split; may be repeated.")] = [],  # noqa: B006
    episodes: Annotated[int | None, typer.Option("--episodes", min=1, help="At most so many a row.")] = None,
    data: arguments.Data = None,
    add: Annotated[list[Path], typer.Option("--add", help="A run of a model, to stand on the card.")] = [],  # noqa: B006
    card: Annotated[Path | None, typer.Option("--card", help="The card, where it is not in its usual place.")] = None,
    unreleased: Annotated[
        bool, typer.Option("--unreleased", help="Write moved bands though the release is the same.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; as many as processors otherwise.")
    ] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Measure what anchor policies reach on every split: bands with intervals and digests; where a world is saturated.

    The card of an environment of the suite is in agentenvs_scoring.cards, that of your own beside its file.
    """
    from agentenvs.core import targets
    from agentenvs.core.errors import ConfigError
    from agentenvs.harness.calibrate.card import keep, splits_of
    from agentenvs.harness.calibrate.moved import moved
    from agentenvs.harness.calibrate.plan import QUICK_EPISODES
    from agentenvs.harness.report import read_run

    if write and (quick or episodes is not None):
        raise ConfigError("a part of the episodes makes no card", fix="leave out --quick and --episodes, or --write")
    spec = targets.spec_of(env)
    wanted = _Wanted(player, split, QUICK_EPISODES if quick else episodes, data, jobs or os.cpu_count() or 1)
    with console.files():
        kept = keep(spec, splits_of(spec, data), card)
        if write and not os.access(kept.path if kept.path.exists() else kept.path.parent, os.W_OK):
            raise ConfigError(f"{kept.path} cannot be written", fix="name another: --card FILE")
        runs = [read_run(folder) for folder in add]
        only_runs = bool(runs) and not check
        found = [] if only_runs else _measure(env, kept, wanted)
        faults = [] if kept.card is None else moved(kept.card, found, spec)
        if check and kept.card is None:
            raise ConfigError(f"{kept.path} is not there", why="there is nothing to check against", fix="--write it")
        updated = kept.updated(found, runs, whole=wanted.whole and not only_runs)
        if write:
            if not unreleased:
                kept.refuse_moved(found)
            kept.write(updated)
    _show(kept, found, updated, faults, as_json=as_json, written=write)
    raise typer.Exit(console.FAILED if check and faults else console.OK)


def _measure(env: str, kept: Kept, wanted: _Wanted) -> list[Measured]:
    from agentenvs.harness.calibrate import measure, rows

    planned = rows(
        kept.spec,
        kept.splits,
        kept.card,
        players=wanted.players,
        only=wanted.splits,
        episodes=wanted.episodes,
        data=wanted.data is not None,
    )
    with console.progress(f"calibrate {kept.spec.slug}", "won") as progress, console.own_output():
        return measure(env, planned, data=wanted.data, jobs=wanted.jobs, progress=progress)


def _show(
    kept: Kept, found: Sequence[Measured], updated: Card, faults: Sequence[Moved], *, as_json: bool, written: bool
) -> None:
    from agentenvs.harness.calibrate import band

    bands = [band(one, kept.spec, kept.splits.get(one.row.split)) for one in found]
    if as_json:
        console.result(
            {
                "env": kept.spec.id,
                "release": kept.spec.release,
                "card": str(kept.path),
                "written": written,
                "bands": [asdict(one) for one in bands],
                "models": [asdict(one) for one in updated.models],
                "saturated": [asdict(one) for one in updated.saturated],
                "moved": [asdict(one) for one in faults],
            }
        )
        return
    screen = console.out(markup=True)
    if bands:
        screen.print(_table(kept, updated, {one.place for one in bands}))
    failed = sum(episode.error is not None for one in found for episode in one.episodes)
    if failed:
        typer.echo(f"{failed} episodes failed outside the world, and count as lost")
    for row in updated.saturated:
        where = ", ".join([row.split, *(f"{name} = {value}" for name, value in row.options.items())])
        sure = "" if row.low > 0.9 else "; the interval says that it might be less"
        typer.echo(console.safe(f"saturated: {where}: {row.best} wins {100 * row.success:.1f} %{sure}"))
    for fault in [] if written else faults[:_MOST_FAULTS]:
        typer.echo(console.safe(f"moved: {fault.row}: {fault.what}"))
    if len(faults) > _MOST_FAULTS and not written:
        typer.echo(f"moved: {len(faults) - _MOST_FAULTS} more; --json has all")
    if kept.card is not None and found and not faults:
        typer.echo(f"all {len(found)} rows are what {kept.path.name} says")
    if written:
        typer.echo(f"card: {kept.path}")
    elif not faults and kept.card is None:
        console.message(f"--write makes {kept.path} of it")


def _table(kept: Kept, card: Card, places: set[tuple[str, str, int | None, int, str]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from agentenvs.harness.calibrate.results import usual_limit
    from agentenvs.harness.report import plain

    usual = usual_limit(kept.spec)
    title = f"{kept.spec.id} release {kept.spec.release}: success in %, 95 % intervals"
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("player", "split", "options"):
        shown.add_column(heading, overflow="fold")
    for heading in ("n", "success", "interval", "steps", "return"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in card.bands:
        if row.place not in places:
            continue
        low, high = row.success_band
        limit = {} if row.limit in (None, usual) else {"limit": row.limit}
        options = ", ".join(f"{name}={value}" for name, value in {**row.options, **limit}.items())
        cells = [str(row.episodes), f"{100 * row.success:.1f}", f"{100 * low:.1f}-{100 * high:.1f}"]
        shown.add_row(
            plain(row.player), plain(row.split), plain(options), *cells, f"{row.steps:.1f}", f"{row.reward:.2f}"
        )
    return shown
