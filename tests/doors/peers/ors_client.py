"""Plays through the stock client of the Open Reward Standard: tasks, prompt, tools, calls, resuming a call."""

# ruff: noqa: PT017, T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import sys

from openreward.api._session.http import resumable_sse
from openreward.api.environments.client import AsyncEnvironmentsAPI, EnvironmentsAPI
from openreward.api.errors import ToolCallError

URL = sys.argv[1]
KEY = "no-key-is-asked-for"


async def main() -> None:
    async with AsyncEnvironmentsAPI(base_url=URL, api_key=KEY) as api:
        env = api.get("household", variant="household")
        assert await env.list_splits() == ["train", "dev", "test", "builtin"]
        assert await env.num_tasks("dev") == 200
        tasks = await env.get_task_range("dev", 0, 2)
        names = [tool.name for tool in await env.list_tools()]
        assert "go_to" in names
        async with env.session(tasks[0]) as one, env.session(tasks[1]) as two:
            prompts = [(await session.get_prompt())[0].text for session in (one, two)]
            assert prompts[0] != prompts[1]
            for turn in (1, 2):
                for session in (one, two):
                    output = await session.call_tool("look", {})
                    assert (output.reward, output.finished, output.metadata["turn"]) == (0.0, False, turn)
        await resumed(api.get("ledger", variant="ledger"))
        async with api.get("clerk", variant="clerk").session(split="train", index=1) as session:
            said = (await session.call_tool("step", {"text": "order number?"})).blocks[0].text
            await session.call_tool("refund", {"order": said.split()[-1].rstrip(".")})
            last = await session.call_tool("close", {})
            assert (last.reward, last.finished) == (1.0, True)
            try:
                await session.call_tool("close", {})
            except ToolCallError as error:
                assert "episode_finished" in str(error), error
            else:
                raise AssertionError("a call after the end was answered")


async def resumed(env) -> None:
    """A call that is asked again by its name is played once."""
    async with env.session(split="train", index=1) as session:
        named: list[str] = []

        def heard(event: str, data: str) -> None:
            if event == "task_id":
                named.append(data.strip())

        async def call(task_id=None):
            json = {"name": "balance", "input": {"account": "1000"}}
            return await resumable_sse(
                session.client, "/ledger/call", KEY, json=json, sid=session.sid, task_id=task_id, on_event=heard
            )

        first = await call()
        assert await call(named[0]) == first
        assert named[0] == named[1]
        assert (await session.call_tool("next_invoice", {})).metadata["turn"] == 2


def blocking() -> None:
    with EnvironmentsAPI(base_url=URL, api_key=KEY) as api:
        env = api.get("household", variant="household")
        with env.session(split="builtin", index=0) as session:
            assert session.call_tool("look", {}).finished is False


asyncio.run(main())
blocking()
print("played")
