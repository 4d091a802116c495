"""What holds for every verb: help, versions, exit codes, and what becomes of mistakes and bugs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentenvs._version import __version__
from agentenvs.core import registry
from agentenvs.core.errors import ServiceError

VERBS = (
    "list",
    "info",
    "play",
    "eval",
    "compare",
    "report",
    "collect",
    "export",
    "replay",
    "rescore",
    "calibrate",
    "check",
    "audit",
    "prepare",
    "serve",
    "top",
    "up",
    "down",
    "ps",
    "logs",
    "init",
    "wrap",
    "doctor",
    "runs",
    "view",
    "train",
    "leaderboard",
    "journal",
)
GROUPS = {
    "journal": ("ls", "export", "prune"),
    "leaderboard": (
        *("create", "ls", "pack", "verify", "submit", "serve", "build", "rescore"),
        *("host", "ticket", "tickets", "settle", "play", "attest", "reveal"),
    ),
    "runs": ("index", "ls", "show", "export", "rm", "frontier"),
    "view": ("open", "export"),
}
COMMANDS = (
    *(verb for verb in VERBS if verb not in GROUPS),
    *(f"{group} {verb}" for group, verbs in GROUPS.items() for verb in verbs),
    "train credit-audit",
)
WITHOUT_JSON = (
    *("serve", "logs", "journal export", "view open"),
    *("leaderboard serve", "leaderboard host", "leaderboard reveal"),
)
"""A server tells no result, a log is text; an export is JSON itself."""


def script(*args: str, cwd: Path, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentenvs.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=surroundings(), **more)


def surroundings(**more: str) -> dict[str, str]:
    roots = os.pathsep.join(str(path) for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": roots, **more}


def test_version(cli):
    assert cli("--version") == (0, f"agentenvs {__version__}\n", "")


def test_no_verb_shows_the_help(cli):
    ran = cli()
    assert ran.code == 2
    assert "Usage: agentenvs" in ran.out


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_help_with_examples(cli, verb):
    ran = cli(*verb.split(), "--help")
    assert ran.code == 0
    assert f"Examples:\n    agentenvs {verb}" in ran.out
    for option in ("--quiet", "--no-color", *(() if verb in WITHOUT_JSON else ("--json",))):
        assert option in ran.out


def test_no_other_verb_is_shown(cli):
    shown = cli("--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert tuple(line.split()[0] for line in shown.splitlines()) == VERBS


@pytest.mark.parametrize("code", ["0    clean", "1    the run was not clean", "2    a mistake", "3    a s", "130  in"])
def test_help_tells_the_exit_codes(cli, code):
    assert f"\n    {code}" in cli("--help").out


def test_help_imports_nothing_heavy():
    code = (
        "import sys, agentenvs.cli.main; heavy = ('numpy', 'gymnasium', 'pydantic', 'fastapi', 'httpx', 'jinja2', "
        "'rich', 'docker'); print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=surroundings())
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("evl",), "AE108 No such command 'evl'"),
        (("eval", "household"), "AE108 Missing option '--policy'"),
        (("info",), "AE108 Missing argument 'ENV'"),
        (("play", "household", "--index", "one"), "AE108 Invalid value for '--index'"),
        (("eval", "household", "--polic", "noop"), "--policy"),
    ],
)
def test_a_command_line_that_cannot_be_parsed(cli, args, message):
    ran = cli(*args)
    assert ran.code == 2
    assert message in ran.err
    assert "fix: usage: agentenvs" in ran.err
    assert cli(*args, "--json").json["error"]["code"] == "AE108"


def test_a_mistake_with_json_is_json_and_words(cli):
    ran = cli("info", "houshold", "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "AE101"
    assert "did you mean 'household'" in ran.err


def test_json_may_be_asked_for_by_a_variable(cli, monkeypatch):
    monkeypatch.setenv("AGENTENVS_JSON", "1")
    assert cli("info", "houshold").json["error"]["code"] == "AE101"
    assert isinstance(cli("list").json, list)


def test_a_service_that_stays_away_is_exit_code_3(cli, monkeypatch):
    def away() -> None:
        raise ServiceError("nobody answers")

    monkeypatch.setattr(registry, "list_envs", away)
    ran = cli("list")
    assert ran.code == 3
    assert ran.err == "AE109 nobody answers\n"


def test_a_bug_shows_its_traceback(cli, monkeypatch):
    monkeypatch.setattr(registry, "list_envs", lambda: 1 / 0)
    ran = cli("list", "--json")
    assert ran.code == 1
    assert "ZeroDivisionError" in ran.err
    assert "This is a bug of agentenvs: please report it" in ran.err
    assert ran.json["error"]["what"] == "ZeroDivisionError('division by zero')"


def test_an_interrupt_is_exit_code_130(cli, monkeypatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "list_envs", interrupted)
    assert cli("list").code == 130


@pytest.mark.parametrize("args", [("--quiet", "list"), ("list", "--quiet"), ("list", "-q")])
def test_quiet_before_the_verb_and_after_it(cli, args):
    assert cli(*args).err == ""


def test_without_quiet_there_are_messages(cli):
    assert cli("list").err == "What one says of itself: agentenvs info NAME\n"


@pytest.mark.parametrize("args", [("--no-color", "info", "household"), ("info", "household", "--no-color")])
def test_no_color(cli, monkeypatch, args):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" in cli("eval", "household", "--policy", "noop", "--episodes", "1", "--out", "run").out
    assert "\x1b[3" not in cli(*args).out.replace("\x1b[3m", "")


def test_NO_COLOR_is_respected(cli, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in cli("list").out


def test_the_script_itself(tmp_path):
    done = script("eval", "household", "--policy", "noop", "--episodes", "2", "--out", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["episodes"] == 2
    assert done.stderr.startswith("household noop: 2/2, 0 won")


@pytest.mark.parametrize("args", [("list",), ("--help",), ("info", "houséhold\x1b[31m")])
def test_a_terminal_that_knows_only_ascii(tmp_path, args):
    command = [sys.executable, "-m", "agentenvs.cli", *args]
    done = subprocess.run(
        command, capture_output=True, check=False, cwd=tmp_path, env=surroundings(PYTHONIOENCODING="ascii")
    )
    assert done.returncode == (2 if args[0] == "info" else 0)
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr


def test_a_reader_that_leaves_early_is_no_bug(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "agentenvs.cli", "info", "household"]
    with os.fdopen(writing, "w") as out:
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path, env=surroundings()
        )
    assert "Traceback" not in done.stderr


def test_a_person_at_a_terminal_presses_control_c(tmp_path):
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    here, there = pty.openpty()
    command = [sys.executable, "-m", "agentenvs.cli", "play", "household", "--record", "mine.jsonl"]
    with subprocess.Popen(
        command, stdin=there, stdout=there, stderr=there, cwd=tmp_path, env=surroundings(TERM="dumb")
    ) as person:
        os.close(there)
        said = _until(here, b"> ")
        os.write(here, b"look\n")
        said += _until(here, b"steps left: 49]\r\n> ")
        time.sleep(0.05)  # the prompt is written before the line is read
        person.send_signal(signal.SIGINT)
        said += _until(here, None)
    os.close(here)
    assert person.returncode == 130
    assert b"Type an action; :help lists what else there is." in said
    assert b"abandoned after 1 turns" in said
    assert len((tmp_path / "mine.jsonl").read_text().splitlines()) == 3


def _until(terminal: int, wanted: bytes | None) -> bytes:
    """Return what is said up to some words, or to the end."""
    said = b""
    while wanted is None or wanted not in said:
        chunk = _read(terminal)
        if not chunk:
            return said
        said += chunk
    return said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
