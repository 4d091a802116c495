"""How requests are put together, which way they go, and how long is waited for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.server import serve

from agentenvs.client import ClientSettings
from agentenvs.client.calls import Answer, Call
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import Line
from agentenvs.client.patience import Patience
from agentenvs.client.talking import MOST_BYTES, Talk, units
from agentenvs.core.errors import ServiceError


def step(number: int, route: str = "", body: bytes = b'{"turn":1}') -> Call:
    return Call("POST", f"/v1/sessions/{number}/step", body, op="step", fields=b'"session":"%d"' % number, route=route)


PING = Call("POST", "/v1/sessions/x/ping", b"{}", op="ping", fields=b'"session":"x"')


def test_frames_and_items() -> None:
    assert step(7).frame(3) == b'{"id":3,"op":"step","session":"7","turn":1}'
    assert step(7).item() == b'{"session":"7","turn":1}'
    assert PING.frame(4) == b'{"id":4,"op":"ping","session":"x"}'
    assert Call("GET", "/v1/envs", op="envs").frame(5) == b'{"id":5,"op":"envs"}'


def test_steps_go_together_by_worker_within_bounds() -> None:
    calls = [step(0, "a"), PING, step(1, "b"), step(2, "a"), step(3, "a"), step(4, "c")]
    found = [(unit.places, unit.is_batch, unit.call.op, unit.call.route) for unit in units(calls, range(6), 2)]
    assert found == [
        ([1], False, "ping", ""),
        ([0, 3], True, "steps", "a"),
        ([4], False, "step", "a"),
        ([2], False, "step", "b"),
        ([5], False, "step", "c"),
    ]
    assert [unit.places for unit in units(calls, [1, 3, 4], 9)] == [[1], [3, 4]]
    assert [unit.is_batch for unit in units(calls, range(6), 1)] == [False] * 6
    assert json.loads(units(calls, [3, 4], 9)[0].call.body or b"") == {
        "items": [{"session": "2", "turn": 1}, {"session": "3", "turn": 1}]
    }
    large = [step(n, body=b'{"x":"%b"}' % (b"x" * (MOST_BYTES // 3))) for n in range(5)]
    assert [len(unit.places) for unit in units(large, range(5), 9)] == [2, 2, 1]


def test_a_batch_says_to_a_proxy_which_worker_is_best_asked() -> None:
    endpoint = Endpoint("http://x")
    (unit,) = units([step(0, "0123abcd"), step(1, "0123abcd")], range(2), 9)
    assert endpoint.request(unit.call, 1).headers["x-agentenvs-route"] == "0123abcd"
    assert "x-agentenvs-route" not in endpoint.request(step(0, "0123abcd"), 1).headers


def test_dialogues_end_as_they_would_alone() -> None:
    def one(number: int) -> Any:
        said = yield step(number)
        if said.status != 200:
            raise ValueError(number)
        try:
            yield PING
        except ServiceError as error:
            return number, type(error)
        return number

    def none() -> Any:
        return "at once"
        yield

    talk = Talk([one(0), none(), one(1), one(2)])
    assert [call.op for call in talk.calls()] == ["step"] * 3
    talk.answer([Answer(200, None, b""), Answer(409, None, b""), Answer(200, None, b"")])
    assert talk.calls() == [PING, PING]
    talk.fail(ServiceError("gone"))
    assert talk.calls() == []
    zero, once, failed, two = talk.results
    assert (zero, once, two) == ((0, ServiceError), "at once", (2, ServiceError))
    assert isinstance(failed, ValueError)


# ---- patience --------------------------------------------------------------------------------------------------------

QUICK = {"backoff": 0.0, "max_wait": 0.0}
DOWN = httpx.ConnectError("refused")
LATE = httpx.ReadTimeout("no answer in time")


def _tries(known: bool, failed: Any, **settings: Any) -> int:
    """Return how often a request is asked; 100 for as good as for ever."""
    patience = Patience("x", ClientSettings(**{**QUICK, **settings}), lambda: known, once=settings.get("ttl") == 1)
    for tries in range(1, 100):
        try:
            patience.after(failed)
        except ServiceError:
            return tries
    return 100


def _problem(status: int, code: str) -> Answer:
    return Answer(status, None, json.dumps({"code": code}).encode())


@pytest.mark.parametrize(
    ("known", "failed", "tries"),
    [
        (False, DOWN, 3),
        (True, DOWN, 100),
        (True, LATE, 3),
        (False, Answer(502, None, b""), 3),
        (True, Answer(502, None, b""), 100),
        (False, _problem(503, "at_capacity"), 100),
        (False, _problem(503, "draining"), 100),
        (False, _problem(503, "journal_unavailable"), 100),
        (False, _problem(429, "quota_reached"), 100),
        (False, _problem(503, "unheard_of"), 3),
    ],
)
def test_who_is_known_to_be_there_is_waited_for(known: bool, failed: Any, tries: int) -> None:
    assert _tries(known, failed, retries=2) == tries


def test_patience_and_retries_have_an_end() -> None:
    assert _tries(True, DOWN, retries=2, patience=0) == 3
    assert _tries(True, DOWN, retries=0, patience=0) == 1
    assert _tries(True, DOWN, retries=5, ttl=1) == 1  # a goodbye is said once


def test_a_server_may_say_when_to_come_again() -> None:
    patience = Patience("x", ClientSettings(backoff=0.0, max_wait=3.0), lambda: True, once=False)
    assert patience.after(Answer(503, 2.0, b"")) == 2.0
    assert patience.after(Answer(503, 60.0, b"")) == 3.0


# ---- several workers -------------------------------------------------------------------------------------------------


@pytest.fixture
def workers() -> Iterator[tuple[str, list[str]]]:
    """A server whose sockets say that they have reached the worker that was wanted, or ``aaaaaaaa``."""
    reached: list[str] = []

    def handle(socket: Any) -> None:
        worker = socket.response.headers["X-Agentenvs-Route"]
        for message in socket:
            reached.append(worker)
            number = json.loads(message)["id"]
            socket.send(json.dumps({"id": number, "status": 200, "body": worker}))

    def respond(socket: Any, request: Any, response: Any) -> None:
        response.headers["X-Agentenvs-Route"] = request.headers.get("X-Agentenvs-Route", "aaaaaaaa")

    with serve(handle, "127.0.0.1", 0, process_response=respond) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", reached
        server.shutdown()


def test_each_session_is_asked_for_at_the_worker_that_has_it(workers: Any) -> None:
    url, _ = workers
    line = Line(Endpoint(url), ClientSettings(wire="socket", retries=0))

    def ask(call: Call) -> Any:
        def dialogue() -> Any:
            return (yield call).form

        return line.carry(dialogue())

    try:
        assert ask(PING) == "aaaaaaaa"
        assert [ask(step(1, route)) for route in ("aaaaaaaa", "bbbbbbbb", "", "bbbbbbbb", "cccccccc")] == [
            "aaaaaaaa",
            "bbbbbbbb",
            "aaaaaaaa",
            "bbbbbbbb",
            "cccccccc",
        ]
    finally:
        line.hang_up()
