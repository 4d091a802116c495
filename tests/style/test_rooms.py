"""Every package stands in a room that the import contracts know, and the contracts bite."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

LAYERED = ("agentenvs.envs", "agentenvs_scenarios", "agentenvs_scoring", "agentenvs_scoring.probes")
WORLDS = ("household", "webshop", "sqlharness", "livestore", "searchworld", "usersim")

PLANTED = [
    ("agentenvs/core/planted.py", "import agentenvs.envs", "Imports point down"),
    ("scenarios/agentenvs_scenarios/planted.py", "import agentenvs_scoring", "Imports point down"),
    ("scoring/agentenvs_scoring/planted.py", "import agentenvs.envs", "Imports point down"),
    ("agentenvs/envs/planted.py", "import agentenvs_servers", "Imports point down"),
    ("agentenvs/harness/planted.py", "import agentenvs_servers", "never through the servers"),
    ("agentenvs/envs/webshop/planted.py", "import agentenvs.envs.household", "another: verbs"),
    ("scenarios/agentenvs_scenarios/webshop/planted.py", "import agentenvs_scenarios.household", "another: nouns"),
    ("agentenvs/envs/planted.py", "import time", "know no chance, clock, network or process"),
    ("agentenvs/core/planted.py", "import httpx", "neither doors nor screens"),
]


def _contracts(root: Path) -> dict[str, Any]:
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


def _subpackages(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def test_every_room_is_in_the_contract(root: Path) -> None:
    named = set(re.findall(r"agentenvs\.(\w+)", " ".join(_contracts(root)["rooms"]["layers"])))
    assert _subpackages(root / "agentenvs") <= named


def test_every_world_is_in_the_contracts(root: Path) -> None:
    contracts = _contracts(root)
    for where, contract in zip(LAYERED, ("verbs", "nouns", "worth", "probes"), strict=True):
        named = re.findall(rf"\({re.escape(where)}\.(\w+)\)", contracts[f"worlds-{contract}"]["layers"][0])
        assert tuple(named) == WORLDS
    assert _subpackages(root / "agentenvs" / "envs") <= set(WORLDS)


@pytest.mark.parametrize(("path", "line", "broken"), PLANTED, ids=[f"{path}-{line}" for path, line, _ in PLANTED])
def test_a_planted_import_is_caught(root: Path, tmp_path: Path, path: str, line: str, broken: str) -> None:
    for package in ("agentenvs", "agentenvs/core", "agentenvs/envs", "agentenvs/envs/household"):
        _package(tmp_path / package)
    for room in ("servers", "scenarios", "scoring"):
        _package(tmp_path / room / f"agentenvs_{room}")
    _package(tmp_path / "scenarios/agentenvs_scenarios/household")
    _package((tmp_path / path).parent)
    shutil.copy(root / "pyproject.toml", tmp_path)
    assert _lint(tmp_path).returncode == 0
    (tmp_path / path).write_text(line + "\n")
    done = _lint(tmp_path)
    assert done.returncode == 1
    assert re.search(rf"{re.escape(broken)}\s+BROKEN", " ".join(done.stdout.split()))


def _package(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(folder / room) for room in (".", "servers", "scenarios", "scoring")]
    start = f"import sys; sys.path[:0] = {paths!r}; import importlinter.cli as cli; cli.lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", start, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )
