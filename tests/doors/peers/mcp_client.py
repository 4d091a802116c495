"""Plays two episodes side by side through the official MCP client, of version 1 or 2."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import sys

from mcp import ClientSession
from mcp.client import streamable_http

connected = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client


CLERK = ("step", {"text": "What is the order number?"}, "Customer: It is A-")
HOUSEHOLD = ("look", {}, "You are in the middle of a room")


async def main(world: str, first: str, second: str) -> None:
    tool, arguments, shown = CLERK if world == "clerk" else HOUSEHOLD
    async with (
        connected(first) as one,
        connected(second) as two,
        ClientSession(one[0], one[1]) as left,
        ClientSession(two[0], two[1]) as right,
    ):
        for session in (left, right):
            await session.initialize()
            assert {"state", tool} <= {each.name for each in (await session.list_tools()).tools}
        for turn in (1, 2):
            for session in (left, right):
                result = await session.call_tool(tool, arguments)
                assert turn == 2 or result.content[0].text.startswith(shown), result
                assert result.meta["agentenvs/turn"]["turn"] == turn
        seen = [(await session.call_tool("state", {})).content for session in (left, right)]
        assert world == "clerk" or seen[0][0].text != seen[1][0].text
        told = [(await session.call_tool(tool, arguments)).content[0].text for session in (left, right)]
        assert world == "household" or told[0] != told[1]


asyncio.run(main(*sys.argv[1:4]))
print("played")
