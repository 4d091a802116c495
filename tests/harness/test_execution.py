"""Programs play over the wire, count by the server's record alone, and leave nothing behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay, rescore
from agentenvs.harness import execution
from agentenvs.harness.program import program
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

WALKER = Path(__file__).parent / "programs" / "walker.py"
TOKEN = "a-token-for-this-test"


@pytest.fixture(scope="module")
def url():
    with background(["household"], Settings(tokens=(TOKEN,))) as found:
        yield found


def run(url, tmp_path, kind, **more):
    command = f"exec:{sys.executable} {WALKER} {kind}"
    config = RunConfig("household", command, split="builtin", url=url, token=TOKEN, out=tmp_path / "run", **more)
    result = evaluate(config)
    sidecar = json.loads((tmp_path / "run" / "sidecars" / "000000.json").read_text())
    for record in read_records(tmp_path / "run"):
        assert replay(record).equal
        assert rescore(record).equal
    return result.episodes, sidecar["policy"]


def test_a_program_that_plays_to_the_end_is_counted_by_the_servers_record(url, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", "of the operator")
    episodes, said = run(url, tmp_path, "whole", episodes=2, concurrency=2, options={"limit": 7}, episode_seconds=60)
    assert [(episode.ending, episode.turns, episode.error) for episode in episodes] == [("truncated", 7, None)] * 2
    told, instruction = said["output"].splitlines()
    told = json.loads(told)
    assert told["AGENTENVS_URL"] == url
    assert (told["AGENTENVS_SECONDS"], told["AGENTENVS_TURNS"]) == ("60", "7")
    assert json.loads(told["AGENTENVS_TASK"])["instruction"] == instruction
    assert not {"AGENTENVS_TOKEN", "AGENTENVS_SEALED_SECRET"} & set(told)
    assert said["exit_code"] == 0


@pytest.mark.parametrize(
    ("kind", "ending", "turns", "error"),
    [
        ("leaving", "abandoned", 3, None),
        ("failing", "abandoned", 2, "the program exited with 1"),
        ("silent", "abandoned", 0, None),
    ],
)
def test_a_program_that_leaves_before_the_end_has_abandoned_its_episode(url, tmp_path, kind, ending, turns, error):
    episodes, said = run(url, tmp_path, kind, episodes=1)
    assert [(episode.ending, episode.turns, episode.error) for episode in episodes] == [(ending, turns, error)]
    assert len(said["output"]) < 100_000
    if kind == "failing":
        assert said["output"].rstrip().endswith("out of ideas")


def test_a_program_over_its_wall_limit_is_ended_with_all_its_children(url, tmp_path):
    mark = uuid.uuid4().hex
    episodes, said = run(url, tmp_path, f"hanging {mark}", episodes=1, episode_seconds=4)
    assert [(episode.ending, episode.stopped) for episode in episodes] == [("truncated", "the wall limit of 4 s")]
    assert "children started" in said["output"]
    assert _marked(mark) == []


def test_a_child_that_hands_over_to_children_of_its_own_is_ended_too(url, tmp_path):
    mark = uuid.uuid4().hex
    episodes, _ = run(url, tmp_path, f"relaying {mark}", episodes=1)
    assert [(episode.ending, episode.turns) for episode in episodes] == [("abandoned", 1)]
    assert _marked(mark) == []


def test_a_child_that_has_forgotten_where_it_came_from_is_ended_too(url, tmp_path):
    mark = uuid.uuid4().hex
    episodes, _ = run(url, tmp_path, f"cleaning {mark}", episodes=1)
    assert [(episode.ending, episode.turns) for episode in episodes] == [("abandoned", 1)]
    assert _marked(mark) == []


def test_a_program_ends_with_whoever_evaluates_it(url, tmp_path):
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "agentenvs.cli", "eval", "household", "--url", url, "--out", str(tmp_path / "run")]
    policy = f"exec:{sys.executable} {WALKER} hanging {mark}"
    surroundings = {**os.environ, "AGENTENVS_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([*command, "--policy", policy, "--episodes", "1"], env=surroundings) as evaluating:
        _eventually(lambda: len(_marked(mark, WALKER.name)) >= 1)
        evaluating.kill()
    _eventually(lambda: not _marked(mark))


def test_a_program_that_lingers_after_the_end_is_ended(url, tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "LEAVE_SECONDS", 0.2)
    episodes, said = run(url, tmp_path, "lingering", episodes=1, options={"limit": 2})
    assert [(episode.ending, episode.turns, episode.error) for episode in episodes] == [("truncated", 2, None)]
    assert said["exit_code"] < 0


def test_a_command_that_is_not_there_says_so(url, tmp_path):
    config = RunConfig("household", "exec:no-such-program-here", episodes=1, url=url, token=TOKEN, out=tmp_path / "run")
    assert evaluate(config).episodes[0].error == "the program exited with 127"


@pytest.mark.parametrize(
    ("policy", "url", "said"),
    [("exec:  ", "http://localhost:1", "names no command"), ("exec:true", None, "no server is named")],
)
def test_a_program_without_command_or_server_is_a_mistake(policy, url, said):
    with pytest.raises(ConfigError, match=said):
        program(policy, url, None)


def _marked(*words):
    found = (_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    return [line for line in found if all(word.encode() in line for word in words)]


def _eventually(holds):
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
