"""Golden digests: what must never change by accident, on any Python, platform or hash seed.

    python tests/golden/check.py            # compare with golden.json; exit 1 and name what moved
    python tests/golden/check.py --json     # print the digests computed here
    python tests/golden/check.py --update   # write golden.json, after a change of version that is meant

Every module ``tests/golden/cases_*.py`` has a function ``digests() -> dict[str, str]``. A name starts with the room or
the environment it belongs to (``core/streams``, ``household/oracle``). A digest that moves is a new version of its
environment.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden.json"


def compute() -> dict[str, str]:
    """Return every digest by name, sorted.

    Raises:
        ValueError: Two modules use one name.
    """
    found: dict[str, str] = {}
    for path in sorted(HERE.glob("cases_*.py")):
        for name, digest in _load(path).digests().items():
            if name in found:
                raise ValueError(f"{path.name}: the name {name} is taken")
            found[name] = digest
    return dict(sorted(found.items()))


def differences(computed: dict[str, str], golden: dict[str, str]) -> list[str]:
    """Return a line for each name that is missing on one side or differs."""
    lines = []
    for name in sorted(computed.keys() | golden.keys()):
        here, there = computed.get(name), golden.get(name)
        if here != there:
            lines.append(f"{name}: golden {there or 'none'}, computed {here or 'none'}")
    return lines


def read_golden() -> dict[str, str]:
    """Return the digests on record."""
    golden: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return golden


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Compare, print or update."""
    parser = argparse.ArgumentParser(description="Check the golden digests.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="print the digests computed here as one JSON object")
    group.add_argument("--update", action="store_true", help="write golden.json")
    arguments = parser.parse_args()
    computed = compute()
    if arguments.json:
        print(json.dumps(computed))
        return 0
    if arguments.update:
        GOLDEN.write_text(json.dumps(computed, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {len(computed)} digests to {GOLDEN.name}")
        return 0
    moved = differences(computed, read_golden())
    for line in moved:
        print(line, file=sys.stderr)
    print(f"{len(computed)} digests, {len(moved)} differ")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
