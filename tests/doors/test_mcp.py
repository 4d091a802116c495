"""The Model Context Protocol, by the official client: an agent key's episode, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentenvs.core.errors import MissingExtraError
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs_servers.doors.mcp import META, Mcp

pytest.importorskip("mcp", reason="the official MCP SDK is not installed: pip install 'agentenvs[mcp]'")

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


def where(server: Any, form: dict[str, Any]) -> str:
    return f"{server.url}/v1/agent/{form['agent_key']}/mcp"


def words(result: Any) -> str:
    return " ".join(part.text for part in result.content)


def test_two_episodes_side_by_side(server):
    async def play() -> list[float]:
        forms = [server.make("clerk", seed=seed) for seed in (1, 2)]
        async with connected(where(server, forms[0])) as first, connected(where(server, forms[1])) as second:
            names = [tool.name for tool in (await first.list_tools()).tools]
            assert names == ["state", "refund", "step", "close"]
            orders = []
            for session in (first, second):
                assert words(await session.call_tool("state", {})).startswith("Customer: Hello")
                said = words(await session.call_tool("step", {"text": "What is the order number?"}))
                orders.append(said.split()[-1].rstrip("."))
            assert orders[0] != orders[1]
            rewards = []
            for session, order in ((first, orders[0]), (second, orders[0])):  # the second refunds the first's order
                await session.call_tool("refund", {"order": order})
                ended = await session.call_tool("close", {"reason": "done"})
                assert words(ended).endswith("The episode has ended.")
                rewards.append(ended.meta[META]["reward"])
                assert "has ended" in words(await session.call_tool("step", {"text": "again"}))
            return rewards

    assert asyncio.run(play()) == [1.0, 0.0]


def test_to_look_uses_no_turn_and_nonsense_uses_one(server):
    async def play() -> None:
        async with connected(where(server, server.make("household", split="dev", index=0))) as session:
            for _ in range(2):
                shown = await session.call_tool("state", {})
                assert shown.meta[META] == {"turn": 0, "ended": False}
            wrong = await session.call_tool("fly", {"high": True})
            assert (wrong.meta[META]["turn"], wrong.meta[META]["info"]) == (1, {"invalid": True})
            right = await session.call_tool("look", {})
            assert (right.meta[META]["turn"], right.meta[META]["budgets"]) == (2, {"steps": 48})

    asyncio.run(play())


def test_a_key_is_for_one_episode(server):
    form = server.make("room")
    old = where(server, form)
    assert httpx.post(old, json=INITIALIZE, headers=_ACCEPT).status_code == 200
    body = {"key": "k", "ends": form["episode"], "task": "same"}
    httpx.post(f"{server.url}/v1/sessions/{form['session']}/reset", json=body)
    assert httpx.post(old, json=INITIALIZE, headers=_ACCEPT).status_code == 410
    for key in ("nobody", form["session"]):
        assert httpx.post(f"{server.url}/v1/agent/{key}/mcp", json=INITIALIZE, headers=_ACCEPT).status_code == 401


_ACCEPT = {"accept": "application/json, text/event-stream"}


def test_the_key_may_be_the_token(server):
    key = {"authorization": f"Bearer {server.make('room')['agent_key']}"}
    answer = httpx.post(f"{server.url}/v1/agent/mcp", json=INITIALIZE, headers={**_ACCEPT, **key})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["serverInfo"]["name"] == "agentenvs"
    assert httpx.post(f"{server.url}/v1/agent/mcp", json=INITIALIZE, headers=_ACCEPT).status_code == 401


def test_there_is_no_stream_and_no_page_of_another_site(server):
    url = where(server, server.make("room"))
    assert httpx.get(url, headers=_ACCEPT).status_code == 405
    foreign = httpx.post(url, json=INITIALIZE, headers={**_ACCEPT, "origin": "http://elsewhere.example"})
    assert foreign.json()["code"] == "origin_foreign"
    for junk in (b"", b"{", b"[]", b"7"):
        answer = httpx.post(url, content=junk, headers={**_ACCEPT, "content-type": "application/json"}, timeout=10)
        assert answer.status_code == 400
    assert httpx.post(url, content=b"{" * 3_000_000, headers={"content-type": "application/json"}).status_code == 413


def test_a_failing_environment_is_an_error_of_the_tool(server):
    async def play() -> None:
        async with connected(where(server, server.make("room"))) as session:
            failed = await session.call_tool("raise", {})
            assert "environment failed" in words(failed)

    asyncio.run(play())


def test_a_program_that_speaks_mcp_is_a_player(server, tmp_path):
    program = Path(__file__).parent / "peers" / "mcp_program.py"
    policy, options = f"exec:{sys.executable} {program}", {"limit": 4}
    config = RunConfig("household", policy, split="builtin", url=server.url, out=tmp_path, episodes=2, options=options)
    episodes = evaluate(config).episodes
    assert [(episode.ending, episode.turns, episode.error) for episode in episodes] == [("truncated", 4, None)] * 2


def test_without_the_sdk_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    with pytest.raises(MissingExtraError, match=r"the MCP door"):
        Mcp(None)  # type: ignore[arg-type]
