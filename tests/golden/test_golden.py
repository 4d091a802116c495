"""The golden digests hold here, and under other hash seeds; ``make determinism`` runs them on other Pythons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import check


def test_golden_digests_hold() -> None:
    assert check.differences(check.compute(), check.read_golden()) == []


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_digests_do_not_depend_on_the_hash_seed(root: Path, seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "tests/golden/check.py", "--json"],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert check.differences(json.loads(done.stdout), check.read_golden()) == []


def test_differences_name_both_values() -> None:
    assert check.differences({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == [
        "b: golden 3, computed 2",
        "c: golden 4, computed none",
    ]
