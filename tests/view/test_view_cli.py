"""``agentenvs view`` and ``view export`` as they are typed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import cli  # noqa: F401 - a fixture
from tests.cli.test_main import surroundings


def test_it_serves_until_told_to_stop(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "prior", tmp_path / "runs" / "prior")
    file = tmp_path / "url"
    command = [sys.executable, "-m", "agentenvs.cli", "view", "--port", "0", "--url-file", str(file), "--no-open"]
    process = subprocess.Popen(command, cwd=tmp_path, env=surroundings(), stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 120
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        page = httpx.get(file.read_text().strip())
        assert "runs/prior" in page.text
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert "Runs at http://127.0.0.1:" in said
    assert "Traceback" not in said
    assert process.returncode == (130 if os.name != "nt" else process.returncode)


@pytest.mark.parametrize(
    ("args", "there"),
    [
        (["{made}"], "Training runs"),
        (["{made}/prior"], "By family"),
        (["{made}/prior", "--episode", "3"], "Verdict"),
        (["{made}/prior", "--episode", "3", "--trace"], "as recorded"),
        (["{made}/prior", "--compare", "{made}/expert"], "second minus first"),
        (["{made}/prior", "--compare", "{made}/expert", "--episode", "5"], "the first difference"),
        (["{made}/training"], "Held-out evaluations"),
    ],
)
def test_pages_are_exported(cli, made: Path, args: list[str], there: str) -> None:  # noqa: F811
    ran = cli("view", "export", *(arg.format(made=made) for arg in args), "--out", "page.html", "--json")
    assert ran.code == 0
    page = Path(ran.json["page"]).read_text()
    assert there in page
    assert len(page.encode()) == ran.json["bytes"] < 1_000_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["{made}/nothing"], "there is no folder"),
        (["{made}", "--episode", "3"], "is no run folder"),
        (["{made}/prior", "--episode", "777"], "There is neither a record nor a sidecar"),
        (["{made}/prior", "--compare", "{made}/training"], "is no run folder"),
        (["{made}/prior", "--trace"], "only an episode is played again"),
    ],
)
def test_mistakes_are_told(cli, made: Path, args: list[str], said: str) -> None:  # noqa: F811
    ran = cli("view", "export", *(arg.format(made=made) for arg in args), "--out", "page.html")
    assert ran.code == 2
    assert said in ran.err
    assert not Path("page.html").exists()


def test_an_export_replaces_a_page_and_no_other_file(cli, made: Path, tmp_path: Path) -> None:  # noqa: F811
    page, other = tmp_path / "page.html", tmp_path / "manifest.json"
    other.write_text("{}")
    page.write_text("<!doctype html>old")
    refused = cli("view", "export", str(made / "prior"), "--out", str(other))
    assert refused.code == 2
    assert "is no page" in refused.err
    assert other.read_text() == "{}"
    assert cli("view", "export", str(made / "prior"), "--out", str(page)).code == 0
    assert "By family" in page.read_text()
    assert sorted(tmp_path.iterdir()) == [other, page]


def test_no_runs_are_a_mistake_that_says_what_to_do(cli) -> None:  # noqa: F811
    ran = cli("view", "--no-open")
    assert ran.code == 2
    assert "agentenvs eval" in ran.err
