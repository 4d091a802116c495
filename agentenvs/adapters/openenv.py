"""Environments behind an OpenEnv server, over its own socket protocol (``/ws``): a session is a socket.

Its frames carry no number, so an answer that comes late would be taken for that of the next question; after a silence
the socket is given up and with it the episode. A seed is sent with each reset; whether it is heeded is the server's
affair.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from agentenvs.adapters.foreign import EngineError, Reply
from agentenvs.adapters.gymnasium import plain
from agentenvs.core.canon import JSON, clean_text
from agentenvs.core.errors import ServiceError

STEP_SECONDS = 60.0
"""How long an answer is waited for."""

MAX_FRAME = 16 * 2**20

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between tries to begin where the server is full: it learns of the end of a session after the fact."""

_CALL = "call_tool"


class _Full(Exception):
    """The server has no room for another session."""


class OpenEnvEngine:
    """A session of an OpenEnv server.

    Args:
        url: ``http://HOST:PORT``, with a path where the server has one.
        seconds: How long an answer is waited for.
    """

    def __init__(self, url: str, seconds: float = STEP_SECONDS) -> None:
        parts = urlsplit(url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        self._url = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/ws"
        self._seconds = seconds
        self._socket: ClientConnection | None = None
        self._open = contextlib.ExitStack()

    def reset(self, seed: int) -> Reply:
        """Begin an episode on a socket of its own; a server that is full is asked again for a while."""
        for pause in PAUSES:
            with contextlib.suppress(_Full):
                return self._begun(seed)
            time.sleep(pause)
        try:
            return self._begun(seed)
        except _Full as error:
            raise EngineError("the OpenEnv server takes no more sessions: raise max_concurrent_envs there") from error

    def _begun(self, seed: int) -> Reply:
        self.close()
        try:
            self._socket = self._open.enter_context(
                connect(self._url, open_timeout=self._seconds, max_size=MAX_FRAME, compression=None)
            )
        except (OSError, WebSocketException) as error:
            raise EngineError(f"the OpenEnv server cannot be reached: {error}") from error
        return self._reply({"type": "reset", "data": {"seed": seed}})

    def step(self, action: JSON) -> Reply:
        """Play an action: its fields, as the server's schema has them."""
        return self._reply({"type": "step", "data": action})

    def close(self) -> None:
        """Leave the session."""
        socket, self._socket = self._socket, None
        with contextlib.suppress(OSError, WebSocketException):
            if socket is not None:
                socket.send(json.dumps({"type": "close"}))
        self._open.close()

    def _reply(self, frame: dict[str, JSON]) -> Reply:
        said = self._said(frame)
        data = said.get("data") or {}
        if said.get("type") == "error":
            if data.get("code") == "VALIDATION_ERROR":
                return Reply("", refused=str(data.get("message", "no such action")))
            if data.get("code") == "CAPACITY_REACHED":
                raise _Full
            raise EngineError(f"{data.get('code')}: {data.get('message')}")
        try:
            shown = plain(data["observation"])
            reward = data.get("reward")
            return Reply(_words(shown), float(reward or 0.0), terminated=bool(data.get("done")))
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError("the OpenEnv server answers nonsense") from error

    def _said(self, frame: dict[str, JSON]) -> dict[str, Any]:
        if self._socket is None:
            raise EngineError("the session has ended")
        try:
            # A server that is full says so and closes, perhaps before it has read a word: what it said is read anyway.
            with contextlib.suppress(ConnectionClosed):
                self._socket.send(json.dumps(frame))
            said = json.loads(self._socket.recv(timeout=self._seconds))
        except (OSError, WebSocketException, ValueError) as error:
            self.close()
            raise EngineError(f"the OpenEnv server has gone: {type(error).__name__}") from error
        return said if isinstance(said, dict) else {}


def _words(shown: JSON) -> JSON:
    """Return an observation without what every server adds to it."""
    if isinstance(shown, dict):
        shown = {name: value for name, value in shown.items() if name not in ("done", "reward", "metadata")}
        if len(shown) == 1 and isinstance(text := next(iter(shown.values())), str):
            return text
    return shown


def action_schema(url: str) -> dict[str, JSON]:
    """Return the JSON Schema of a server's actions.

    Raises:
        ServiceError: It stays away, or tells none.
    """
    try:
        found = httpx.get(f"{url.rstrip('/')}/schema", timeout=STEP_SECONDS).raise_for_status().json()["action"]
    except httpx.TransportError as error:
        raise ServiceError(
            f"{url} cannot be reached", why=str(error), fix="start the server, or mend the address"
        ) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            f"{url} is no OpenEnv server", why=str(error), fix="give its address, as in a client"
        ) from error
    properties = {name: part for name, part in found.get("properties", {}).items() if name != "metadata"}
    kept = {name: found[name] for name in ("required", "$defs", "additionalProperties") if name in found}
    return {"type": "object", "properties": properties, **kept}


def name_of(url: str) -> str:
    """Return what a server calls its environment; ``server`` where it does not say."""
    with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
        said = httpx.get(f"{url.rstrip('/')}/metadata", timeout=STEP_SECONDS).raise_for_status().json()["name"]
        return clean_text(str(said)[:60]).strip() or "server"
    return "server"


def calls_tools(schema: dict[str, JSON]) -> bool:
    """Whether a server's actions are calls of tools that it lists, as those of its MCP environments are."""
    return "tool_name" in schema["properties"] or _CALL in json.dumps(schema)


def tools_of(url: str) -> list[dict[str, JSON]]:
    """Return the tools that a server lists: name, description, parameters.

    Raises:
        ServiceError: It lists none.
    """
    engine = OpenEnvEngine(url)
    try:
        engine.reset(0)
        said = engine._said({"type": "step", "data": {"type": "list_tools"}})
        found = said["data"]["observation"]["tools"]
        return [
            {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema") or tool.get("inputSchema") or {"type": "object"},
            }
            for tool in found
        ]
    except (EngineError, KeyError, TypeError) as error:
        raise ServiceError(f"{url} lists no tools", why=repr(error)) from error
    finally:
        engine.close()
