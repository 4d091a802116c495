"""Every problem of the catalogue is provoked once, and is whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import httpx
import pytest

from agentenvs_servers.handlers import Handlers
from agentenvs_servers.problems import CATALOGUE, ProblemError
from tests.servers.wire import Wire, problem

pytestmark = pytest.mark.anyio

Serve: TypeAlias = Callable[..., Wire]
TOKEN = "a-token-of-many-characters"


async def bad_json(serve: Serve) -> httpx.Response:
    return await serve().raw("/v1/sessions", b"{")


async def unauthorized(serve: Serve) -> httpx.Response:
    return await serve(tokens=(TOKEN,)).get("/v1/envs")


async def wrong_scope(serve: Serve) -> httpx.Response:
    wire = serve()
    return await wire.get("/v1/envs", (await wire.play()).agent_key)


async def sealed_closed(serve: Serve) -> httpx.Response:
    return await serve().make(task={"split": "vault"})


async def env_unknown(serve: Serve) -> httpx.Response:
    return await serve().make("nowhere")


async def session_unknown(serve: Serve) -> httpx.Response:
    return await serve().get("/v1/sessions/none-of-that-name")


async def episode_unknown(serve: Serve) -> httpx.Response:
    play = await serve().play()
    return await play.wire.get(f"{play.path}/record?episode=ep-none")


async def route_unknown(serve: Serve) -> httpx.Response:
    return await serve().get("/v2/sessions")


async def method_unknown(serve: Serve) -> httpx.Response:
    return await serve().http.patch("/v1/sessions/some")


async def request_slow(serve: Serve) -> httpx.Response:
    async def never() -> Any:
        yield b"{"
        await anyio.sleep_forever()

    wire = serve(body_seconds=0.05)
    return await wire.http.post("/v1/sessions", content=never(), headers={"content-type": "application/json"})


async def turn_past(serve: Serve) -> httpx.Response:
    play = await serve().play()
    await play.step(1, "look")
    await play.step(2, "look")
    return await play.step(1, "look")


async def turn_conflict(serve: Serve) -> httpx.Response:
    play = await serve().play()
    await play.step(1, "look")
    return await play.step(1, "win")


async def turn_ahead(serve: Serve) -> httpx.Response:
    return await (await serve().play()).step(2, "look")


async def episode_conflict(serve: Serve) -> httpx.Response:
    play = await serve().play()
    await play.restart()
    return await play.step(1, "look")


async def episode_ended(serve: Serve) -> httpx.Response:
    play = await serve().play()
    await play.step(1, "win")
    return await play.step(2, "look")


async def episode_running(serve: Serve) -> httpx.Response:
    play = await serve().play()
    return await play.wire.get(f"{play.path}/record")


async def key_conflict(serve: Serve) -> httpx.Response:
    wire = serve()
    await wire.make(key="mine")
    return await wire.make(key="mine", count=2)


async def split_exhausted(serve: Serve) -> httpx.Response:
    return await (await serve().play(task={"split": "few", "index": 2})).reset()


async def trace_off(serve: Serve) -> httpx.Response:
    play = await serve().play()
    return await play.wire.get(f"{play.path}/trace")


async def episodes_spent(serve: Serve) -> httpx.Response:
    return await (await serve(max_episodes=1).play()).reset()


async def not_forkable(serve: Serve) -> httpx.Response:
    play = await serve("tests/Clerk-v0").play("tests/Clerk-v0")
    return await play.wire.post(f"{play.path}/fork", {"key": "k"})


async def closed(serve: Serve) -> httpx.Response:
    play = await serve().play()
    await play.close()
    return await play.status()


async def expired(serve: Serve) -> httpx.Response:
    play = await serve().play(ttl=5)
    play.wire.clock.now += 6
    return await play.step(1, "look")


async def body_too_large(serve: Serve) -> httpx.Response:
    return await serve(max_body_bytes=100).raw("/v1/sessions", b" " * 101)


async def action_too_large(serve: Serve) -> httpx.Response:
    return await (await serve(max_action_bytes=100).play()).step(1, "x" * 101)


async def batch_too_long(serve: Serve) -> httpx.Response:
    return await serve(max_batch=2).post("/v1/steps", {"items": [{}] * 3})


async def media_type(serve: Serve) -> httpx.Response:
    return await serve().http.post("/v1/sessions", content=b"{}", headers={"content-type": "text/plain"})


async def invalid_request(serve: Serve) -> httpx.Response:
    return await serve().make(task={"seed": False})


async def task_unknown(serve: Serve) -> httpx.Response:
    return await serve().make(task={"split": "few", "index": 3})


async def option_refused(serve: Serve) -> httpx.Response:
    return await serve().make(options={"folder": "/etc"})


async def internal(serve: Serve) -> httpx.Response:
    wire = serve()
    wire.hall.worlds = None  # type: ignore[assignment]
    return await wire.make()


async def environment_failed(serve: Serve) -> httpx.Response:
    return await (await serve().play()).step(1, "raise")


async def durability_refused(serve: Serve) -> httpx.Response:
    return await serve().make(durability="strict")


async def at_capacity(serve: Serve) -> httpx.Response:
    answer = await serve(max_sessions=2).make(count=3)
    assert int(answer.headers["retry-after"]) >= 1
    return answer


async def quota_reached(serve: Serve) -> httpx.Response:
    wire = serve(max_tenant_sessions=2)
    await wire.make(count=2)
    answer = await wire.make()
    assert int(answer.headers["retry-after"]) >= 1
    return answer


async def too_many_creates(serve: Serve) -> httpx.Response:
    wire = serve(creates_per_second=0.5, creates_burst=2)
    await wire.make(count=2)
    answer = await wire.make()
    assert answer.headers["retry-after"] == "2"
    return answer


async def not_ready(serve: Serve) -> httpx.Response:
    wire = serve()
    await wire.hall.close()
    return await wire.get("/ready")


async def draining(serve: Serve) -> httpx.Response:
    wire = serve()
    await wire.hall.close()
    answer = await wire.make()
    assert answer.headers["retry-after"] == "1"
    return answer


async def origin_foreign(serve: Serve) -> httpx.Response:
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/v1/ws",
        "query_string": b"",
        "headers": [(b"host", b"server"), (b"origin", b"http://elsewhere.example")],
        "extensions": {"websocket.http.response": {}},
    }
    await serve().app(scope, receive, send)
    request = httpx.Request("GET", "http://server/v1/ws")
    return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=sent[1]["body"], request=request)


WITHOUT_ROUTES = {"bad_http", "head_too_large", "host_foreign", "too_many_connections"}
"""Answered before there is a request: see test_connections and test_hosts."""

AT_A_DOOR = {"library_unknown", "not_begun"}
"""See test_retrieval and tests/doors."""

WITH_A_JOURNAL = {
    "diverged",
    "elsewhere",
    "journal_damaged",
    "journal_unavailable",
    "sealed_rule",
    "session_lost",
    "ticket_expired",
    "ticket_unknown",
    "ticket_used",
    "version_changed",
}
"""See test_recovery, test_sealed and test_tickets."""

PROVOKED: dict[str, Callable[[Serve], Awaitable[httpx.Response]]] = {
    code: found for code, found in globals().items() if code in CATALOGUE
}


def test_no_problem_is_left_out():
    assert set(PROVOKED) | WITHOUT_ROUTES | AT_A_DOOR | WITH_A_JOURNAL == set(CATALOGUE)


@pytest.mark.parametrize("code", PROVOKED)
async def test_a_problem_is_answered(serve, code):
    problem(await PROVOKED[code](serve), code)


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_problem_says_what_to_do(code):
    kind = CATALOGUE[code]
    assert 400 <= kind.status < 600
    assert kind.title
    assert kind.fix
    made = ProblemError(code, "half a pair: \ud800 " + "x" * 5000)
    assert len(made.body) < 3000


async def test_every_fault_of_a_request_is_told_up_to_five(wire):
    answer = await wire.post("/v1/sessions", {f"field-{number}": 1 for number in range(9)})
    said = problem(answer, "invalid_request")["detail"]
    assert said.count(";") == 5
    assert said.endswith("and 6 more")


async def test_a_fault_of_the_server_says_nothing_of_itself(wire, monkeypatch, caplog):
    async def fails(*_: Any) -> Any:
        raise RuntimeError("words of the server's")

    for name, ask in (("status", wire.get("/v1/sessions/x")), ("step", wire.post("/v1/sessions/x/step", {}))):
        monkeypatch.setattr(Handlers, name, fails)
        assert "words" not in (await ask).text
    assert caplog.text.count("RuntimeError at test_problems.py") == 2
    assert "words" not in caplog.text
