"""A player that is a program and speaks MCP: looks around until the episode ends."""

import asyncio
import os

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    url = os.environ["AGENTENVS_MCP_URL"]
    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        ended = False
        while not ended:
            turn = (await session.call_tool("look", {})).meta["agentenvs/turn"]
            ended = turn["terminated"] or turn["truncated"]


asyncio.run(main())
