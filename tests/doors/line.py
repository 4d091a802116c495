"""Short words for what tests ask of a server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

_keys = itertools.count()


class Socket:
    """An open socket of the OpenEnv door."""

    def __init__(self, raw: ClientConnection) -> None:
        self.raw = raw

    def ask(self, kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
        self.raw.send(json.dumps({"type": kind, **({} if data is None else {"data": data}), **more}))
        return json.loads(self.raw.recv(timeout=20))

    def reset(self, **data: Any) -> dict[str, Any]:
        said = self.ask("reset", data)
        assert said["type"] == "observation", said
        return said["data"]

    def step(self, **data: Any) -> dict[str, Any]:
        said = self.ask("step", data)
        assert said["type"] == "observation", said
        return said["data"]

    def state(self) -> dict[str, Any]:
        return self.ask("state")["data"]

    def refused(self, kind: str, data: Any = None) -> tuple[str, str]:
        """Return code and problem of a message that must be refused."""
        said = self.ask(kind, data)
        assert said["type"] == "error", said
        return said["data"]["code"], said["data"].get("problem", "")


class Server:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    @contextmanager
    def socket(self, path: str = "/ws", **headers: str) -> Iterator[Socket]:
        with connect(f"ws{self.url[4:]}{path}", additional_headers=headers, open_timeout=20) as raw:
            yield Socket(raw)

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=20)

    def rpc(self, method: str, path: str = "/mcp", **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = httpx.post(f"{self.url}{path}", json=message, timeout=20)
        assert answer.status_code == 200
        form = answer.json()
        assert (form["jsonrpc"], form["id"]) == ("2.0", 7)
        return form

    def make(self, env: str, ttl: int | None = None, **task: Any) -> dict[str, Any]:
        """Return a session of the native protocol."""
        body = {"env": env, "key": f"line-{next(_keys)}", "task": task or None, "ttl": ttl}
        answer = httpx.post(f"{self.url}/v1/sessions", json=body, timeout=20)
        assert answer.status_code == 201, answer.text
        return answer.json()
