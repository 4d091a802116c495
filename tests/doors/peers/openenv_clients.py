"""Plays through the stock OpenEnv clients: asynchronous, synchronous, and the one for tools. For 0.10 and 0.3."""

# ruff: noqa: PT017, T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import sys
from importlib.metadata import PackageNotFoundError, version

import httpx
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

URL = sys.argv[1]


async def by_socket() -> None:
    async with GenericEnvClient(base_url=URL) as env:
        try:
            await env.step({"text": "look"})
        except RuntimeError as error:
            assert "SESSION_ERROR" in str(error), error
        else:
            raise AssertionError("a step without a reset was answered")
        first = await env.reset(split="builtin", index=0, episode_id="mine")
        assert (first.reward, first.done) == (None, False)
        for turn in range(1, 4):
            result = await env.step({"text": "look"})
            assert result.observation["budgets"]["steps"] == 50 - turn
            state = await env.state()
            assert (state["episode_id"], state["step_count"]) == ("mine", turn)
        same = await env.reset(split="builtin", index=0)
        assert same.observation == first.observation


async def side_by_side() -> None:
    clients = [GenericEnvClient(base_url=URL) for _ in range(8)]
    for client in clients:
        await client.connect()
    try:
        firsts = await asyncio.gather(*(client.reset(seed=number // 2) for number, client in enumerate(clients)))
        texts = [first.observation["text"] for first in firsts]
        assert texts[0::2] == texts[1::2]
        assert len(set(texts)) == 4
        results = await asyncio.gather(*(client.step({"text": "look"}) for client in clients))
        assert [result.done for result in results] == [False] * 8
    finally:
        for client in clients:
            await client.close()


def blocking() -> None:
    with GenericEnvClient(base_url=f"{URL}/clerk").sync() as env:
        env.reset(seed=1)
        said = env.step({"text": "What is the order number?"}).observation["text"]
        order = said.split()[-1].rstrip(".")
        env.step({"type": "call_tool", "tool_name": "refund", "arguments": {"order": order}})
        last = env.step({"text": "done", "end": True})
        assert (last.reward, last.done) == (1.0, True)
        try:
            env.step({"text": "more"})
        except RuntimeError as error:
            assert "ended" in str(error), error
        else:
            raise AssertionError("a step after the end was answered")


async def tools() -> None:
    async with MCPToolClient(base_url=f"{URL}/ledger") as env:
        await env.reset(seed=1)
        names = [tool.name for tool in await env.list_tools()]
        assert names[0] == "next_invoice"
        invoice = await env.call_tool("next_invoice")
        assert await env.call_tool("post", **invoice) == {"posted": 0}
        assert (await env.state()).step_count == 2


async def after_a_silence() -> None:
    """A client that has waited too long opens another socket: its next step is no step of another episode."""
    async with GenericEnvClient(base_url=f"{URL}/slow_tool") as env:
        await env.reset(seed=1)
        env._message_timeout = 0.1
        try:
            await env.step({"type": "call_tool", "tool_name": "nap", "arguments": {"milliseconds": 400}})
        except TimeoutError:
            pass
        else:
            raise AssertionError("the answer came in time")
        env._message_timeout = 20.0
        try:
            await env.step({"type": "call_tool", "tool_name": "peek", "arguments": {}})
        except RuntimeError as error:
            assert "SESSION_ERROR" in str(error), error
        else:
            raise AssertionError("a step was answered from another episode")


def of_tasks() -> None:
    with httpx.Client(base_url=URL) as http:
        names = http.get("/list_environments").json()
        assert "household" in names
        tasks = http.post("/household/task_range", json={"split": "dev", "start": 3, "stop": 5}).json()["tasks"]
    with GenericEnvClient(base_url=URL).sync() as env:
        for task in tasks:
            env.reset(**task)
            state = env.state()
            assert {"split": state["split"], "index": state["index"]} == task


asyncio.run(by_socket())
asyncio.run(side_by_side())
blocking()
asyncio.run(tools())
of_tasks()
try:
    version("openenv")
except PackageNotFoundError:  # openenv-core, whose client keeps the socket and takes the late answer for the next one
    pass
else:
    asyncio.run(after_a_silence())
print("played")
