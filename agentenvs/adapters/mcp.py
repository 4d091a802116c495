"""Tools of a Model Context Protocol server, as actions; over streamable HTTP, a session an episode.

The requests are few (``initialize``, ``tools/list``, ``tools/call``), so they are spoken here, with what the base
install has. The official package would bring nothing that is used, and its versions 1 and 2 exclude each other: who has
a server of one in the same environment could not have a client of the other. Answers come as JSON or as a stream of
events (protocol version 2025-06-18, "Streamable HTTP"; servers of both versions of the package are tested).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx

from agentenvs._version import __version__
from agentenvs.adapters.foreign import EngineError, Reply
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ServiceError

PROTOCOL = "2025-06-18"
STEP_SECONDS = 60.0
"""How long an answer is waited for."""

_ACCEPT = "application/json, text/event-stream"
_MOST_PAGES = 50


class McpEngine:
    """A session with an MCP server.

    Args:
        url: Its endpoint, such as ``http://127.0.0.1:8000/mcp``.
        seconds: How long an answer is waited for.
    """

    def __init__(self, url: str, seconds: float = STEP_SECONDS) -> None:
        self._url = url
        self._http = httpx.Client(timeout=seconds, headers={"Accept": _ACCEPT}, follow_redirects=True)
        self._number = 0
        self._session: dict[str, str] = {}
        self.name = ""
        """What the server calls itself; known once a session has begun."""

    def reset(self, seed: int) -> Reply:
        """Begin a session; the protocol knows no seeds."""
        del seed
        self._leave()
        who = {"name": "agentenvs", "version": __version__}
        said = self._ask("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo=who)
        self.name = str((said.get("serverInfo") or {}).get("name", ""))[:60]
        self._session["MCP-Protocol-Version"] = str(said.get("protocolVersion", PROTOCOL))
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return Reply(str(said.get("instructions") or "The tools are ready."))

    def step(self, action: JSON) -> Reply:
        """Call a tool: ``{"tool": …, "arguments": …}``."""
        said = self._ask("tools/call", name=action["tool"], arguments=action["arguments"])
        return Reply(shown_of(said))

    def close(self) -> None:
        """End the session."""
        self._leave()
        self._http.close()

    def tools(self) -> list[dict[str, JSON]]:
        """Return the tools: name, description, parameters.

        Raises:
            EngineError: The server lists none.
        """
        found: list[dict[str, JSON]] = []
        cursor: dict[str, JSON] = {}
        for _ in range(_MOST_PAGES):
            said = self._ask("tools/list", **cursor)
            found += [
                {
                    "name": tool["name"],
                    "description": tool.get("description") or "",
                    "parameters": tool.get("inputSchema") or {"type": "object"},
                }
                for tool in said.get("tools", [])
            ]
            if not said.get("nextCursor"):
                break
            cursor = {"cursor": said["nextCursor"]}
        return found

    def _leave(self) -> None:
        if self._session:
            with contextlib.suppress(httpx.HTTPError):
                self._http.delete(self._url, headers=self._session)
        self._session = {}

    def _ask(self, method: str, **params: JSON) -> dict[str, Any]:
        self._number += 1
        answer = self._post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        for said in _messages(answer):
            if said.get("id") == self._number and "result" in said:
                return dict(said["result"])
            if said.get("id") == self._number and "error" in said:
                if method == "tools/call":  # what a model asks for may be nonsense; that is its turn
                    return {"content": [{"type": "text", "text": str(said["error"].get("message"))}], "isError": True}
                raise EngineError(f"{method}: {said['error'].get('message')}")
        raise EngineError(f"the MCP server does not answer {method}")

    def _post(self, message: dict[str, JSON]) -> httpx.Response:
        try:
            answer = self._http.post(self._url, json=message, headers=self._session).raise_for_status()
        except httpx.HTTPError as error:
            raise EngineError(f"the MCP server cannot be reached: {error}") from error
        if "mcp-session-id" in answer.headers:
            self._session["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        return answer


def _messages(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the messages of an answer."""
    events = answer.headers.get("content-type", "").startswith("text/event-stream")
    texts = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")] if events else [answer.text]
    for text in texts:
        with contextlib.suppress(ValueError):
            said = json.loads(text)
            yield from (item for item in (said if isinstance(said, list) else [said]) if isinstance(item, dict))


def shown_of(said: dict[str, Any]) -> str:
    """Return what a tool answered as text: its words, and the kind of what is none."""
    parts = [
        str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"
        for part in said.get("content", [])
        if isinstance(part, dict)
    ]
    text = "\n".join(parts) or json.dumps(said.get("structuredContent", {}), ensure_ascii=False, sort_keys=True)
    return f"Error: {text}" if said.get("isError") else text


def name_and_tools(url: str) -> tuple[str, list[dict[str, JSON]]]:
    """Return what a server calls itself, and its tools.

    Raises:
        ServiceError: It stays away, or is none.
    """
    engine = McpEngine(url)
    try:
        engine.reset(0)
        return engine.name or "server", engine.tools()
    except (EngineError, KeyError, TypeError) as error:
        if isinstance(error.__cause__, httpx.TransportError):
            fix = "start the server, or mend the address"
            raise ServiceError(f"{url} cannot be reached", why=str(error.__cause__), fix=fix) from error
        raise ServiceError(f"{url} is no MCP server", why=str(error), fix="give its endpoint, often …/mcp") from error
    finally:
        engine.close()
