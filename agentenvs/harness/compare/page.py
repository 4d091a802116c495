"""A comparison as one page with plots: nothing from outside, dark and light, readable without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentenvs.harness.compare.comparison import Comparison, Difference
from agentenvs.harness.compare.tables import letter, sentences, spelled
from agentenvs.harness.report import template


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values stand on a plot: from ``low`` to ``high`` over ``width``, from ``left`` on."""

    low: float
    high: float
    left: float = 320.0
    width: float = 560.0

    def x(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + self.width * min(max(share, 0.0), 1.0), 1)

    @property
    def ticks(self) -> list[float]:
        """Five values, evenly spaced."""
        return [self.low + (self.high - self.low) * step / 4 for step in range(5)]


def write_page(found: Comparison, path: Path) -> None:
    """Write the page of a comparison."""
    page = template("compare.html.j2").render(
        found=found,
        said=sentences(found),
        whole=_scale([pair.whole for pair in found.pairs]),
        groups=[
            (pair, name, rows, _scale(rows))
            for pair in found.pairs
            if pair.first == 0
            for name, rows in pair.groups.items()
        ],
        rates=Scale(0.0, 1.0),
        letter=letter,
        spelled=spelled,
    )
    path.write_text(page, encoding="utf-8", errors="replace")


def _scale(rows: Sequence[Difference]) -> Scale:
    """Return a scale around 0 that holds all intervals, in steps of ten points."""
    reach = max((max(abs(row.low), abs(row.high), abs(row.difference)) for row in rows), default=1.0)
    tens = next((tens for tens in (1, 2, 4, 6, 8, 10) if reach <= tens / 10), 10)
    return Scale(-tens / 10, tens / 10)
