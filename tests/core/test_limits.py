"""Limits of a worker, and workers that wait: a guest that grows or spins is undone, and nobody waits for a start."""

from __future__ import annotations

import os
import sys
import time

import pytest

from agentenvs.core import pool
from agentenvs.core.hosting import Hosted
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from tests.core import guests

REF = TaskRef("train", 1)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems hold other limits")


def call(tool):
    return {"tool": tool, "arguments": {}}


@pytest.mark.parametrize(
    ("tool", "limits", "code", "said"),
    [
        ("grow", {"memory_mb": 400}, "step_memory", "it needed more than 400 MB of memory"),
        ("spin", {"cpu_seconds": 1.0}, "step_cpu", "it used more than 1 s of processor time"),
    ],
)
def test_a_guest_beyond_its_limit_is_undone(tool, limits, code, said):
    env = Recorded(Hosted(guests.spec(**limits)))
    try:
        env.reset(REF)
        env.step(call("add"))
        result = env.step(call(tool))
        assert (result.info["invalid"], env.env.last_valid[1]) == (True, code)
        assert said in result.observation.text
        assert "add: 2" in env.step(call("add")).observation.text
        env.finish("abandoned")
        (record,) = parse_records(env.to_bytes())
    finally:
        env.env.close()
    assert replay(record, Hosted(guests.spec(**limits))).equal


def test_a_guest_that_goes_on_growing_ends_its_episode():
    env = Hosted(guests.spec(memory_mb=400))
    try:
        env.reset(REF)
        last = [env.step(call("grow")) for _ in range(3)][-1]
        assert "The episode ends here" in last.observation.text
        assert (env.ending, env.verdict.reward) == ("aborted", 0.0)
    finally:
        env.close()


def test_no_limit_where_none_is_wanted():
    env = Hosted(guests.spec(memory_mb=0))
    try:
        env.reset(REF)
        assert not env.step(call("add")).info["invalid"]
        assert env.resident_bytes() > 2**20
    finally:
        env.close()


def test_limits_of_a_machine_are_no_behaviour():
    assert guests.spec(memory_mb=100, cpu_seconds=1.0).digest == guests.SPEC.digest
    assert guests.spec(step_seconds=1.0).digest != guests.SPEC.digest
    with_limits = guests.spec(memory_mb=100)
    assert EnvSpec.from_json(with_limits.to_json()) == with_limits


@pytest.fixture
def warm(monkeypatch):
    monkeypatch.setenv(pool.VARIABLE, "2")
    yield
    pool.close_all()


def ready():
    return sum(known.ready for known in pool._pools.values())


def wait_for(count):
    until = time.monotonic() + 60
    while ready() != count and time.monotonic() < until:
        time.sleep(0.05)
    assert ready() == count


def test_workers_wait_and_are_replaced(warm):
    first = Hosted(guests.SPEC)
    wait_for(2)
    waiting = {worker._process.pid for known in pool._pools.values() for worker in known._ready}
    second = Hosted(guests.SPEC)
    assert second._worker._process.pid in waiting
    assert second.reset(REF).text == "Begin."
    wait_for(2)
    for env in (first, second):
        env.close()


def test_a_worker_that_died_waiting_is_given_to_nobody(warm):
    Hosted(guests.SPEC).close()
    wait_for(2)
    for known in pool._pools.values():
        for worker in known._ready:
            os.killpg(worker._process.pid, 9)
            worker._process.wait()
    env = Hosted(guests.SPEC)
    assert env.reset(REF).text == "Begin."
    env.close()


def test_no_worker_waits_unless_asked_for(monkeypatch):
    monkeypatch.setenv(pool.VARIABLE, "nonsense")
    Hosted(guests.SPEC).close()
    assert ready() == 0


def test_kinds_that_nobody_asks_for_are_let_go(warm, monkeypatch):
    monkeypatch.setattr(pool, "MOST_KINDS", 1)
    Hosted(guests.SPEC).close()
    Hosted(guests.SPEC, admissible=True).close()
    assert len(pool._pools) == 1
