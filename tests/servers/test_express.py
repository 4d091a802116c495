"""Steps that go past uvicorn: they say what they would say by the application, however their bytes come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from uvicorn.server import ServerState

from agentenvs_servers import connection, run
from agentenvs_servers.connection import Connection
from agentenvs_servers.hosts import Hosts
from agentenvs_servers.hot import Front
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.wire import key

pytestmark = pytest.mark.anyio

TOKEN = "token-of-the-express-way"


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False
        self.paused = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> Any:
        return self.protocol

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Line:
    """A connection without a network: what is fed to it, and the answers that come."""

    def __init__(self, server: Server) -> None:
        self.transport = Transport()
        self.protocol = Connection(server.config, server.state, {})
        self.transport.protocol = self.protocol
        self.protocol.connection_made(self.transport)

    def feed(self, *parts: bytes) -> None:
        for part in parts:
            self.protocol.data_received(part)

    async def answers(self, count: int) -> list[tuple[int, bytes]]:
        """Return status and body of the next answers."""
        async with asyncio.timeout(10):
            while len(found := _answers(self.transport.sent)) < count:
                await asyncio.sleep(0.001)
        self.transport.sent = b""
        return found


class Server:
    """An application, a configuration of uvicorn, and how many requests went the express way."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.config = run._config(front, front.handlers.hall.settings, logs_itself=True)
        self.config.load()
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")]
        self.taken: list[bool | None] = []
        begin = front.express.begin
        front.express.begin = lambda *asked: self._noted(begin(*asked))

    def _noted(self, taken: bool | None) -> bool | None:
        self.taken.append(taken)
        return taken

    async def session(self, line: Line, headers: str = "", name: str = "x") -> dict[str, Any]:
        """Return a new session."""
        asked = _post("/v1/sessions", json.dumps({"env": "room", "key": key()}).encode(), headers)
        line.feed(asked.replace(b"Host: x", b"Host: %b" % name.encode()))
        ((status, body),) = await line.answers(1)
        assert status == 201, body
        return json.loads(body)


