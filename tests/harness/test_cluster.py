"""A run on a cluster has the records of one at home, and loses and doubles nothing with the nodes it loses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError, MissingExtraError, ServiceError
from agentenvs.harness import cluster
from agentenvs.harness.run import RunConfig, evaluate
from tests.adapters.peers import peer_python

PEERS = Path(__file__).parent / "peers"


class Errors:
    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        def __init__(self, cause):
            self.cause = cause


@dataclass(eq=False)
class Task:
    number: int
    function: Callable[..., Any]
    given: tuple[Any, ...]


class FakeRay:
    """Plays tasks when they are waited for, the latest first; ``lost`` says which of them come to nothing."""

    exceptions = Errors

    def __init__(self, lost=(), interrupt_at=None):
        self.lost, self.started, self.cancelled, self.joined = set(lost), 0, [], []
        self.interrupt_at = interrupt_at

    def remote(self, **_):
        return lambda function: SimpleNamespace(remote=lambda *given: self._start(function, given))

    def _start(self, function, given):
        self.started += 1
        return Task(self.started, function, given)

    def init(self, address, **_):
        if address == "nowhere":
            raise ConnectionError("no such cluster")
        self.joined.append(address)

    def put(self, value):
        return value

    def wait(self, tasks, **_):
        if self.interrupt_at is not None and self.started >= self.interrupt_at:
            raise KeyboardInterrupt
        return [max(tasks, key=lambda task: task.number)], []

    def get(self, task):
        if task.number in self.lost:
            raise Errors.RayError("the node died")
        try:
            return task.function(*task.given)
        except Exception as error:
            raise Errors.RayTaskError(error) from error

    def cancel(self, task, *, force):
        self.cancelled.append(task.number)

    def shutdown(self):
        self.joined.pop()


@pytest.fixture
def config(tmp_path):
    options = {"limit": 6}
    return RunConfig("household", "random", split="dev", episodes=6, options=options, out=tmp_path / "here")


def on(ray, monkeypatch, config, tmp_path, **more):
    monkeypatch.setattr(cluster, "_ray", lambda: ray)
    given = {"backend": "ray", "address": "auto", "concurrency": 3, "out": tmp_path / "there", **more}
    return evaluate(replace(config, **given))


def records(folder):
    return {file.name: file.read_bytes() for file in sorted((folder / "records").iterdir())}


def test_records_and_numbers_are_those_of_a_run_at_home(config, monkeypatch, tmp_path):
    ray = FakeRay()
    home, away = evaluate(config), on(ray, monkeypatch, config, tmp_path)
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert [one.to_json() for one in away.episodes] == [one.to_json() for one in home.episodes]
    assert away.manifest.merkle_root == home.manifest.merkle_root
    assert ray.joined == []


def test_what_is_lost_is_played_again_and_counted_once(config, monkeypatch, tmp_path):
    home, away = evaluate(config), on(FakeRay(lost={2, 3, 5, 6}), monkeypatch, config, tmp_path)
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert [one.number for one in away.episodes] == list(range(6))
    assert sum(one.attempt for one in away.episodes) == 6 + 4
    assert (away.complete, away.summary["restarted"]) == (True, 4)
    assert away.summary["mean_return"] == home.summary["mean_return"]


def test_an_episode_that_is_lost_again_and_again_ends_the_run(config, monkeypatch, tmp_path):
    with pytest.raises(ServiceError, match="lost episode"):
        on(FakeRay(lost=range(100)), monkeypatch, config, tmp_path)


def test_an_interrupt_leaves_a_run_that_can_go_on(config, monkeypatch, tmp_path):
    ray = FakeRay(interrupt_at=5)
    result = on(ray, monkeypatch, config, tmp_path)
    assert (result.interrupted, result.complete, len(result.episodes)) == (True, False, 2)
    assert len(ray.cancelled) == 3


def test_the_mistake_of_a_node_is_told_as_it_is(config, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "__version__", "9.9.9")
    play = cluster.play_one
    monkeypatch.setattr(cluster, "play_one", lambda config, version, *task: play(config, "0.0.0", *task))
    with pytest.raises(ConfigError, match=r"a node has agentenvs 9\.9\.9, not 0\.0\.0"):
        on(FakeRay(), monkeypatch, config, tmp_path)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"backend": "local", "address": "auto"}, "address"),
        ({"order": (1, 2), "episodes": None}, "stream"),
        ({"policy": "exec:true"}, "server"),
    ],
)
def test_runs_that_cannot_be_played_there_are_refused_before_anything(config, monkeypatch, tmp_path, given, word):
    with pytest.raises(ConfigError, match=word):
        on(FakeRay(), monkeypatch, config, tmp_path, **given)
    assert not (tmp_path / "there").exists()


def test_a_cluster_that_is_not_there_and_ray_that_is_not_installed(config, monkeypatch, tmp_path):
    with pytest.raises(ServiceError, match="nowhere"):
        on(FakeRay(), monkeypatch, config, tmp_path, address="nowhere")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="ray"):
        cluster.check_cluster(RunConfig("household", "random", backend="ray"))


@pytest.mark.peer
@pytest.mark.timeout(400)
def test_a_node_killed_under_load_costs_no_episode(tmp_path, monkeypatch):
    python = peer_python("AGENTENVS_PEER_RAY", "ray and agentenvs")
    script, env = PEERS / "ray_run.py", {**os.environ, "PYTHONPATH": str(PEERS)}
    run = subprocess.run([python, str(script), "away"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3_000:]
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["killed_after"]
    assert told["complete"]
    assert [one["number"] for one in told["episodes"]] == list(range(12))
    assert told["summary"]["restarted"] >= 1  # the node was at work on something
    assert all(one["ending"] == "truncated" and one["error"] is None for one in told["episodes"])
    monkeypatch.syspath_prepend(str(PEERS))
    options = {"limit": 8}
    config = RunConfig("household", "ray_run:Slow", split="dev", episodes=12, options=options, out=tmp_path / "home")
    evaluate(replace(config, concurrency=12))
    assert records(tmp_path / "away") == records(tmp_path / "home")
