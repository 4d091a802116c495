"""A fleet on a server is the fleet in process: the same arrays, the same records, one request a step."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import agentenvs
from agentenvs.client import ClientSettings, in_process
from agentenvs.client.fleet import RemoteFleet
from agentenvs.core import registry
from agentenvs.core.errors import OptionError, ServiceError, SplitError, UnknownEnvError
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs.core.vector import VectorEnv
from agentenvs_servers.app import make_app
from agentenvs_servers.settings import Settings
from tests.client.servers import Relay, serving
from tests.client.tcp import Tcp, tcp
from tests.core.test_vector import MODES, WORDS, same

SIZE = 5
QUICK = ClientSettings(backoff=0.01, retries=0, patience=0, timeout=5)


@pytest.fixture
def line(url: str) -> Iterator[Tcp]:
    with tcp(url) as found:
        yield found


def _compare(there: VectorEnv, mode: Any) -> None:
    here = agentenvs.make_vec("household", SIZE, autoreset_mode=mode, limit=3, record=True)
    options = {"split": "dev", "index": list(range(SIZE))}
    for mine, yours in zip(there.reset(options=options), here.reset(options=options), strict=True):
        same(mine, yours)
    for seeded in (there, here):
        for slot in range(SIZE):
            seeded._drawing(slot)[0].bit_generator.state = np.random.PCG64(slot).state
    for turn in range(8):
        if mode is MODES[2] and turn and turn % 3 == 0:
            for mine, yours in zip(there.reset(seed=turn), here.reset(seed=turn), strict=True):
                same(mine, yours)
        actions = [WORDS[(turn + slot) % len(WORDS)] for slot in range(SIZE)]
        for mine, yours in zip(there.step(actions), here.step(actions), strict=True):
            same(mine, yours)
        assert there.verdicts() == here.verdicts()
        assert there.records() == here.records()


@pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])
@pytest.mark.parametrize("wire", ["socket", "http", "app"])
def test_it_is_the_fleet_in_process(url: str, app: Any, mode: Any, wire: str) -> None:
    more: dict[str, Any] = {"transport": app} if wire == "app" else {"settings": ClientSettings(wire=wire)}
    there = agentenvs.make_vec("household", SIZE, url=url, autoreset_mode=mode, limit=3, **more)
    _compare(there, mode)
    there.close()
    there.close()


def test_a_step_of_all_is_one_request(relay: Relay) -> None:
    there = agentenvs.make_vec("stairs", 50, url=relay.url)
    there.reset(options={"split": "few", "index": 2})
    before = len(relay.requests)
    there.step(["up"] * 50)
    assert relay.requests[before:] == [("POST", "/v1/steps")]
    there.close()


def test_a_server_that_takes_fewer_is_asked_in_parts() -> None:
    with serving("stairs", settings=Settings(max_batch=7)) as url:
        there = agentenvs.make_vec("stairs", 30, url=url)
        there.reset(options={"split": "few", "index": 2})
        for turn in (1, 2):
            assert set(there.step(["up"] * 30)[0]) == {f"Step {turn}."}
        assert there.fleet._line._most_items <= 7
        there.close()


def test_a_server_that_takes_small_bodies_is_asked_in_parts() -> None:
    with serving("stairs", settings=Settings(max_body_bytes=2_000)) as url:
        there = agentenvs.make_vec("stairs", 30, url=url, settings=ClientSettings(wire="http"))
        there.reset(options={"split": "few", "index": 2})
        assert set(there.step(["up"] * 30)[0]) == {"Step 1."}
        there.close()


def test_a_broken_line_costs_nothing(line: Tcp) -> None:
    there = agentenvs.make_vec("household", 64, url=line.url, limit=30, settings=ClientSettings(backoff=0.01))
    there.reset(options={"split": "dev", "index": list(range(64))})
    stop = threading.Event()

    def break_it() -> None:
        while not stop.wait(0.05):
            line.cut()

    breaker = threading.Thread(target=break_it)
    breaker.start()
    try:
        for turn in range(30):
            there.step([WORDS[(turn + slot) % len(WORDS)] for slot in range(64)])
        records = there.records()
    finally:
        stop.set()
        breaker.join()
    assert line.opened > 1
    for slot in range(64):
        recorded = Recorded(registry.make("household", limit=30))
        recorded.reset(TaskRef("dev", slot))
        for turn in range(30):
            recorded.step(WORDS[(turn + slot) % len(WORDS)])
        assert records[slot] == recorded.to_bytes()
    there.close()


def test_a_step_that_could_not_be_finished_is_finished_by_asking_again(relay: Relay) -> None:
    """The line fails after turns were played: they are not played twice."""
    there = agentenvs.make_vec("stairs", 4, url=relay.url, settings=QUICK, autoreset_mode="SameStep")
    there.reset(options={"split": "few", "index": [0, 1, 2, 0]})
    there.fleet._line._most_items = 2
    steps = iter(["lost", None])
    relay.fault = lambda number, method, path: next(steps) if path == "/v1/steps" else None
    with pytest.raises(ServiceError, match="stays away"):
        there.step(["up"] * 4)
    relay.fault = lambda number, method, path: None
    _, rewards, terminations, _, infos = there.step(["up"] * 4)
    assert (list(rewards), list(terminations)) == ([1.0, 0.0, 0.0, 1.0], [True, False, False, True])
    assert list(infos["final_obs"][[0, 3]]) == ["Step 1."] * 2
    assert list(there.step(["up"] * 4)[0])[2] == "Step 2."
    there.close()


def test_an_episode_that_ended_has_ended_though_nobody_can_be_asked_how(relay: Relay) -> None:
    there = agentenvs.make_vec("stairs", 2, url=relay.url, settings=QUICK)
    there.reset(options={"split": "few", "index": [0, 2]})
    relay.fault = lambda number, method, path: "lost" if method == "GET" else None
    _, rewards, terminations, _, _ = there.step(["up"] * 2)
    assert (list(rewards), list(terminations), there.verdicts()) == ([1.0, 0.0], [True, False], (None, None))
    relay.fault = lambda number, method, path: None
    _, rewards, terminations, _, _ = there.step(["up"] * 2)
    assert (list(rewards), list(terminations)) == ([0.0, 0.0], [False, False])
    there.close()


def test_a_session_that_is_gone_is_lost_alone() -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()
    transport = in_process(make_app(["stairs"], clock=clock))
    there = agentenvs.make_vec("stairs", 3, url="http://x", transport=transport, settings=ClientSettings(ttl=10))
    there.reset(options={"split": "few", "index": 2})
    clock.now = 8.0
    mine = there.fleet._sessions
    for session in (mine[0], mine[2]):
        there.fleet._line.carry(session.ping())
    clock.now = 15.0
    observations, rewards, terminations, truncations, infos = there.step(["up"] * 3)
    assert list(observations)[::2] == ["Step 1."] * 2
    assert (list(rewards), list(terminations), list(truncations)) == ([0.0] * 3, [False] * 3, [False, True, False])
    assert "expired" in infos["lost"][1]
    assert list(infos["_lost"]) == [False, True, False]
    observations, *_ = there.step(["up"] * 3)
    assert list(observations)[::2] == ["Step 2."] * 2
    there.close()


def test_it_closes_its_sessions() -> None:
    with serving("stairs", settings=Settings(max_sessions=4)) as url:
        for _ in range(3):
            there = agentenvs.make_vec("stairs", 4, url=url, settings=QUICK)
            there.reset(options={"split": "few", "index": 2})
            there.close()
        fleet = RemoteFleet("stairs", 4, url, settings=QUICK)
        fleet.reset({slot: TaskRef("few", 2) for slot in range(4)})
        del fleet  # at garbage collection too
        again = RemoteFleet("stairs", 4, url, settings=QUICK)
        assert set(again.reset({3: TaskRef("few", 2)})) == {3}
        again.close()


def test_mistakes_are_those_in_process(url: str) -> None:
    with pytest.raises(UnknownEnvError):
        agentenvs.make_vec("nothing", 2, url=url)
    with pytest.raises(OptionError):
        agentenvs.make_vec("stairs", 2, url=url, more=1)
    with pytest.raises(OptionError, match="num_envs"):
        agentenvs.make_vec("stairs", 0, url=url)
    there = agentenvs.make_vec("stairs", 2, url=url)
    with pytest.raises(SplitError):
        there.reset(options={"split": "few", "index": 99})
    there.close()


@pytest.mark.parametrize(
    "reply", [b"{}", b"[]", b'{"items":3}', b'{"items":[]}', b'{"items":[{"status":200},{"status":200}]}', b"<html>"]
)
def test_a_reply_that_makes_no_sense_is_told(relay: Relay, reply: bytes) -> None:
    there = agentenvs.make_vec("stairs", 2, url=relay.url, settings=QUICK)
    there.reset(options={"split": "few", "index": 2})
    relay.fault = lambda number, method, path: (200, {}, reply) if path == "/v1/steps" else None
    with pytest.raises(ServiceError, match="answers nonsense"):
        there.step(["up"] * 2)
    relay.fault = lambda number, method, path: None
    assert list(there.step(["up"] * 2)[0]) == ["Step 1."] * 2
    there.close()


def test_steps_that_are_to_come_again_are_asked_again_alone(relay: Relay) -> None:
    there = agentenvs.make_vec("stairs", 3, url=relay.url, settings=ClientSettings(backoff=0.001))
    there.reset(options={"split": "few", "index": 2})
    busy = iter([True])

    def fault(number: int, method: str, path: str) -> Any:
        if path != "/v1/steps" or not next(busy, False):
            return None
        one = {"status": 503, "problem": {"code": "journal_unavailable", "title": "x"}, "retry_after": 0}
        return (200, {}, json.dumps({"items": [one] * 3}).encode())

    relay.fault = fault
    assert list(there.step(["up"] * 3)[0]) == ["Step 1."] * 3
    assert [path for _, path in relay.requests].count("/v1/steps") == 2
    there.close()
