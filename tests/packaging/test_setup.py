"""Setting up says what to do where a machine lacks something. The Pythons here are scripts that play their part."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="scripts/venv.sh and the Makefile are for POSIX systems")

TOO_OLD = 'case "$*" in *version_info*) exit 1;; --version) echo "Python 3.9.1";; esac'
NO_ENSUREPIP = 'case "$*" in *ensurepip*) exit 1;; esac'
NO_INDEX = """
case "$*" in
  *"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python";;
  *"pip install"*) echo "ERROR: no index" >&2; exit 1;;
esac"""


def _set_up(root: Path, folder: Path, python: str, name: str = "") -> subprocess.CompletedProcess[str]:
    commands = folder / "commands"
    commands.mkdir()
    for command in ("python3", "python3.13", "python3.12", "python3.11"):
        (commands / command).write_text(f"#!/bin/sh\n{python}\n")
        (commands / command).chmod(0o755)
    surroundings = {"PATH": f"{commands}:/usr/bin:/bin", "PYTHON": name}
    command = ["sh", str(root / "scripts" / "venv.sh"), str(folder / "venv")]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("python", "name", "said"),
    [
        (
            TOO_OLD,
            "",
            ["no Python 3.11 or newer was found (python3 is Python 3.9.1)", "apt install python3 python3-venv"],
        ),
        (TOO_OLD, "python3", ["Python 3.9.1 is too old", "make PYTHON=python3.12"]),
        (TOO_OLD, "nopython", ["there is no nopython", "set PYTHON to a Python 3.11 or newer"]),
        (NO_ENSUREPIP, "", ["its module ensurepip (or venv) is missing", "apt install python3-venv"]),
        (NO_INDEX, "", ["ERROR: no index", "the installation failed", "PIP_INDEX_URL"]),
    ],
)
def test_what_is_missing_is_said(root: Path, tmp_path: Path, python: str, name: str, said: list[str]) -> None:
    done = _set_up(root, tmp_path, python, name)
    assert done.returncode == 1
    assert [words for words in said if words not in done.stderr] == []
    assert not (tmp_path / "venv" / ".stamp").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_help_lists_every_target(root: Path) -> None:
    done = subprocess.run(["make", "-C", str(root)], capture_output=True, text=True, check=True)
    for target in ("demo", "test", "lint", "bench", "determinism"):
        assert f"make {target} " in done.stdout
