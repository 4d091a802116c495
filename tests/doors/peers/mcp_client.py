"""Plays two episodes side by side through the official MCP client, of version 1 or 2."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import sys

from mcp import ClientSession
from mcp.client import streamable_http

connected = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client


async def main(first: str, second: str) -> None:
    async with (
        connected(first) as one,
        connected(second) as two,
        ClientSession(one[0], one[1]) as left,
        ClientSession(two[0], two[1]) as right,
    ):
        for session in (left, right):
            await session.initialize()
            assert "state" in [tool.name for tool in (await session.list_tools()).tools]
        for turn in (1, 2):
            for session in (left, right):
                result = await session.call_tool("step", {"text": "What is the order number?"})
                assert result.content[0].text.startswith("Customer: It is A-"), result
                assert result.meta["agentenvs/turn"]["turn"] == turn
        shown = [(await session.call_tool("step", {"text": "order"})).content[0].text for session in (left, right)]
        assert shown[0] != shown[1]


asyncio.run(main(*sys.argv[1:3]))
print("played")
