"""``agentenvs init``: one file, or a package, that is green from the first minute."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agentenvs
from agentenvs.core import registry
from agentenvs_servers.run import background

pytestmark = pytest.mark.usefixtures("as_before")


@pytest.fixture
def world(cli):
    assert cli("init", "tea_room", "--minimal").out == "tea_room.py\n"
    return "./tea_room.py"


def test_one_file_is_short(world):
    assert len(Path(world).read_text().splitlines()) <= 60


def test_one_file_passes_the_check(cli, world):
    ran = cli("check", world, "--quick")
    assert ran.code == 0, ran.out
    assert "0 failed" in ran.out
    assert "ranked boards                      yes" in ran.out


def test_one_file_is_evaluated_replayed_and_rescored(cli, world):
    assert cli("eval", world, "--policy", "oracle", "--episodes", "3", "--out", "won", "--fail-under", "1").code == 0
    lost = cli("eval", world, "--policy", "idle", "--episodes", "3", "--out", "lost", "--json")
    assert lost.json["summary"]["success_rate"] == 0
    for verb in ("replay", "rescore"):
        assert "3 of 3 records" in cli(verb, "won", "--env", world).out


def test_the_next_step_after_an_evaluation_names_the_file(cli, world):
    ran = cli("eval", world, "--policy", "idle", "--episodes", "2", "--out", "lost")
    assert "agentenvs replay lost --env ./tea_room.py" in ran.err
    assert "agentenvs play ./tea_room.py --split dev --index 0" in ran.err


def test_one_file_is_served_and_played_over_the_wire(cli, world):
    with background([world]) as url:
        ran = cli("eval", world, "--policy", "oracle", "--episodes", "3", "--url", url, "--out", "served")
        assert ran.code == 0, ran.err
    assert cli("replay", "served", "--env", world).code == 0


def test_one_file_is_played(cli, world):
    ran = cli("play", f"{world}:TeaRoom", stdin="no\n1\n")
    assert ran.code == 0
    assert "Say a number from 1 to 20." in ran.out


def test_one_file_is_made_from_python(world):
    env = agentenvs.make(world, admissible=True)
    assert env.reset().admissible[:2] == ("1", "2")
    fork = env.fork()
    fork.step("1")
    assert (fork.turn, env.turn) == (1, 0)


def test_info_shows_it(cli, world):
    assert "tea_room/TeaRoom-v0" in cli("info", world).out


@pytest.mark.parametrize(
    ("name", "said"),
    [("Tea", "cannot be the name"), ("a-b", "cannot be the name"), ("class", "cannot be the name")],
)
def test_a_bad_name_is_refused(cli, name, said):
    ran = cli("init", name, "--minimal")
    assert ran.code == 2
    assert said in ran.err


def test_nothing_is_overwritten(cli, world):
    ran = cli("init", "tea_room", "--minimal")
    assert ran.code == 2
    assert "tea_room.py is there already" in ran.err


EMPTY, TWO = "x = 1\n", "from agentenvs.core.simple import Simple\nclass A(Simple): ...\nclass B(Simple): ...\n"


@pytest.mark.parametrize(
    ("name", "text", "target", "said"),
    [
        ("none.py", None, "./none.py", "there is no file none.py"),
        ("json.py", EMPTY, "./json.py", "the module 'json' is"),
        ("sys.py", EMPTY, "./sys.py", "the module 'sys' is built in"),
        ("a-b.py", EMPTY, "./a-b.py", "its name is no Python name"),
        ("empty_one.py", EMPTY, "./empty_one.py", "defines no environment"),
        ("two_of_them.py", TWO, "./two_of_them.py", "name one: ./two_of_them.py:A, ./two_of_them.py:B"),
        ("bad_one.py", "x = 1\n1 / 0\n", "./bad_one.py", "bad_one.py:2: ZeroDivisionError"),
        ("bad_name.py", EMPTY, "./bad_name.py:Garden", "bad_name has no 'Garden'"),
        ("bad_kind.py", EMPTY, "./bad_kind.py:x", "is no environment"),
    ],
)
def test_a_file_that_is_no_environment_gets_a_message(cli, name, text, target, said):
    if text is not None:
        Path(name).write_text(text)
    ran = cli("info", target)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_record_imports_no_file(cli, world):
    """What a record or a server names is looked up, never imported."""
    with pytest.raises(agentenvs.core.errors.UnknownEnvError):
        registry.spec("./tea_room.py")
    assert "tea_room" not in sys.modules


@pytest.fixture
def package(cli, tmp_path):
    made = cli("init", "rose_garden")
    assert made.out == "rose_garden\n"
    assert "pip install -e '.[dev]'" in made.err
    return tmp_path / "rose_garden"


def test_a_package_has_all_that_is_needed(package):
    files = {file.relative_to(package).as_posix() for file in package.rglob("*") if file.is_file()}
    assert files == {
        ".dockerignore",
        ".github/workflows/ci.yml",
        ".gitignore",
        "Dockerfile",
        "README.md",
        "pyproject.toml",
        *(f"rose_garden/{name}.py" for name in ("__init__", "env", "players", "probes", "scenarios", "score", "spec")),
        "tests/test_rose_garden.py",
    }
    texts = [file.read_text() for file in package.rglob("*") if file.is_file()]
    assert not [text for text in texts if "my_world" in text or "MyWorld" in text or "My world" in text]


def test_a_package_is_green_from_the_first_minute(package, tmp_path, root):
    """Install it beside this suite, find it through its entry point, run its tests, check, evaluate, serve."""
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*install, str(package)], check=True, capture_output=True, env={**os.environ, "PIP_NO_INDEX": "1"})
    paths = [str(site), *(str(root / room) for room in ("", "servers", "scenarios", "scoring"))]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*command):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=package, env=surroundings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "passed" in run("pytest", "-q", "-p", "no:cacheprovider")
    assert "rose_garden/RoseGarden-v0" in run("agentenvs.cli", "list")
    assert "0 failed" in run("agentenvs.cli", "check", "rose_garden", "--quick")
    run("agentenvs.cli", "eval", "rose_garden", "--policy", "oracle", "--episodes", "3", "--fail-under", "1", "-q")
    url_file = tmp_path / "url"
    serve = ["serve", "rose_garden", "--port", "0", "--url-file", str(url_file)]
    server = subprocess.Popen([sys.executable, "-m", "agentenvs.cli", *serve], env=surroundings, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while not url_file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        url = url_file.read_text().strip()
        run("agentenvs.cli", "eval", "rose_garden", "--policy", "oracle", "--episodes", "2", "--url", url, "-q")
    finally:
        server.terminate()
        server.communicate(timeout=30)
