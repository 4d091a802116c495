"""Computes how many sessions and steps a pod bears, and how many pods many sessions need, from what was measured.

    python servers/k8s/capacity.py            # writes the table of README.md anew
    python servers/k8s/capacity.py --check    # says whether it is still what the figures give

The figures are those of benchmarks/RESULTS.md, under "Worlds in containers", and the settings those of the manifests. A
world that has not been measured has no column.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks" / "RESULTS.md"
README = HERE / "README.md"

SESSIONS = 32_000
SECONDS = (2, 10, 60)
"""Between two steps of a session: what a model needs to think."""

LOAD = 0.7
"""Of a processor, at which the autoscaler adds pods."""

BEGIN, END = "<!-- table: capacity -->", "<!-- end -->"

COLUMNS = ("world", "MiB before the first session", "CPU µs a turn", "KiB a session")
"""Of the table, those that are read."""


class World(NamedTuple):
    """What was measured of one."""

    name: str
    mib: float
    """Memory before the first session."""
    us: float
    """Processor time of a turn, in whole episodes."""
    kib: float
    """Memory of a session."""

    @property
    def rate(self) -> float:
        """Steps a second at the load at which pods are added; a server is one process, on one processor."""
        return LOAD * 1e6 / self.us


def main() -> None:
    """Write the table, or compare it."""
    page = README.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    made = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if "--check" in sys.argv:
        sys.exit(0 if made == page else "servers/k8s/README.md has other figures: run servers/k8s/capacity.py")
    README.write_text(made, encoding="utf-8")


def table() -> str:
    """Return the table, in Markdown."""
    text = RESULTS.read_text(encoding="utf-8").partition("## Worlds in containers")[2].partition("\n## ")[0]
    worlds = list(_measured(text))
    live = int(_setting(r"AGENTENVS_SERVE_MAX_LIVE=(\d+)", "worlds/household/kustomization.yaml"))
    kept = int(_setting(r"AGENTENVS_SERVE_RETAINED_BYTES=(\d+)", "worlds/household/kustomization.yaml")) / 2**20
    aimed = int(_setting(r'averageValue: "(\d+)"', "base/autoscaler.yaml"))
    memory = [world.mib + kept + live * world.kib / 1024 for world in worlds]
    lines = [
        "| a pod | " + " | ".join(world.name for world in worlds) + " |",
        "|---|" + "--:|" * len(worlds),
        _row("sessions at which the autoscaler adds another", [f"{aimed:,}"] * len(worlds)),
        _row("sessions in memory at most", [f"{live:,}"] * len(worlds)),
        _row("MiB of memory with so many, and 256 MiB of records", [f"{mib:,.0f}" for mib in memory]),
        _row(f"steps/s at {LOAD:.0%} of a processor", [f"{world.rate:,.0f}" for world in worlds]),
    ]
    for seconds in SECONDS:
        pods = (max(math.ceil(SESSIONS / aimed), math.ceil(SESSIONS / seconds / world.rate)) for world in worlds)
        lines.append(_row(f"**pods for {SESSIONS:,} sessions** that step every {seconds} s", list(map(str, pods))))
    return "\n".join(lines)


def _measured(text: str) -> Iterator[World]:
    """Return what the first table of a section says.

    Raises:
        SystemExit: It has other columns.
    """
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    )
    if missing := set(COLUMNS) - set(head):
        sys.exit(f"the table of {RESULTS.name} has no column {', '.join(sorted(missing))}")
    for row in rows:
        name, *figures = (row[head.index(column)] for column in COLUMNS)
        yield World(name, *(float(figure.replace(",", "")) for figure in figures))


def _row(what: str, cells: list[str]) -> str:
    return f"| {what} | " + " | ".join(cells) + " |"


def _setting(pattern: str, file: str) -> str:
    """Return what a pattern finds in a manifest.

    Raises:
        SystemExit: It finds nothing.
    """
    found = re.search(pattern, (HERE / file).read_text(encoding="utf-8"))
    if found is None:
        sys.exit(f"{file} has nothing like {pattern!r}")
    return found[1]


if __name__ == "__main__":
    main()
