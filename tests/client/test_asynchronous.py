from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from agentenvs.client import AsyncRemoteEnv, ClientSettings, connect
from agentenvs.core import registry
from agentenvs.core.errors import EpisodeNotStarted, ServiceError, UnknownEnvError
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs_servers.app import make_app
from tests.client.servers import Relay

ACTIONS = ("look", "nonsense", {"tool": "inventory", "arguments": {}}, "go to fridge 1")


async def _compared(there: AsyncRemoteEnv, index: int) -> None:
    recorded = Recorded(registry.make("household"))
    ref = TaskRef("dev", index)
    assert await there.reset(ref) == recorded.reset(ref)
    for action in ACTIONS:
        assert await there.astep(action) == recorded.step(action)
    assert there.turn == len(ACTIONS)
    assert await there.finish("truncated") == recorded.finish("truncated") == there.verdict
    assert await there.record() == recorded.to_bytes()


def test_without_a_socket() -> None:
    async def play() -> None:
        transport = httpx.ASGITransport(make_app(["household"]))  # type: ignore[arg-type]
        there = await connect("household", transport=transport, trace=True)
        await _compared(there, 0)
        assert there.last_trace.turn == len(ACTIONS)
        await there.close()
        await there.close()
        with pytest.raises(EpisodeNotStarted):
            await there.step("look")

    asyncio.run(play())


def test_many_at_a_time_over_a_bad_line(relay: Relay) -> None:
    relay.fault = lambda number, method, path: "lost" if number % 5 == 0 else None
    settings = ClientSettings(backoff=0.001, timeout=5)

    async def one(index: int) -> None:
        async with AsyncRemoteEnv("household", relay.url, settings=settings) as there:
            await _compared(there, index)

    async def play() -> None:
        await asyncio.gather(*(one(index) for index in range(8)))

    asyncio.run(play())


def test_slow_replies_and_patience(relay: Relay) -> None:
    async def play() -> None:
        settings = ClientSettings(backoff=0.001, timeout=0.3, retries=1, patience=0)
        async with AsyncRemoteEnv("stairs", relay.url, settings=settings) as there:
            await there.reset(TaskRef("few", 1))
            assert (await there.ping()).idle > 0
            slow = iter([True])
            relay.fault = lambda number, method, path: "slow" if next(slow, False) else None
            assert (await there.step("up")).observation.text == "Step 1."
            relay.fault = lambda number, method, path: "busy"
            with pytest.raises(ServiceError, match="stays away"):
                await there.step("up")
            relay.fault = lambda number, method, path: None
            assert (await there.step("up")).terminated
            assert (there.ending, there.labels()["par"]) == ("terminated", 2)

    asyncio.run(play())


def test_nothing_is_known_before_it_has_connected(url: str) -> None:
    there = AsyncRemoteEnv("stairs", url)
    with pytest.raises(EpisodeNotStarted, match="nothing is known of stairs yet"):
        _ = there.spec

    async def play() -> Any:
        with pytest.raises(UnknownEnvError):
            await connect("nothing", url)
        await there.connect()
        await there.connect()
        await there.close()

    asyncio.run(play())
    assert there.spec.id == "tests/Stairs-v0"


def test_forks(url: str) -> None:
    async def play() -> None:
        async with AsyncRemoteEnv("stairs", url) as there:
            await there.reset(TaskRef("few", 1))
            await there.step("up")
            (twin,) = await there.fork()
            assert (await twin.step("up")).terminated
            assert there.ending is None
            await twin.close()

    asyncio.run(play())
