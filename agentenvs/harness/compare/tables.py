"""A comparison in a terminal of 80 columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentenvs.core.canon import JSON
from agentenvs.harness.compare.comparison import Comparison, Difference, Pair
from agentenvs.harness.report import p_value, plain, signed
from agentenvs.harness.statistics import PASS_ALL, PASS_AT
from agentenvs.harness.statistics.ranks import METHOD

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 12
"""Differences of manifests that a terminal shows; a page and JSON have all."""

_MOST_VALUE = 40


def runs(found: Comparison) -> Table:
    """Return the table of the runs."""
    title = f"{found.env} {found.split}: {found.scenarios:,} scenarios, success in %, 95 % intervals"
    shown = _table(title)
    ranked = any(run.rank is not None for run in found.runs)
    headings = ["n", "success", "interval", "return", "failed", *(["rank"] if ranked else [])]
    shown.add_column("", no_wrap=True)
    shown.add_column("policy", overflow="fold", min_width=18)
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    for place, run in enumerate(found.runs):
        lost = run.infrastructure
        cells = [str(run.episodes), _points(run.rate), f"{_points(run.low)}-{_points(run.high)}", f"{run.reward:.2f}"]
        cells.append(str(lost.total + lost.policy))
        if run.rank is not None:
            best, worst = run.rank
            cells.append(str(best) if best == worst else f"{best}-{worst}")
        shown.add_row(letter(place), plain(run.name), *cells)
    return shown


def pairs(found: Comparison) -> Table:
    """Return the table of the differences, whole runs against each other."""
    shown = _difference_table("pair", "Differences in points, paired by scenario")
    for one in found.pairs:
        shown.add_row(*_cells(f"{letter(one.second)} - {letter(one.first)}", one.whole))
    return shown


def groups(one: Pair, name: str) -> Table:
    """Return the table of a pair's differences by a label."""
    shown = _difference_table(name, f"{letter(one.second)} - {letter(one.first)} by {name}")
    for row in one.groups[name]:
        shown.add_row(*_cells(plain(row.name), row))
    return shown


def sentences(found: Comparison) -> list[str]:
    """Return in words what may be concluded."""
    said = [sentence(found, one) for one in found.pairs]
    if len(found.pairs) > 1:
        said.append("p-values are adjusted for the number of pairs (Holm)")
    if any(run.rank is not None for run in found.runs):
        said.append(METHOD)
    for place, run in enumerate(found.runs):
        name, lost = letter(place), run.infrastructure
        if lost.total:
            said.append(
                f"{name}: in {lost.total} of {lost.episodes} episodes the environment or a service failed, and they "
                f"count as lost; had all been won, the rate would be {_points(lost.won_at_most)} %"
            )
        if lost.policy:
            said.append(f"{name}: the policy itself failed in {lost.policy} of {lost.episodes}, which count as lost")
        if run.left_out:
            said.append(f"{name}: {run.left_out} episodes are left out: not all runs played their scenarios")
    if any(run.repeats for run in found.runs):
        said += _repeats(found)
    return said


def sentence(found: Comparison, one: Pair) -> str:
    """Return in words what a pair shows."""
    whole, first, second = one.whole, letter(one.first), letter(one.second)
    several = ", adjusted" if len(found.pairs) > 1 else ""
    told = f"p {_equals(whole.adjusted)} ({whole.test}{several})"
    of = "scenarios" if found.cluster == "scenario" else "groups"
    seen = f"{whole.clusters:,} {of} show a difference of {_points(whole.smallest)} points four times of five"
    if not whole.real:
        return f"{first} and {second} cannot be told apart: {told}; {seen}"
    better, worse = (second, first) if whole.difference > 0 else (first, second)
    return f"{better} is better than {worse} by {_points(abs(whole.difference))} points: {told}; {seen}"


def differs(found: Comparison) -> Table:
    """Return the table of what is not the same in the manifests."""
    shown = _table("What differs in the manifests")
    shown.add_column("what", overflow="fold")
    for place in range(len(found.runs)):
        shown.add_column(letter(place), overflow="fold")
    for row in found.differs[:MOST_ROWS]:
        shown.add_row(plain(row.what), *(plain(spelled(value)) for value in row.values))
    if len(found.differs) > MOST_ROWS:
        shown.add_row(f"({len(found.differs) - MOST_ROWS} more: --html or --json)")
    return shown


def letter(place: int) -> str:
    """Return the letter of a run."""
    return chr(ord("A") + place)


def spelled(value: JSON) -> str:
    """Return a value of a manifest in a few characters."""
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) == 64 and all(char in "0123456789abcdef" for char in text):
        return text[:12]
    return text if len(text) <= _MOST_VALUE else text[:_MOST_VALUE] + "…"


def _equals(value: float) -> str:
    said = p_value(value)
    return said if said.startswith("<") else f"= {said}"


def _repeats(found: Comparison) -> list[str]:
    said = [PASS_AT, PASS_ALL]
    for place, run in enumerate(found.runs):
        rows = [f"pass@{row.k} {_points(row.at)}, pass^{row.k} {_points(row.all)}" for row in run.repeats]
        if rows:
            said.append(f"{letter(place)} in %: {'; '.join(rows)}")
    return said


def _table(title: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def _difference_table(rows: str, title: str) -> Table:
    shown = _table(title)
    shown.add_column(rows, overflow="fold", min_width=10)
    for heading in ("n", "difference", "interval", "p", "can show"):
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def _cells(name: str, row: Difference) -> list[str]:
    interval = f"{signed(row.low)} to {signed(row.high)}"
    return [name, str(row.scenarios), signed(row.difference), interval, p_value(row.adjusted), _points(row.smallest)]


def _points(value: float) -> str:
    return f"{100 * value:.1f}"
