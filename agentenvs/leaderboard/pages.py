"""The pages: boards, a board, an entry, what was refused, what the tiers prove, what is waiting.

The same templates make the pages of a server and the files of a build; only the links differ. A page is one file: its
style is in it, it has no script, and nothing comes from outside. Every word of a contestant is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Protocol

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from agentenvs.core import registry
from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError
from agentenvs.leaderboard import refusals
from agentenvs.leaderboard.asking import Shown
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.tiers import BY_NAME, TIERS

WIDTH = 120
"""Of the bar of an interval, in pixels."""


class Links(Protocol):
    """Where pages lead."""

    def home(self) -> str:
        """To the list of boards."""

    def board(self, board: str, page: int = 1) -> str:
        """To a page of a board."""

    def entry(self, board: str, entry: str) -> str:
        """To an entry."""

    def refused(self, board: str) -> str:
        """To what a board has refused."""

    def data(self, board: str) -> str:
        """To a board as JSON."""

    def tiers(self) -> str:
        """To what the tiers prove."""

    def queue(self) -> str | None:
        """To what is waiting; None where nothing waits."""


class ServedLinks:
    """Paths of a server."""

    def home(self) -> str:
        """To the list of boards."""
        return "/"

    def board(self, board: str, page: int = 1) -> str:
        """To a page of a board."""
        return f"/boards/{board}" + (f"?page={page}" if page > 1 else "")

    def entry(self, board: str, entry: str) -> str:
        """To an entry."""
        return f"/boards/{board}/entries/{entry}"

    def refused(self, board: str) -> str:
        """To what a board has refused."""
        return f"/boards/{board}/refused"

    def data(self, board: str) -> str:
        """To a board as JSON."""
        return f"/api/boards/{board}/entries"

    def tiers(self) -> str:
        """To what the tiers prove."""
        return "/tiers"

    def queue(self) -> str | None:
        """To what is waiting."""
        return "/queue"


class FileLinks:
    """Paths between the files of a build.

    Args:
        here: The file whose links they are, from the top of the build.
    """

    def __init__(self, here: str = "index.html") -> None:
        self._up = "../" * (len(PurePosixPath(here).parts) - 1)

    def home(self) -> str:
        """To the list of boards."""
        return f"{self._up}index.html"

    def board(self, board: str, page: int = 1) -> str:
        """To a page of a board."""
        return f"{self._up}boards/{board}/" + ("index.html" if page == 1 else f"page-{page}.html")

    def entry(self, board: str, entry: str) -> str:
        """To an entry."""
        return f"{self._up}boards/{board}/entries/{entry}.html"

    def refused(self, board: str) -> str:
        """To what a board has refused."""
        return f"{self._up}boards/{board}/refused.html"

    def data(self, board: str) -> str:
        """To a board as JSON."""
        return f"{self._up}boards/{board}/entries.json"

    def tiers(self) -> str:
        """To what the tiers prove."""
        return f"{self._up}tiers.html"

    def queue(self) -> str | None:
        """Nothing waits in files."""
        return None


def home(links: Links, boards: Sequence[Shown]) -> str:
    """Return the list of boards."""
    return _render("boards.html.j2", links, boards=boards)


def board(
    links: Links, shown: Shown, entries: Sequence[Mapping[str, Any]], page: int, pages: int, asked: str = ""
) -> str:
    """Return a page of a board."""
    return _render(
        "board.html.j2",
        links,
        shown=shown,
        entries=entries,
        page=page,
        pages=pages,
        asked=asked,
        conditions=conditions_of(shown.board),
        told=_told(entries),
    )


def _told(entries: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return which columns some row of a page has something in: the others take no room."""
    words = [row.get("told", {}) for row in entries]
    found = {name for name in ("tokens_out", "cost_microusd") if any(said.get(name) is not None for said in words)}
    return found | ({"failed"} if any(row["failed"] for row in entries) else set())


def entry(links: Links, shown: Shown, found: Mapping[str, Any]) -> str:
    """Return the page of an entry."""
    return _render("entry.html.j2", links, shown=shown, entry=found, tier=BY_NAME[found["tier"]])


def refused(links: Links, shown: Shown, found: Sequence[Mapping[str, Any]]) -> str:
    """Return what a board has refused."""
    return _render("refused.html.j2", links, shown=shown, refused=found)


def tiers(links: Links) -> str:
    """Return what the tiers prove."""
    return _render("tiers.html.j2", links)


def queue(links: Links, jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return what is waiting."""
    return _render("queue.html.j2", links, jobs=jobs)


def error(links: Links, found: AgentEnvsError) -> str:
    """Return the page of a mistake."""
    return _render("error.html.j2", links, error=found)


def conditions_of(board: Board) -> list[tuple[str, str]]:
    """Return in words under which conditions a board is played: options that are not the default, budgets, attempts."""
    options: dict[str, JSON] = json.loads(board.options)
    try:
        defaults = {option.name: option.default for option in registry.spec(board.env).options}
    except AgentEnvsError:  # a board of a package that is not here
        defaults = {}
    changed = [f"{name}={value}" for name, value in options.items() if defaults.get(name, value) != value]
    budgets = [f"{amount} {name}" for name, amount in sorted(json.loads(board.budgets).items())]
    last = board.start + board.scenarios - 1
    played = "" if board.trials == 1 else f", {board.trials} times each"
    found = [
        ("environment", f"{board.env}, release {board.release}"),
        ("scenarios", f"{board.scenarios:,} of {board.split} ({board.start} to {last}){played}"),
        ("options", ", ".join(changed) or "the defaults"),
        ("an episode has", ", ".join(budgets)),
        ("a contestant has", f"{board.attempts} attempts, all shown"),
        ("scoring", board.scoring[:16]),
        ("image", board.image or ""),
    ]
    return [(name, said) for name, said in found if said]


def style() -> str:
    """Return the style of all pages."""
    return _environment().get_template("board.css.j2").render()


@cache
def style_source() -> str:
    """Return what a content security policy names the style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()}'"


def _render(name: str, links: Links, **values: Any) -> str:
    return _environment().get_template(name).render(links=links, css=_style(), **values)


@cache
def _style() -> str:
    return style()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader("agentenvs.leaderboard"), PackageLoader("agentenvs.harness")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"percent": percent, "count": count, "dollars": dollars, "visible": visible}
    made.globals |= {"tiers": BY_NAME, "all_tiers": TIERS, "title": refusals.title, "bar": bar, "place": place}
    return made


def percent(value: float | None) -> str:
    """Return a share in percent."""
    return "-" if value is None else f"{100 * value:.1f}"


def count(value: float | None) -> str:
    """Return a number that was told, shortened."""
    if value is None:
        return "-"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return f"{value:g}"


def dollars(micro: int | None) -> str:
    """Return millionths of a dollar as dollars."""
    return "-" if micro is None else f"{micro / 1e6:,.2f}"


def visible(text: str) -> str:
    """Return text with what cannot be seen replaced."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def bar(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return where an interval and its middle stand on a bar."""
    low, high = WIDTH * entry["low"], WIDTH * entry["high"]
    return {"low": round(low, 1), "width": round(max(high - low, 2.0), 1), "rate": round(WIDTH * entry["rate"], 1)}


def place(entry: Mapping[str, Any]) -> str:
    """Return the interval of places of an entry."""
    if entry["best"] is None:
        return ""
    return f"{entry['best']}" if entry["best"] == entry["worst"] else f"{entry['best']}-{entry['worst']}"
