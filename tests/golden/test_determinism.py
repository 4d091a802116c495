"""The comparison across Pythons: what counts as a fault, and which Python is taken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import determinism


def test_a_run_that_differs_names_python_seed_and_digests() -> None:
    run = determinism.Run("3.12", "1", {"core/a": "x", "core/b": "y"})
    assert run.faults({"core/a": "x", "core/b": "z"}) == [
        "Python 3.12, PYTHONHASHSEED=1: core/b is y, golden z",
    ]


def test_a_run_that_fails_is_a_fault() -> None:
    assert determinism.Run("3.12", "0", {}, "boom").faults({}) == ["Python 3.12, PYTHONHASHSEED=0: boom"]


def test_the_running_python_is_taken_first() -> None:
    version = "{}.{}".format(*sys.version_info)
    assert determinism.find(version) == Path(sys.executable)


def test_a_shim_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(determinism.NotUsableError, match="not found"):
        determinism.find("3.99")
