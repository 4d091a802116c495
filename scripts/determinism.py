"""Runs the golden digests on every supported Python of this machine, under several hash seeds, and compares them.

    python scripts/determinism.py                     # every Python found; names the ones that are missing
    python scripts/determinism.py --require 3.12      # exit 1 where 3.12 cannot be checked

A Python is looked for as ``pythonX.Y`` on PATH and under ``~/.pyenv/versions``. Each but the running one gets its own
environment with the base install under ``.venvs/``, kept until the dependencies in pyproject.toml change. A Python that
is absent or cannot be set up is named and does not fail the check unless it is required; a digest that differs always
does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECK = ROOT / "tests" / "golden" / "check.py"
GOLDEN = ROOT / "tests" / "golden" / "golden.json"
VERSIONS = ("3.11", "3.12", "3.13")
HASH_SEEDS = ("0", "1", "4294967295")


class NotUsableError(Exception):
    """A Python is absent or cannot be set up; the message says why."""


@dataclass(frozen=True)
class Run:
    """The digests of one Python under one hash seed, or what went wrong."""

    version: str
    seed: str
    digests: dict[str, str]
    error: str = ""

    def faults(self, golden: dict[str, str]) -> list[str]:
        """Return a line for each digest that differs from the golden one."""
        label = f"Python {self.version}, PYTHONHASHSEED={self.seed}"
        if self.error:
            return [f"{label}: {self.error}"]
        names = sorted(golden.keys() | self.digests.keys())
        return [
            f"{label}: {name} is {self.digests.get(name)}, golden {golden.get(name)}"
            for name in names
            if golden.get(name) != self.digests.get(name)
        ]


def find(version: str) -> Path:
    """Return an interpreter of a version, the running one if it fits.

    Raises:
        NotUsableError: There is none.
    """
    for candidate in _candidates(version):
        if _version_of(candidate) == version:
            return candidate
    raise NotUsableError("not found")


def prepare(version: str, python: Path) -> Path:
    """Return an interpreter of this version that has the base install, making its environment where needed.

    Raises:
        NotUsableError: The environment cannot be made or filled.
    """
    if python == Path(sys.executable):
        return python
    folder = ROOT / ".venvs" / f"py{version}"
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "dependencies.sha256"
    wanted = _dependencies_digest()
    if inside.exists() and stamp.exists() and stamp.read_text() == wanted:
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    _must([str(python), "-m", "venv", str(folder)], "cannot make an environment")
    _must([str(inside), "-m", "pip", "install", "--quiet", "--editable", str(ROOT)], "cannot install")
    stamp.write_text(wanted)
    return inside


def run(version: str, python: Path, seed: str) -> Run:
    """Compute the digests with one interpreter under one hash seed."""
    done = subprocess.run(
        [str(python), str(CHECK), "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return Run(version, seed, {}, _last_line(done.stderr) or f"exit status {done.returncode}")
    return Run(version, seed, json.loads(done.stdout))


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    for folder in os.get_exec_path():
        path = Path(folder) / f"python{version}"
        if path.is_file():
            yield path
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)


def _version_of(python: Path) -> str:
    """Return ``X.Y``, or nothing where the file does not run (a shim of a Python that is switched off)."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _dependencies_digest() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = json.dumps([str(ROOT), project["dependencies"], project.get("scripts", {})])
    return hashlib.sha256(text.encode()).hexdigest()


def _must(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotUsableError(f"{what}: {_last_line(done.stderr) or _last_line(done.stdout)}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _usable() -> tuple[dict[str, Path], dict[str, str]]:
    """Return the interpreters that can be checked, and for the others why not."""
    ready: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for version in VERSIONS:
        try:
            ready[version] = prepare(version, find(version))
        except NotUsableError as error:
            missing[version] = str(error)
    return ready, missing


def main() -> int:
    """Check all and report."""
    parser = argparse.ArgumentParser(description="Check the golden digests on every supported Python here.")
    parser.add_argument("--require", action="append", default=[], choices=VERSIONS, help="fail where it is missing")
    required = parser.parse_args().require
    ready, missing = _usable()
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    jobs = [(version, python, seed) for version, python in ready.items() for seed in HASH_SEEDS]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = list(pool.map(lambda job: run(*job), jobs))
    faults = [line for one in runs for line in one.faults(golden)]
    for version in ready:
        bad = [one for one in runs if one.version == version and one.faults(golden)]
        verdict = "DIFFER" if bad else "equal"
        print(f"Python {version}: {len(golden)} digests x {len(HASH_SEEDS)} hash seeds: {verdict}")
    for version, why in missing.items():
        print(f"Python {version}: missing, not checked ({why})")
    faults += [f"Python {version} is required and missing" for version in required if version in missing]
    if not ready:
        faults.append("no Python could be checked")
    for line in faults:
        print(f"error: {line}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
