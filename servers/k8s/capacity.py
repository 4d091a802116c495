"""Computes how many sessions and steps a pod bears, and how many pods many sessions need, from what was measured.

    python servers/k8s/capacity.py            # writes the table of README.md anew
    python servers/k8s/capacity.py --check    # says whether it is still what the figures give

The figures are those of benchmarks/RESULTS.md and the settings those of the manifests; what a world's step takes in
process stands there too. A world that has not been measured has no row.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks" / "RESULTS.md"
README = HERE / "README.md"

SESSIONS = 32_000
SECONDS = (0.5, 2, 10, 60)
"""Between two steps of a session: what a model needs to think."""

LOAD = 0.7
"""Of a processor, at which the autoscaler adds pods."""

BASE_MIB = 85
"""Memory of a server in its container before the first session, read off VmRSS."""

BEGIN, END = "<!-- table: capacity -->", "<!-- end -->"


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
    """Return the two tables, in Markdown."""
    text = RESULTS.read_text(encoding="utf-8")
    inside = _figure(r"over the ([\d.]+) µs the step takes in process", text)
    kib = _figure(r"([\d.]+) KiB a session with a journal", text)
    live = int(_figure(r"AGENTENVS_SERVE_MAX_LIVE=(\d+)", _manifest("worlds/household/kustomization.yaml")))
    kept = _figure(r"AGENTENVS_SERVE_RETAINED_BYTES=(\d+)", _manifest("worlds/household/kustomization.yaml")) / 2**20
    aimed = int(_figure(r'averageValue: "(\d+)"', _manifest("base/autoscaler.yaml")))
    doors = {
        name: LOAD * 1e6 / (_figure(rf"\| {re.escape(name)}, `group` \| ([\d.]+) \|", text) + inside)
        for name in ("HTTP", "WebSocket", "batches of 64")
    }
    used = BASE_MIB + kept + live * kib / 1024
    lines = [
        "| a pod of household | |",
        "|---|--:|",
        f"| sessions at which the autoscaler adds another | {aimed:,} |",
        f"| sessions in memory at most | {live:,} |",
        f"| memory with so many: {BASE_MIB} MiB, {kib:g} KiB a session, {kept:,.0f} MiB of records | {used:,.0f} MiB |",
        *(f"| steps/s at {LOAD:.0%} of a processor, {name} | {rate:,.0f} |" for name, rate in doors.items()),
        "",
        f"| pods for {SESSIONS:,} sessions that step every | steps/s | " + " | ".join(doors) + " |",
        "|--:|--:|" + "--:|" * len(doors),
    ]
    for seconds in SECONDS:
        rate = SESSIONS / seconds
        pods = (max(math.ceil(SESSIONS / aimed), math.ceil(rate / most)) for most in doors.values())
        lines.append(f"| {seconds:g} s | {rate:,.0f} | " + " | ".join(map(str, pods)) + " |")
    return "\n".join(lines)


def _manifest(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _figure(pattern: str, text: str) -> float:
    """Return the number that a pattern finds.

    Raises:
        SystemExit: It finds none.
    """
    found = re.search(pattern, " ".join(text.split("\n")))
    if found is None:
        sys.exit(f"no figure like {pattern!r}")
    return float(found[1])


if __name__ == "__main__":
    main()
