"""A server without a socket, and short words for what its tests ask of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import httpx

from agentenvs.core.record import Record, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs_servers.app import make_app
from agentenvs_servers.keeping import Journal
from agentenvs_servers.problems import CATALOGUE
from agentenvs_servers.settings import Settings
from tests.servers.rooms import SECRET

_keys = itertools.count()


def key() -> str:
    """Return a key that no other request has."""
    return f"key-{next(_keys)}"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def problem(answer: httpx.Response, code: str) -> dict[str, Any]:
    """Check that an answer is a certain problem, whole and without a secret, and return it."""
    found = answer.json()
    assert (answer.status_code, found.get("code")) == (CATALOGUE[code].status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(found) == {"type", "title", "status", "code", "detail", "fix"}
    assert all(found[name] for name in found)
    assert found["status"] == answer.status_code
    secrets = [
        SECRET,
        *answer.request.url.path.split("/")[3:4],
        answer.request.headers.get("authorization", SECRET)[7:],
    ]
    said = answer.text + json.dumps(dict(answer.headers))
    assert [secret for secret in secrets if len(secret) > 12 and secret in said] == []
    return found


class Play:
    """One session."""

    def __init__(self, wire: Wire, form: dict[str, Any]) -> None:
        self.wire = wire
        self.form = form
        self.path = f"/v1/sessions/{form['session']}"
        self.episode: str = form["episode"]
        self.agent_key: str = form["agent_key"]

    async def step(self, turn: Any, action: Any, **more: Any) -> httpx.Response:
        return await self.wire.post(
            f"{self.path}/step", {"episode": self.episode, "turn": turn, "action": action, **more}
        )

    async def agent_step(self, turn: Any, action: Any) -> httpx.Response:
        return await self.wire.post("/v1/agent/step", {"turn": turn, "action": action}, self.agent_key)

    async def agent(self) -> httpx.Response:
        return await self.wire.get("/v1/agent", self.agent_key)

    async def reset(self, task: Any = None, **more: Any) -> httpx.Response:
        body = {"key": key(), "ends": self.episode, "task": task, **more}
        return await self.wire.post(f"{self.path}/reset", body)

    async def restart(self, task: Any = None) -> Play:
        """Reset and return the session as it then is."""
        answer = await self.reset(task)
        assert answer.status_code == 200, answer.text
        return Play(self.wire, {**self.form, **answer.json()})

    async def status(self) -> httpx.Response:
        return await self.wire.get(self.path)

    async def close(self, **query: str) -> httpx.Response:
        return await self.wire.http.delete(self.path, params=query)

    async def record(self, episode: str | None = None) -> Record:
        """Fetch a record, which must replay and rescore."""
        query = {} if episode is None else {"episode": episode}
        answer = await self.wire.http.get(f"{self.path}/record", params=query)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/jsonl"
        (record,) = parse_records(answer.content)
        assert replay(record).divergence is None
        assert rescore(record).equal
        return record


class Wire:
    """A server."""

    def __init__(
        self,
        envs: Iterable[str],
        settings: Settings | None = None,
        options: dict[str, Any] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.clock = Clock()
        self.app = make_app(list(envs), settings, options, clock=self.clock, journal=journal)
        self.hall = self.app.handlers.hall
        transport = httpx.ASGITransport(self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://server")

    async def get(self, path: str, token: str | None = None) -> httpx.Response:
        return await self.http.get(path, headers=_bearer(token))

    async def post(self, path: str, body: Any, token: str | None = None) -> httpx.Response:
        return await self.http.post(path, json=body, headers=_bearer(token))

    async def raw(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        return await self.http.post(path, content=body, headers={"content-type": "application/json", **headers})

    async def make(self, env: str = "room", **body: Any) -> httpx.Response:
        return await self.post("/v1/sessions", {"env": env, "key": key(), **body})

    async def play(self, env: str = "room", **body: Any) -> Play:
        answer = await self.make(env, **body)
        assert answer.status_code == 201, answer.text
        return Play(self, answer.json())


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}
