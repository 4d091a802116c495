"""A socket says what HTTP says, side by side for many sessions, and survives whatever its client does."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.line import connected, of, opened
from tests.servers.rooms import GATE, SECRET
from tests.servers.wire import Play, Wire, key

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-many-characters"


# ---- the same as over HTTP -------------------------------------------------------------------------------------------


async def test_bodies_have_the_bytes_of_http(wire):
    play = await wire.play(trace=True)
    session = play.form["session"]
    async with opened(wire) as line:
        assert await line.body("step", **of(play, 1, "look")) == (await play.step(1, "look")).content
        assert (
            await line.body("step", **of(play, 2, "look", trace=True))
            == (await play.step(2, "look", trace=True)).content
        )
        assert await line.body("status", session=session) == (await play.status()).content
        path = f"{play.path}/trace"
        assert await line.body("trace", session=session) == (await wire.get(path)).content
        assert await line.body("trace", session=session, **{"from": 2}) == (await wire.get(f"{path}?from=2")).content
        assert await line.body("envs") == (await wire.get("/v1/envs")).content
        assert await line.body("env", env="room") == (await wire.get("/v1/envs/room")).content
        assert await line.body("ping", session=session) == (await wire.post(f"{play.path}/ping", {})).content
        batch = {"items": [of(play, 3, "look")]}
        assert await line.body("steps", **batch) == (await wire.post("/v1/steps", batch)).content
        reset = {"key": key(), "ends": play.episode, "task": {"split": "few", "index": 2}}
        assert (
            await line.body("reset", session=session, **reset) == (await wire.post(f"{play.path}/reset", reset)).content
        )
        record = json.loads(await line.body("record", session=session, episode=play.episode))
        assert record.encode() == (await wire.get(f"{play.path}/record?episode={play.episode}")).content
        assert (
            await line.body("close", session=session, ending="truncated")
            == (await play.close(ending="truncated")).content
        )
        create = {"env": "room", "key": key(), "count": 2}
        assert await line.body("create", **create) == (await wire.post("/v1/sessions", create)).content


async def test_refusals_have_the_bytes_of_http(serve):
    wire = serve(max_sessions=2, max_action_bytes=100)
    play = await wire.play(ttl=5)
    session = play.form["session"]
    async with opened(wire) as line:
        for turn, action in ((2, "look"), (1, "x" * 101), ("1", "look"), (True, "look"), (0, "look")):
            answer = await play.step(turn, action)
            code = answer.json()["code"]
            assert await line.problem(code, "step", **of(play, turn, action)) == answer.content
        answer = await wire.make(count=3)
        found = await line.ask("create", env="room", key=key(), count=3)
        assert (found["problem"], found["retry_after"]) == (answer.json(), int(answer.headers["retry-after"]))
        assert (
            await line.problem("episode_running", "record", session=session)
            == (await wire.get(f"{play.path}/record")).content
        )
        for unknown in ("status", "ping", "close", "record"):
            await line.problem("session_unknown", unknown, session="nobody")
        await line.problem("wrong_scope", "status", session=play.agent_key)
        await line.problem("env_unknown", "env", env="nowhere")
        wire.clock.now += 6
        await line.problem("expired", "step", **of(play, 1, "look"))
        await line.problem("expired", "close", session=session)


@pytest.mark.parametrize(
    ("op", "fields", "said"),
    [
        (None, {}, "op: the name of a request"),
        (3, {}, "op: the name of a request"),
        ("unstep", {}, "op: one of close, create, env, envs"),
        ("step", {}, "session: Field required"),
        ("status", {"session": 3}, "session: Input should be a valid string"),
        ("ping", {"session": "x", "more": 1}, "more: Extra inputs are not permitted"),
        ("close", {"session": "x", "ending": "aborted"}, "ending: Input should be 'abandoned' or 'truncated'"),
        ("trace", {"session": "x", "from": 0}, "from: Input should be greater than or equal to 1"),
        ("trace", {"session": "x", "start": 1}, "start: Extra inputs are not permitted"),
        ("envs", {"env": "room"}, "env: Extra inputs are not permitted"),
        ("create", {"env": "room"}, "key: Field required"),
        ("reset", {"key": "k", "ends": "e"}, "session: Field required"),
        ("steps", {"items": 3}, "items: Input should be a valid list"),
    ],
)
async def test_what_makes_no_sense_is_told_under_its_id(wire, op, fields, said):
    async with opened(wire) as line:
        problem = json.loads(await line.problem("invalid_request", op, **fields))
        assert said in problem["detail"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["http", "socket", "batch", "agent"]),
            st.integers(0, 1),
            st.integers(1, 4),
            st.sampled_from(["look", "win", "no"]),
        ),
        max_size=10,
    )
)
@settings(max_examples=60, deadline=None)
def test_whichever_way_turns_come_they_are_the_turns_of_http(asked):
    """Turns come by HTTP, socket, batch and agent key mixed; a twin session gets all of them over HTTP."""

    async def one(wire: Wire, line: Any, play: Play, way: str, turn: int, action: str) -> tuple[int, bytes]:
        if way == "agent":
            answer = await play.agent_step(turn, action)
            return answer.status_code, answer.content
        if way == "http":
            answer = await play.step(turn, action)
            return answer.status_code, answer.content
        if way == "socket":
            text = await line.reply(number := line.say("step", **of(play, turn, action)))
            status = json.loads(text)["status"]
            word = "body" if status == 200 else "problem"
            return status, text.removeprefix(f'{{"id":{number},"status":{status},"{word}":')[:-1].encode()
        answer = (await wire.post("/v1/steps", {"items": [of(play, turn, action)]})).content
        status = json.loads(answer)["items"][0]["status"]
        word = "result" if status == 200 else "problem"
        return status, answer.removeprefix(b'{"items":[{"status":%d,"%b":' % (status, word.encode()))[:-3]

    async def run() -> None:
        rooms.register()
        wire = Wire(("room",), Settings())
        here, there = [[await wire.play() for _ in range(2)] for _ in range(2)]
        async with opened(wire) as line:
            for way, who, turn, action in asked:
                status, body = await one(wire, line, here[who], way, turn, action)
                answer = await there[who].step(turn, action)
                wanted = answer.content.replace(there[who].episode.encode(), here[who].episode.encode())
                assert (status, body) == (answer.status_code, wanted)
        await wire.hall.close()

    asyncio.run(run())


# ---- frames that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "number", "code"),
    [
        ("", None, "bad_json"),
        ("{", None, "bad_json"),
        ('{"id": 7, "op": "envs"', 7, "bad_json"),
        ('{"id":7,"op":NaN}', 7, "bad_json"),
        ("[]", None, "invalid_request"),
        ("3", None, "invalid_request"),
        ('{"op": "envs"}', None, "invalid_request"),
        ('{"id": null, "op": "envs"}', None, "invalid_request"),
        ('{"id": true, "op": "envs"}', None, "invalid_request"),
        ('{"id": -1, "op": "envs"}', None, "invalid_request"),
        ('{"id": 1.0, "op": "envs"}', None, "invalid_request"),
        ('{"id": "1", "op": "envs"}', None, "invalid_request"),
        ('{"id": 9007199254740993, "op": "envs"}', None, "invalid_request"),
        ('{"id": 5, "op": "step", "session": "\\ud800", "episode": "e", "turn": 1, "action": 1}', 5, "session_unknown"),
        ("[" * 100_000, None, "bad_json"),
        ('{"id": 5, "op": "step", "action": ' + "[" * 90_000, 5, "bad_json"),
    ],
)
async def test_a_bad_frame_is_answered_and_the_socket_goes_on(wire, frame, number, code):
    play = await wire.play()
    async with opened(wire) as line:
        line.raw(frame)
        found = json.loads(await line.hear())
        assert (found["id"], found["problem"]["code"]) == (number, code)
        assert (await line.step(play, 1, "look"))["status"] == 200


async def test_frames_are_text(wire):
    async with opened(wire) as line:
        line.raw(data=b'{"id":1,"op":"envs"}')
        found = json.loads(await line.hear())
        assert (found["id"], found["problem"]["detail"]) == (None, "frames are text, not bytes")
        assert (await line.ask("envs"))["status"] == 200


async def test_a_frame_has_a_size(serve):
    wire = serve(max_body_bytes=1000)
    async with opened(wire) as line:
        await line.problem("body_too_large", "envs", more="x" * 1000)
        line.raw('{"op":"envs","id":1,"more":"%s"}' % ("x" * 1000))
        assert json.loads(await line.hear())["id"] is None
        assert (await line.ask("envs"))["status"] == 200


@given(
    st.lists(
        st.text(max_size=40) | st.binary(max_size=40) | st.from_regex(r'\{"id":[0-9]{1,3},"op":"\w{1,6}"[,}].{0,30}'),
        max_size=20,
    )
)
@settings(max_examples=80, deadline=None)
def test_whatever_frames_hold_each_has_one_answer(frames):
    async def run() -> None:
        rooms.register()
        wire = Wire(("room",), Settings())
        async with opened(wire) as line:
            for frame in frames:
                line.raw(frame) if isinstance(frame, str) else line.raw(data=frame)
            for _ in frames:
                found = json.loads(await line.hear())
                assert found["status"] in (400, 422) or "body" in found
            assert line.came.empty()
            assert json.loads(await line.body("envs"))["envs"]
        await wire.hall.close()

    asyncio.run(run())


# ---- side by side ----------------------------------------------------------------------------------------------------


async def test_replies_come_as_they_end(serve):
    wire = serve("slow_room", "room")
    slow, quick = await wire.play("slow_room"), await wire.play("room")
    async with opened(wire) as line:
        with GATE.shut():
            first = line.say("step", **of(slow, 1, "wait"))
            second = line.say("step", **of(slow, 2, "look"))
            assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
            assert (await line.step(quick, 1, "win"))["body"]["terminated"] is True
            assert line.came.empty()
        assert [json.loads(await line.reply(number))["status"] for number in (first, second)] == [200, 200]


async def test_turns_sent_ahead_of_their_answers_are_played_in_order(wire):
    plays = [await wire.play() for _ in range(8)]
    async with opened(wire) as line:
        numbers = [line.say("step", **of(play, turn, "look")) for turn in range(1, 5) for play in plays]
        assert {json.loads(await line.reply(number))["status"] for number in numbers} == {200}
    for play in plays:
        assert (await play.status()).json()["turn"] == 4


async def test_a_socket_that_goes_away_ends_no_turn_and_no_session(serve):
    wire = serve("slow_room")
    play, waits = await wire.play("slow_room"), GATE.waits
    with GATE.shut():
        async with opened(wire) as line:
            line.say("step", **of(play, 1, "wait"))
            line.say("step", **of(play, 2, "look"))
            assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
            GATE.opened.set()
    async with opened(wire) as line:
        assert (await line.step(play, 2, "look"))["status"] == 200
    assert GATE.waits == waits + 1
    assert (await play.step(3, "win")).json()["terminated"] is True


async def test_requests_beyond_the_bound_wait_on_the_line(serve):
    wire = serve("slow_room", "room", socket_requests=3)
    plays, quick = [await wire.play("slow_room") for _ in range(3)], await wire.play()
    async with opened(wire) as line:
        with GATE.shut():
            numbers = [line.say("step", **of(play, 1, "wait")) for play in plays]
            for _ in plays:
                assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
            last = line.say("step", **of(quick, 1, "look"))
            await asyncio.sleep(0.02)
            assert (line.sent.qsize(), line.came.qsize()) == (1, 0)
        for number in (*numbers, last):
            assert json.loads(await line.reply(number))["status"] == 200


async def test_a_client_that_does_not_read_is_waited_for_within_the_bound(serve):
    wire = serve(socket_requests=4)
    play = await wire.play()
    async with opened(wire) as line:
        line.reads.clear()
        numbers = [line.say("step", **of(play, 1, "look")) for _ in range(50)]
        await asyncio.sleep(0.02)
        assert line.sent.qsize() >= 45
        line.reads.set()
        assert len({json.dumps(json.loads(await line.reply(number))["body"]) for number in numbers}) == 1


# ---- who may connect -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "unauthorized"),
        ([(b"authorization", b"Bearer another-token-of-many")], "unauthorized"),
        ([(b"authorization", b"Bearer 00000000.a." + b"x" * 43)], "wrong_scope"),
        ([(b"authorization", b"Bearer " + TOKEN.encode()), (b"origin", b"http://evil.example")], "origin_foreign"),
        ([(b"authorization", b"Bearer " + TOKEN.encode()), (b"origin", b"null")], "origin_foreign"),
        ([(b"authorization", b"Bearer " + TOKEN.encode()), (b"origin", b"http://[bad")], "origin_foreign"),
    ],
)
async def test_who_may_not_connect_is_told_so_by_a_problem(serve, headers, code):
    wire = serve(tokens=(TOKEN,))
    async with connected(wire, *headers) as line:
        start, body = await line.came.get(), await line.came.get()
    problem = json.loads(body["body"])
    assert (problem["code"], problem["status"]) == (code, start["status"])
    assert (b"content-type", b"application/problem+json") in start["headers"]
    assert TOKEN not in body["body"].decode()
    async with connected(wire, *headers, response=False) as line:
        assert await line.came.get() == {"type": "websocket.close", "code": 4401, "reason": code}


async def test_who_may_connect(serve):
    wire = serve(tokens=(TOKEN,))
    async with opened(wire, (b"authorization", b"Bearer " + TOKEN.encode())) as line:
        create = {"env": "room", "key": "mine"}
        made = await line.body("create", **create)
        assert (await wire.post("/v1/sessions", create, TOKEN)).content == made
    async with opened(serve(), (b"origin", b"https://SERVER")) as line:
        assert (await line.ask("envs"))["status"] == 200


async def test_a_fault_of_the_server_says_nothing_of_itself(wire, caplog):
    wire.hall.worlds = None
    async with opened(wire) as line:
        await line.problem("internal", "envs")
    assert "TypeError" in caplog.text or "AttributeError" in caplog.text
    assert SECRET not in caplog.text


# ---- on a real line --------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Any:
    rooms.register()
    limits = Settings(max_body_bytes=100_000, socket_ping_seconds=0.3)
    with background(["room"], limits) as url:
        yield _ws(url)


def _ask(line: Any, number: int, op: str, **fields: Any) -> dict[str, Any]:
    line.send(json.dumps({"id": number, "op": op, **fields}))
    return json.loads(line.recv(timeout=10))


def test_a_real_socket(served):
    with connect(served) as line:
        assert line.protocol.extensions == []  # no compression, even for those who offer it
        made = _ask(line, 1, "create", env="room", key=key())["body"]
        fields = {"session": made["session"], "episode": made["episode"]}
        assert _ask(line, 2, "step", **fields, turn=1, action="look")["body"]["turn"] == 1
    with connect(served) as line:  # the session has outlived its socket
        assert _ask(line, 2, "step", **fields, turn=2, action="win")["body"]["terminated"] is True


def test_a_frame_in_parts(served):
    with connect(served) as line:
        line.send(['{"id":1,', '"op":', '"envs"}'])
        assert json.loads(line.recv(timeout=10))["status"] == 200


def test_many_frames_at_once():
    rooms.register()
    with background(["room"]) as url, connect(_ws(url)) as line:  # no pings that a busy machine answers too late
        made = _ask(line, 0, "create", env="room", key=key())["body"]
        fields = {"session": made["session"], "episode": made["episode"], "turn": 1, "action": "look"}
        frames = [json.dumps({"id": number, "op": "step", **fields}) for number in range(1, 3001)]
        line.socket.sendall(b"".join(Frame(Opcode.TEXT, frame.encode()).serialize(mask=True) for frame in frames))
        replies = [json.loads(line.recv(timeout=20)) for _ in frames]
        assert sorted(reply["id"] for reply in replies) == list(range(1, 3001))
        assert len({json.dumps(reply["body"]) for reply in replies}) == 1


def test_requests_beyond_the_bound_wait_on_a_real_line():
    rooms.register()
    with background(["slow_room", "room"], Settings(socket_requests=3)) as url, connect(_ws(url)) as line:
        made = [_ask(line, 0, "create", env=env, key=key())["body"] for env in ("slow_room",) * 3 + ("room",)]
        steps = [{"session": each["session"], "episode": each["episode"], "turn": 1} for each in made]
        with GATE.shut():
            for number, fields in enumerate(steps[:3]):
                line.send(json.dumps({"id": number, "op": "step", **fields, "action": "wait"}))
            for _ in range(3):
                assert GATE.entered.acquire(timeout=10)
            for number in range(3, 2000):
                line.send(json.dumps({"id": number, "op": "step", **steps[3], "action": "look"}))
            with pytest.raises(TimeoutError):
                line.recv(timeout=0.1)
        assert {json.loads(line.recv(timeout=20))["status"] for _ in range(2000)} == {200}


def _ws(url: str) -> str:
    return url.replace("http", "ws") + "/v1/ws"


def test_a_frame_far_too_large_closes_the_socket_alone(served):
    with connect(served) as line, connect(served) as other:
        found = _ask(line, 1, "envs", more="x" * 120_000)
        assert (found["id"], found["problem"]["code"]) == (1, "body_too_large")
        with pytest.raises(ConnectionClosed):
            _ask(line, 2, "envs", more="x" * 300_000)
        assert line.protocol.close_rcvd.code == 1009
        assert _ask(other, 1, "envs")["status"] == 200


@pytest.mark.parametrize(
    "junk",
    [
        Frame(Opcode.TEXT, b"{}").serialize(mask=False),
        b"\x83\x80\x00\x00\x00\x00",  # no such opcode
        b"\xf1\x80\x00\x00\x00\x00",  # reserved bits
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x81\xff" + b"\xff" * 8 + b"\x00" * 4,  # a frame of 2^64 - 1 bytes
    ],
    ids=["unmasked", "no opcode", "reserved bits", "HTTP", "endless"],  # a mask is drawn anew each time
)
def test_what_is_no_frame_closes_the_socket_alone(served, junk):
    with connect(served) as line, connect(served) as other:
        line.socket.sendall(junk)
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=10)
        assert _ask(other, 1, "envs")["status"] == 200


def test_frames_of_bytes_are_refused_and_no_more(served):
    with connect(served) as line:
        line.socket.sendall(Frame(Opcode.BINARY, b"\x00\x01").serialize(mask=True))
        assert json.loads(line.recv(timeout=10))["id"] is None
        assert _ask(line, 1, "envs")["status"] == 200


@pytest.mark.parametrize(
    "frames",
    [
        [Frame(Opcode.TEXT, b"\xff\xfe")],
        [Frame(Opcode.TEXT, b'{"id":1,"op":"\xff\xfe"}')],
        [Frame(Opcode.TEXT, b'{"id":1,"op":"\xc3', fin=False), Frame(Opcode.CONT, b'"}')],
    ],
    ids=["bytes", "inside", "in parts"],
)
def test_text_that_is_none_closes_its_socket_alone(served, frames):
    with connect(served) as line, connect(served) as other:
        line.socket.sendall(b"".join(frame.serialize(mask=True) for frame in frames))
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=10)
        assert line.protocol.close_rcvd.code == 1007
        assert _ask(other, 1, "envs")["status"] == 200


def _raw(url: str) -> socket.socket:
    """Return a line that has become a socket, and then says nothing by itself: no pong either."""
    host, port = url.removeprefix("ws://").split("/")[0].split(":")
    line = socket.create_connection((host, int(port)), timeout=15)
    line.sendall(
        b"GET /v1/ws HTTP/1.1\r\nHost: %b:%b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        % (host.encode(), port.encode())
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += line.recv(1)
    assert head.startswith(b"HTTP/1.1 101")
    return line


def test_a_line_that_is_half_open_is_found(served):
    with _raw(served) as line:
        began = time.monotonic()
        while line.recv(4096):
            assert time.monotonic() - began < 10
    with connect(served) as other:
        assert _ask(other, 1, "envs")["status"] == 200


def _floods(line: socket.socket, data: bytes) -> bool:
    """Send and never read; return whether the other end cuts the line before long."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            line.sendall(data)
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_client_that_never_reads_is_cut_off(served):
    """It asks for megabytes and reads none of them, so that not even a ping gets through."""
    with _raw(served) as line:
        ask = Frame(Opcode.TEXT, json.dumps({"id": 1, "op": "env", "env": "room"}).encode()).serialize(mask=True)
        line.settimeout(0.5)
        assert _floods(line, ask * 200)
    with connect(served) as other:
        assert _ask(other, 1, "envs")["status"] == 200


def test_no_socket_elsewhere(served):
    with pytest.raises(InvalidStatus):
        connect(served.replace("/v1/ws", "/v2/ws"))
    with pytest.raises(InvalidStatus) as refused:
        connect(served, origin="http://evil.example")  # type: ignore[arg-type]
    assert json.loads(bytes(refused.value.response.body))["code"] == "origin_foreign"


def test_a_server_that_stops_closes_its_sockets() -> None:
    rooms.register()
    with ExitStack() as stack:
        with background(["room"]) as url:
            line = stack.enter_context(connect(_ws(url)))
            assert _ask(line, 1, "envs")["status"] == 200
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=10)
        assert line.protocol.close_rcvd.code == 1012
