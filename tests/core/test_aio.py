"""Coroutines of an asynchronous environment, run for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentenvs.core.aio import run_sync


async def _where() -> tuple[asyncio.AbstractEventLoop, str]:
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), threading.current_thread().name


def test_every_call_runs_on_one_background_loop() -> None:
    loop, thread = run_sync(_where())
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: run_sync(_where()), range(8))) == {(loop, thread)}
    assert thread == "agentenvs-aio"


def test_a_caller_may_have_a_loop_of_its_own() -> None:
    async def inside() -> bool:
        found, _ = run_sync(_where())
        return found is not asyncio.get_running_loop()

    assert asyncio.run(inside())


def test_what_a_coroutine_raises_is_raised() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        run_sync(fails())


def test_the_background_loop_does_not_wait_for_itself() -> None:
    async def inside() -> None:
        run_sync(_where())

    with pytest.raises(RuntimeError, match="stepped synchronously from its own event loop; use astep"):
        run_sync(inside())
