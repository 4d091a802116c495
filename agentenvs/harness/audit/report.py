"""What came of an audit: the table, in words and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec
from agentenvs.harness.audit.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

VERDICTS = ("held", "breach", "unclear", "open", "skipped")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an audit."""

    target: str
    spec: EnvSpec
    quick: bool
    seed: int
    tasks: tuple[str, ...]
    """Addresses of the tasks that were tried."""
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether there is no breach."""
        return not self.breaches

    @property
    def breaches(self) -> list[Row]:
        """The rows that say that something is earned, learned or changed that must not be."""
        return [row for row in self.rows if row.verdict == "breach"]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows by verdict."""
        found = Counter[str](row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in VERDICTS}

    def row(self, name: str) -> Row:
        """Return the row of a name.

        Raises:
            KeyError: There is none.
        """
        return {row.name: row for row in self.rows}[name]

    @property
    def lost(self) -> dict[str, list[str]]:
        """What stays unknown, and the rows that could not be tried."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if row.verdict == "skipped" and row.lost:
                found.setdefault(row.lost, []).append(row.name)
        return found

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form; the same seed gives the same."""
        return {
            "target": self.target,
            "env": self.spec.id,
            "release": self.spec.release,
            "passed": self.passed,
            "quick": self.quick,
            "seed": self.seed,
            "tasks": list(self.tasks),
            "counts": dict(self.counts),
            "rows": [row.to_json() for row in self.rows],
            "lost": self.lost,
        }

    def words(self) -> list[str]:
        """Return what is wrong, what is open, and what could not be tried and what that costs."""
        lines = [f"{row.verdict}: {row.name}: {row.evidence}" for row in self.rows if row.verdict in _TOLD]
        if self.lost:
            lines.append("What could not be tried:")
            lines += [f"  {lost}: {_names(names)}" for lost, names in self.lost.items()]
        return lines

    def summary(self) -> str:
        """Return the numbers in a line."""
        told = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items() if number)
        return f"{self.spec.id}: {told}; seed {self.seed}, {len(self.tasks)} tasks"

    def __str__(self) -> str:
        """Return it in plain text."""
        return "\n".join([self.summary(), *self.words()])


_TOLD = ("breach", "unclear", "open")


def _names(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def number(value: float | None) -> str:
    """Return a number for the table; a dash for none."""
    return "-" if value is None else f"{value:.3g}"


def earned(row: Row) -> str:
    """Return what a row earned, with its interval where there is one."""
    spread = f" [{row.interval.low:.2f}, {row.interval.high:.2f}]" if row.interval is not None else ""
    return number(row.earned) + spread


def table(report: Report) -> Table:
    """Return the rows as a table; nothing in it is markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, justify in (("row", "left"), ("verdict", "left"), ("ceiling", "right"), ("earned", "right")):
        made.add_column(name, no_wrap=name != "row", justify=justify, overflow="fold")  # type: ignore[arg-type]
    made.add_column("evidence", overflow="fold")
    colors = {"held": "green", "breach": "bold red", "unclear": "yellow", "open": "yellow", "skipped": "dim"}
    for row in report.rows:
        verdict = Text(row.verdict, style=colors[row.verdict])
        made.add_row(Text(row.name), verdict, Text(number(row.ceiling)), Text(earned(row)), Text(row.evidence))
    return made