def _answers(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(rest) < size:
            break
        found.append((int(head[9:12]), rest[:size]))
        data = rest[size:]
    return found


def _post(path: str, body: bytes, headers: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _step(made: dict[str, Any], turn: Any, headers: str = "", *, size: int = 140, **more: Any) -> bytes:
    """Return a step whose body has a size: so all of them have the same head."""
    body = json.dumps({"episode": made["episode"], "turn": turn, "action": "look", **more}).encode()
    return _post(f"/v1/sessions/{made['session']}/step", body.ljust(size), headers)


@pytest.fixture(params=["memory", "journal"])
async def serve(request, tmp_path) -> AsyncIterator[Callable[..., Server]]:
    rooms.register()
    made: list[Server] = []

    def make(**settings: Any) -> Server:
        kept = None
        if request.param == "journal":
            kept = Journal(open_journal(str(tmp_path / "journal.db")), "0" * 8, shared=False)
        plan = run.Plan(("room", "slow_room"), Settings(**settings), {"limit": 0}, None, False)
        front = plan.app(fresh=True)
        if kept is not None:
            front = run.make_app(("room", "slow_room"), Settings(**settings), {"limit": 0}, journal=kept)
        made.append(Server(front))
        return made[-1]

    yield make
    for server in made:
        await server.front.handlers.hall.close()


async def _known(server: Server, line: Line, headers: str = "") -> dict[str, Any]:
    """Return a session that has played a turn, the head of which is known then."""
    made = await server.session(line, headers=headers)
    line.feed(_step(made, 1, headers))
    assert [status for status, _ in await line.answers(1)] == [200]
    server.taken.clear()
    return made


async def test_a_plain_step_says_what_it_says_by_the_application(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    line.feed(_step(made, 2))
    ((status, said),) = await line.answers(1)
    assert (status, server.taken) == (200, [True])
    line.feed(_step(made, 2, "X-Request-ID: again\r\n"))
    assert await line.answers(1) == [(200, said)]
    assert server.taken == [True, False]
    line.feed(_step(made, 2))
    assert await line.answers(1) == [(200, said)]
    counts = server.front.handlers.hall.metrics.routes["POST /v1/sessions/{session}/step"].statuses
    assert counts == {200: 4}


async def test_whoever_sends_a_known_head_is_known(serve):
    server = serve()
    made = await _known(server, Line(server))
    other = Line(server)
    other.feed(_step(made, 2))
    assert [status for status, _ in await other.answers(1)] == [200]
    assert server.taken == [True]


async def test_a_batch_says_what_it_says_by_the_application(serve):
    server = serve()
    line = Line(server)
    made = [await server.session(line) for _ in range(3)]

    def batch(turn: int, headers: str = "", *, most: int = 3) -> bytes:
        items = [{"session": one["session"], "episode": one["episode"], "turn": turn, "action": "look"} for one in made]
        body = json.dumps({"items": [*items[:most], *[items[0]] * (3 - most)]})
        return _post("/v1/steps", body.encode().ljust(1_000), headers)

    line.feed(batch(1))
    await line.answers(1)
    server.taken.clear()
    line.feed(batch(2), batch(2, "X-Request-ID: again\r\n"), batch(3, most=1), batch(9))
    (first, again, chain, ahead) = await line.answers(4)
    assert first == again
    assert [item["status"] for item in json.loads(first[1])["items"]] == [200] * 3
    assert [item["result"]["turn"] for item in json.loads(chain[1])["items"]] == [3] * 3
    assert [item["problem"]["code"] for item in json.loads(ahead[1])["items"]] == ["turn_ahead"] * 3
    assert True in server.taken
    line.feed(_post("/v1/steps", b'{"items":[{}]}'.ljust(1_000)))
    ((status, said),) = await line.answers(1)
    assert (status, json.loads(said)["code"]) == (422, "invalid_request")
    counts = server.front.handlers.hall.metrics.routes["POST /v1/steps"].statuses
    assert counts == {200: 5, 422: 1}


REFUSED = {
    "another session": ({}, {"session": "00000000.s." + "x" * 43}, 404),
    "another episode": ({"episode": "ep-0"}, {}, 409),
    "a turn ahead": ({"turn": 9}, {}, 409),
    "a turn that is none": ({"turn": "2"}, {}, 422),
    "a turn of another kind": ({"turn": True}, {}, 422),
    "a field too many": ({"session": "x"}, {}, 422),
    "an unknown field": ({"more": 1}, {}, 422),
    "traced": ({"trace": True}, {}, 200),
    "another action": ({"turn": 1, "action": "win"}, {}, 409),
}


@pytest.mark.parametrize(("body", "name", "status"), REFUSED.values(), ids=REFUSED)
async def test_what_is_not_plain_is_answered_by_the_application(serve, body, name, status):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    fields = {"episode": made["episode"], "turn": 2, "action": "look", **body}
    path = f"/v1/sessions/{name.get('session', made['session'])}/step"
    data = json.dumps(fields).encode().ljust(140)
    line.feed(_post(path, data))
    (found,) = await line.answers(1)
    assert found[0] == status
    assert server.taken in ([False], [True])
    line.feed(_post(path, data, "X-Request-ID: a\r\n"))
    assert await line.answers(1) == [found]


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"episode":1}', b"\xff", b"1e999"])
async def test_a_body_that_is_no_step(serve, body):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    line.feed(_post(f"/v1/sessions/{made['session']}/step", body.ljust(140)))
    ((status, said),) = await line.answers(1)
    assert (status, json.loads(said)["code"]) in ((400, "bad_json"), (422, "invalid_request"))
    line.feed(_step(made, 2))
    assert [status for status, _ in await line.answers(1)] == [200]


async def test_a_step_in_two_pieces_wherever_it_is_cut(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    size = len(_step(made, 2))
    for turn, cut in enumerate(range(1, size, 17), start=2):
        data = _step(made, turn)
        line.feed(data[:cut], data[cut:])
        ((status, said),) = await line.answers(1)
        assert (status, json.loads(said)["turn"]) == (200, turn)


async def test_a_step_in_many_pieces_is_the_parsers(serve):
    server = serve(body_seconds=0.3)
    line = Line(server)
    made = await _known(server, line)
    data = _step(made, 2)
    line.feed(*[data[at : at + 1] for at in range(len(data))])
    assert [status for status, _ in await line.answers(1)] == [200]
    data = _step(made, 3)
    line.feed(data[:-20])
    for at in range(len(data) - 20, len(data) - 2):  # nobody may go on like this for ever
        await asyncio.sleep(0.03)
        line.feed(data[at : at + 1])
    ((status, said),) = await line.answers(1)
    assert (status, json.loads(said)["code"]) == (408, "request_slow")


async def test_a_head_that_came_in_time_is_in_time(serve, monkeypatch):
    server = serve()
    made = await _known(server, Line(server))
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.02)
    line = Line(server)
    data = _step(made, 2)
    line.feed(data[:-20])
    await asyncio.sleep(0.04)
    line.feed(data[-20:])
    assert [status for status, _ in await line.answers(1)] == [200]
    assert not line.transport.closed


async def test_the_rest_of_a_step_may_be_late_or_never_come(serve, monkeypatch):
    monkeypatch.setattr(connection, "REST_SECONDS", 0.01)
    server = serve(body_seconds=0.2)
    line = Line(server)
    made = await _known(server, line)
    data = _step(made, 2)
    line.feed(data[:-20])
    await asyncio.sleep(0.05)
    line.feed(data[-20:])
    assert [status for status, _ in await line.answers(1)] == [200]
    line.feed(_step(made, 3)[:-20])
    ((status, said),) = await line.answers(1)
    assert (status, json.loads(said)["code"]) == (408, "request_slow")


async def test_steps_that_do_not_wait_for_answers_are_answered_in_order(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    steps = [_step(made, turn) for turn in range(2, 12)]
    line.feed(b"".join(steps[:3]), *steps[3:6], steps[6][:50], steps[6][50:] + steps[7][:30], steps[7][30:], *steps[8:])
    turns = [json.loads(body)["turn"] for _, body in await line.answers(len(steps))]
    assert turns == list(range(2, 12))


async def test_other_requests_may_come_in_between(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    line.feed(_step(made, 2), health, _step(made, 3), b"\r\n" + _step(made, 4), health)
    found = [json.loads(body) for _, body in await line.answers(5)]
    assert [form.get("turn", form.get("status")) for form in found] == [2, "healthy", 3, 4, "healthy"]


async def test_a_flood_behind_a_step_waits(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    line.protocol._is_express = True
    line.feed(*[_step(made, turn) for turn in range(2, 400)])
    assert line.transport.paused
    line.protocol._is_express = False
    ahead, line.protocol._ahead = line.protocol._ahead, b""
    line.protocol.flow.resume_reading()
    line.feed(ahead)
    assert len(await line.answers(398)) == 398


async def test_a_client_may_say_that_it_keeps_its_connection(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line, "Connection: Keep-Alive\r\nAccept: */*\r\n")
    line.feed(_step(made, 2, "Connection: Keep-Alive\r\nAccept: */*\r\n"))
    assert [status for status, _ in await line.answers(1)] == [200]
    assert server.taken == [True]


ODD_HEADS = {
    "closing": "Connection: close\r\n",
    "closing after all": "Connection: keep-alive\r\nConnection: close\r\n",
    "two lengths": "Content-Length: 140\r\n",
    "expecting": "Expect: 100-continue\r\n",
    "named": "X-Request-ID: mine\r\n",
    "another kind": "Content-Type: text/plain\r\n",
    "chunked": "Transfer-Encoding: chunked\r\n",
}


@pytest.mark.parametrize("odd", ODD_HEADS.values(), ids=ODD_HEADS)
async def test_odd_heads_are_not_remembered(serve, odd):
    server = serve()
    made = await _known(server, Line(server))
    known = len(server.front.express._heads)
    line = Line(server)
    line.feed(_step(made, 2, odd))
    await asyncio.sleep(0.05)
    assert server.taken == [False]
    assert len(server.front.express._heads) == known


async def test_a_head_with_lines_that_end_in_another_way_is_not_remembered(serve):
    server = serve()
    line = Line(server)
    made = await server.session(line)
    known = len(server.front.express._heads)
    line.feed(_step(made, 1).replace(b"Host: x\r\n", b"Host: x\n"))
    await asyncio.sleep(0.05)
    assert len(server.front.express._heads) == known


async def test_heads_with_a_foreign_name_are_not_remembered(serve):
    server = serve()
    server.front.hosts = Hosts()
    line = Line(server)
    made = await server.session(line, name="localhost")
    for _ in range(2):
        line.feed(_step(made, 1).replace(b"Host: x", b"Host: evil.example"))
        assert [status for status, _ in await line.answers(1)] == [403]
    assert server.front.express._heads == {}


async def test_heads_are_kept_within_bounds(serve, monkeypatch):
    monkeypatch.setattr("agentenvs_servers.express.MOST_HEADS", 3)
    server = serve()
    line = Line(server)
    made = await server.session(line)
    for turn in range(1, 12):
        line.feed(_step(made, turn, size=120 + turn))
        assert [status for status, _ in await line.answers(1)] == [200]
        assert len(server.front.express._heads) <= 3


async def test_a_token_that_holds_no_more_is_refused(serve, tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"me: {TOKEN}\n")
    server = serve(token_file=str(file))
    headers = f"Authorization: Bearer {TOKEN}\r\n"
    line = Line(server)
    made = await _known(server, line, headers)
    line.feed(_step(made, 2, headers))
    assert [status for status, _ in await line.answers(1)] == [200]
    assert server.taken == [True]
    file.write_text(f"me: another-{TOKEN}\n")
    server.front.handlers.hall.keyring.look_again()
    server.front.handlers.hall.keyring.poll()
    line.feed(_step(made, 3, headers))
    assert [status for status, _ in await line.answers(1)] == [401]
    line.feed(_step(made, 3))
    assert [status for status, _ in await line.answers(1)] == [401]


async def test_a_server_that_stops_answers_the_step_that_runs(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    line.protocol._is_express = True
    line.protocol.shutdown()
    assert not line.transport.closed
    line.protocol._is_express = False
    line.feed(_step(made, 2))
    async with asyncio.timeout(10):
        while not line.transport.closed:
            await asyncio.sleep(0.001)
    head, _, body = line.transport.sent.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert json.loads(body)["turn"] == 2


async def test_a_quiet_connection_is_closed_and_a_busy_one_is_not(serve):
    server = serve()
    server.config.timeout_keep_alive = 0.2
    line = Line(server)
    made = await _known(server, line)
    for turn in range(2, 12):
        await asyncio.sleep(0.05)
        line.feed(_step(made, turn))
        assert [status for status, _ in await line.answers(1)] == [200]
    assert server.taken == [True] * 10
    async with asyncio.timeout(10):
        while not line.transport.closed:
            await asyncio.sleep(0.01)


async def test_a_fault_of_the_server_says_nothing_of_itself(serve, monkeypatch, caplog):
    server = serve()
    line = Line(server)
    made = await _known(server, line)

    def fail(*_: Any) -> None:
        raise ValueError("secret words")

    monkeypatch.setattr("agentenvs_servers.batches.begin", fail)
    line.feed(_step(made, 2))
    ((status, said),) = await line.answers(1)
    assert (status, json.loads(said)["code"]) == (500, "internal")
    assert b"secret" not in said
    assert "secret" not in caplog.text


async def test_a_client_that_has_gone_is_not_answered_and_its_turn_is_played(serve):
    server = serve()
    line = Line(server)
    made = await _known(server, line)
    line.feed(_step(made, 2))
    line.transport.close()
    line.protocol.connection_lost(None)
    other = Line(server)
    other.feed(_step(made, 2, "X-Request-ID: again\r\n"))
    ((status, said),) = await other.answers(1)
    assert (status, json.loads(said)["turn"]) == (200, 2)
