"""An agent of OpenAI's agents SDK, as it is: its tools by MCP, its model by the addresses it is told."""

import asyncio
import os

from agents import Agent, ModelSettings, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp

set_tracing_disabled(True)


async def main() -> None:
    where = {"url": os.environ["AGENTENVS_MCP_URL"], "timeout": 120}
    async with MCPServerStreamableHttp(params=where, client_session_timeout_seconds=120) as server:
        agent = Agent(
            name="player",
            instructions="You play a text game. Use one tool at a time.",
            mcp_servers=[server],
            model=os.environ["AGENTENVS_MODEL"],
            model_settings=ModelSettings(tool_choice="required", max_tokens=64),
            reset_tool_choice=False,
        )
        seen = await server.call_tool("state", {})
        await Runner.run(agent, seen.content[0].text, max_turns=10)


asyncio.run(main())
