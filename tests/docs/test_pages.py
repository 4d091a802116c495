"""The pages for people: their commands run, their links lead somewhere, and they say what the Makefile does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, needs

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("", "servers/", "scenarios/", "scoring/", "benchmarks/", "docs/**/")
PAGES = sorted(page for room in ROOMS for page in ROOT.glob(f"{room}*.md"))
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
TARGETS = ("test", "lint", "bench", "determinism")


def _run_in(folder: Path, steps: Iterable[Block]) -> None:
    """Run blocks one after another; the running Python's commands come first on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    surroundings = {**os.environ, "PATH": path, "COLUMNS": "100", "XDG_DATA_HOME": str(folder / "share")}
    for name in ("VIRTUAL_ENV", "PYTHON", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VENV", "DATA", "ARGS"):
        surroundings.pop(name, None)
    for block in steps:
        command = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, block.text], cwd=folder, env=surroundings, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.fail(f"{block.where} failed:\n{block.text}\n{done.stdout}\n{done.stderr}", pytrace=False)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    for package in needs(page):
        pytest.importorskip(package, reason=f"{page.name} needs {package}, of an extra")
    _run_in(tmp_path, [block for block in blocks(page) if block.reason is None and not block.needs_setup])


@pytest.mark.readme
@pytest.mark.timeout(900)
def test_readme_runs_from_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "agentenvs"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, files.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    steps = [block for block in blocks(ROOT / "README.md") if block.reason is None]
    assert any("make demo" in block.text for block in steps)
    _run_in(copy, steps)


@pytest.mark.parametrize("target", TARGETS)
def test_the_readme_has_the_plain_commands_of_a_target(target: str) -> None:
    said = {line.split("  #")[0].strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()}
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    plain = recipe.group(1).replace("$(BIN)", ".venv/bin").replace("$(JOBS)", "2")
    commands = [re.sub(r" +\$\(.*\)$", "", line.strip()) for line in plain.splitlines()]
    assert [command for command in commands if command not in said] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_a_block_is_run_unless_it_says_why_not(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\nls\n```\n\n```bash\nmake test\n```\n<!-- not run: it would run itself -->\n\n```text\nout\n```\n"
        "```python\nx = 1\n```\n\n<!-- not run: -->\n"
    )
    assert [(block.language, block.text, block.reason, block.needs_setup) for block in blocks(page)] == [
        ("bash", "ls\n", None, False),
        ("bash", "make test\n", "it would run itself", True),
        ("python", "x = 1\n", None, False),
    ]


def test_a_failing_block_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```bash\nfalse\ntrue\n```\n")
    with pytest.raises(pytest.fail.Exception, match=r"page.md:4 failed"):
        _run_in(tmp_path, blocks(page))


def test_the_page_on_rewards_names_real_checks() -> None:
    from agentenvs.harness.check import CHECKS

    known = {f"{check.theme}.{check.name}" for check in CHECKS}
    text = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \d+\.", line)]
    assert len(rows) == 10
    named = [name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row.rpartition("| ")[0].split("|")[-1] + row)]
    assert named
    assert {name for name in named if not name.endswith(".html")} <= known
