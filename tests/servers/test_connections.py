"""A real server against clients that are slow, rude or gone: each gets a clear answer or the door, and nobody waits."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers import connection, run
from agentenvs_servers.problems import CATALOGUE
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.rooms import GATE
from tests.servers.wire import key, problem

SETTINGS = Settings(body_seconds=0.3, max_body_bytes=100_000)
PATIENCE = 15
"""Seconds within which the server must have answered or closed: far more than any limit of the test server."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with short limits, which still answers when the tests are done."""
    envs = rooms.register()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "HEAD_SECONDS", 0.4)
        with run.background(envs, SETTINGS) as found:
            yield found
            assert httpx.get(f"{found}/health").json() == {"status": "healthy"}


@pytest.fixture
def line(url: str) -> Iterator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as found:
        yield found


def _all(line: socket.socket) -> bytes:
    """Return all that comes until the server closes."""
    parts = []
    try:
        while part := line.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def _one(line: socket.socket) -> tuple[int, dict[str, Any]]:
    """Return status and body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(1) or pytest.fail(f"closed after {data!r}")
    size = int(data.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = b""
    while len(body) < size:
        body += line.recv(size - len(body))
    return int(data.split()[1]), json.loads(body)


def _code(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower()
    assert b"connection: close" in head.lower()
    found = json.loads(body)
    assert int(head.split()[1]) == found["status"]
    return found["code"]


def _post(path: str, body: bytes, length: int | None = None, *more: bytes) -> bytes:
    size = b"content-length: %d" % (len(body) if length is None else length)
    head = [b"POST %b HTTP/1.1" % path.encode(), b"host: localhost", b"content-type: application/json", size, *more]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def _made(url: str, env: str = "room", **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"{url}/v1/sessions", json={"env": env, "key": key(), **body})
    assert answer.status_code == 201
    return answer.json()


def _step(session: dict[str, Any], turn: int, action: str) -> tuple[str, bytes]:
    body = {"episode": session["episode"], "turn": turn, "action": action}
    return f"/v1/sessions/{session['session']}/step", json.dumps(body).encode()


NO_HTTP = {
    "words": b"hello\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": b"\x00" * 64,
    "bad version": b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n",
    "bytes in the path": b"GET /v1/sessions/\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "bad header": b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
    "zero in a header": b"GET /health HTTP/1.1\r\nhost: localhost\x00y\r\n\r\n",
    "negative length": b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    "length in words": b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: two\r\n\r\n",
    "length beyond 64 bits": b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: "
    + b"9" * 30
    + b"\r\n\r\n",
    "two lengths": b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_told_so(line, sent):
    line.sendall(sent)
    assert _code(_all(line)) == "bad_http"


def test_a_chunk_that_is_none_ends_the_connection(line):
    line.sendall(b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
    line.sendall(b"transfer-encoding: chunked\r\n\r\nzz\r\n")
    assert _code(_all(line)) == "bad_http"


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n"], ids=["nothing", "line", "lines"])
def test_a_connection_without_a_request_is_closed(line, sent):
    line.sendall(sent)
    assert _all(line) == b""


HALF = [b"G", b"GET /health HTT", b"GET /health HTTP/1.1\r\nhost: ", b"\r\nPOST / HTTP/1.1\r\n"]


@pytest.mark.parametrize("sent", HALF)
def test_half_a_head_holds_nothing(line, sent):
    line.sendall(sent)
    assert _code(_all(line)) == "request_slow"


def test_a_head_that_trickles_holds_nothing(line):
    head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: " + b"a" * 2_000
    line.settimeout(0.02)
    got, started = b"", time.monotonic()
    for number in range(len(head)):
        try:
            line.sendall(head[number : number + 1])
            got += line.recv(4_096)
        except TimeoutError:
            assert time.monotonic() - started < PATIENCE
            continue
        except OSError:
            break
        if got:
            break
    assert _code(got) == "request_slow"


def test_the_second_head_of_a_connection_has_its_time_too(line):
    line.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert _one(line) == (200, {"status": "healthy"})
    line.sendall(b"GET /hea")
    assert _code(_all(line)) == "request_slow"


ENDLESS = {
    "path": (b"GET /" + b"x" * 4_000, b"x" * 4_000),
    "header": (b"GET / HTTP/1.1\r\nx: ", b"y" * 4_000),
    "headers": (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 700),
}


@pytest.mark.parametrize(("first", "more"), ENDLESS.values(), ids=ENDLESS)
def test_a_head_without_end_is_refused(line, first, more):
    line.sendall(first + more * 20)
    assert _code(_all(line)) == "head_too_large"


def test_a_long_head_is_taken(url):
    answer = httpx.get(f"{url}/v1/sessions/{'x' * 30_000}", headers={"x-long": "y" * 20_000})
    assert problem(answer, "session_unknown")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: %b\r\n\r\n" % (b"y" * 66_000),
        b"GET /health?%b HTTP/1.1\r\nhost: localhost\r\n\r\n" % (b"y" * 66_000),
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (b"abcde: vwxyz\r\n" * 7_000),
    ],
    ids=["header", "address", "headers"],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_head_that_is_too_long_is_refused_however_it_comes(line, head, parts):
    for part in (head[:60_000], head[60_000:]) if parts == 2 else (head,):
        line.sendall(part)
        time.sleep(0.05)
    assert _code(_all(line)) == "head_too_large"


def test_a_head_that_just_fits_is_taken_with_its_body(url, line):
    body = json.dumps({"env": "room", "key": key(), "padding": "z" * 70_000}).encode()
    line.sendall(_post("/v1/sessions", body, None, b"x: " + b"y" * 60_000))
    assert _one(line)[1]["code"] == "invalid_request"


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/envs", "/v1/envs/room", "/docs"])
def test_head_answers_what_get_would_without_the_body(url, line, path):
    got = httpx.get(url + path)
    line.sendall(f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    head, _, body = _all(line).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"content-type: {got.headers['content-type']}".encode() in head
    assert path == "/metrics" or f"content-length: {len(got.content)}\r\n".encode() in head + b"\r\n"
    assert body == b""


UPGRADE = b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (UPGRADE + b"sec-websocket-version: 13\r\n", "bad_http"),
        (UPGRADE + b"sec-websocket-version: 13\r\nsec-websocket-key: x\r\n", "bad_http"),
        (UPGRADE + KEY, "bad_http"),
        (UPGRADE + KEY + b"sec-websocket-version: 99\r\n", "bad_http"),
        ((UPGRADE + KEY + b"sec-websocket-version: 13\r\n").replace(b"GET", b"PUT"), "method_unknown"),
        ((UPGRADE + KEY + b"sec-websocket-version: 13\r\n").replace(b"/v1/ws", b"/v1/sw"), "route_unknown"),
    ],
    ids=["no key", "bad key", "no version", "other version", "method", "address"],
)
def test_a_socket_that_cannot_be_opened_is_told_so_by_a_problem(url, line, sent, code):
    line.sendall(sent + b"\r\n")
    answer = _all(line)
    assert _code(answer) == code
    assert f" {CATALOGUE[code].status} ".encode() in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("path", ["/v1/sessions", "step", "reset", "/v1/agent/step"])
def test_a_body_that_does_not_come_is_not_waited_for(url, line, path):
    session = _made(url)
    full = path if path.startswith("/") else f"/v1/sessions/{session['session']}/{path}"
    key_of_agent = b"authorization: Bearer " + session["agent_key"].encode()
    line.sendall(_post(full, b"{", 50, *([key_of_agent] if "agent" in path else [])))
    assert _code(_all(line)) == "request_slow"


def test_a_body_that_trickles_is_not_waited_for(url, line):
    line.sendall(_post("/v1/sessions", b"", 5_000))
    line.settimeout(0.05)
    got, started = b"", time.monotonic()
    while not got and time.monotonic() - started < PATIENCE:
        try:
            line.sendall(b" ")
            got = line.recv(4_096)
        except TimeoutError:
            continue
        except OSError:
            break
    assert _code(got) == "request_slow"


def test_a_body_nobody_reads_holds_nothing(line):
    line.sendall(_post("/v1/sessions/none/step", b"{", 10**9))
    assert _one(line)[1]["code"] == "session_unknown"
    line.settimeout(0.05)
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        try:
            line.sendall(b" " * 100)
            if line.recv(1) == b"":
                return
        except TimeoutError:
            continue
        except OSError:
            return
    pytest.fail("the connection is still open")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused_and_the_connection_is_of_further_use(url, chunked):
    data = b"[" + b" " * 3_000_000 + b"]"
    with httpx.Client(base_url=url) as client:
        for _ in range(3):
            sent = (data[start : start + 50_000] for start in range(0, len(data), 50_000)) if chunked else data
            answer = client.post("/v1/sessions", content=sent, headers={"content-type": "application/json"})
            problem(answer, "body_too_large")
        assert client.get("/health").status_code == 200


def test_requests_one_behind_the_other_are_answered_in_order(url, line):
    session = _made(url)
    steps = [_post(*_step(session, turn, "look")) for turn in (1, 2, 3)]
    line.sendall(b"".join([*steps, steps[2], b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"]))
    answers = [_one(line) for _ in range(5)]
    assert [status for status, _ in answers] == [200] * 5
    assert [body.get("turn") for _, body in answers] == [1, 2, 3, 3, None]
    assert answers[2] == answers[3]
    assert _all(line) == b""


def test_a_request_without_a_head_of_its_own_is_not_smuggled(url, line):
    session = _made(url)
    inner = _post(*_step(session, 1, "win"))
    line.sendall(_post(f"/v1/sessions/{session['session']}/reset", inner))
    assert _one(line)[1]["code"] == "bad_json"
    assert httpx.get(f"{url}/v1/sessions/{session['session']}").json()["turn"] == 0


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PATCH", "PUT", "PROPFIND"])
def test_other_methods_are_refused(url, method):
    answer = httpx.request(method, f"{url}/v1/sessions")
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (405, b"")
    else:
        problem(answer, "method_unknown")


@pytest.mark.parametrize("sent", [b"CONNECT x:1 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET http://y/health HTTP/1.1"])
def test_odd_addresses_have_an_answer(line, sent):
    line.sendall(sent + b"\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert _all(line).split(b" ")[1][:1] in (b"2", b"4")


def test_an_upgrade_is_not_made(line):
    line.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    assert _one(line) == (200, {"status": "healthy"})


def test_a_turn_whose_reply_is_lost_is_played_once(url):
    session = _made(url)
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as gone:
        gone.sendall(_post(*_step(session, 1, "look")))
    path, body = _step(session, 1, "look")
    answers = [httpx.post(url + path, content=body, headers={"content-type": "application/json"}) for _ in range(2)]
    assert answers[0].json()["turn"] == 1
    assert answers[0].content == answers[1].content
    assert httpx.get(f"{url}/v1/sessions/{session['session']}").json()["turn"] == 1


def test_a_turn_whose_client_goes_away_in_the_middle_is_played_once(url):
    session, waits = _made(url, "slow_room"), GATE.waits
    host, port = url.removeprefix("http://").split(":")
    with GATE.shut():
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(_post(*_step(session, 1, "wait")))
            assert GATE.entered.acquire(timeout=PATIENCE)
        assert httpx.get(f"{url}/health").status_code == 200
    path, body = _step(session, 1, "wait")
    answer = httpx.post(url + path, content=body, headers={"content-type": "application/json"})
    assert (answer.json()["turn"], GATE.waits) == (1, waits + 1)


def test_fifty_connections_at_once_play_one_turn(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 10.0)  # a busy machine may take longer than the others' 0.4 s

    def ask(_: int) -> bytes:
        return httpx.post(url + path, content=body, headers={"content-type": "application/json"}, timeout=60).content

    with run.background(rooms.register()) as url, concurrent.futures.ThreadPoolExecutor(10) as pool:
        path, body = _step(_made(url), 1, "look")
        assert len(set(pool.map(ask, range(50)))) == 1


def test_answers_say_little_of_the_server(url):
    answer = httpx.get(f"{url}/health")
    assert set(answer.headers) == {"date", "content-type", "content-length", "x-request-id"}


def test_no_secret_stands_in_the_log_of_a_real_server(url):
    class Kept(logging.Handler):
        said: list[str]

        def emit(self, record: logging.LogRecord) -> None:
            self.said.append(f"{record.__dict__} {record.getMessage()}")

    kept = Kept(logging.DEBUG)
    kept.said = []
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "agentenvs.server")
    watched = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in watched]
    for logger in watched:
        logger.addHandler(kept)
        logger.setLevel(logging.DEBUG)
    try:
        session = _made(url)
        for turn, action in ((1, "look"), (2, "raise"), (2, "raise")):
            path, body = _step(session, turn, action)
            httpx.post(url + path, content=body, headers={"content-type": "application/json"})
        httpx.get(f"{url}/v1/agent", headers={"authorization": f"Bearer {session['agent_key']}"})
        httpx.delete(f"{url}/v1/sessions/{session['session']}")
    finally:
        for logger, level in zip(watched, levels, strict=True):
            logger.removeHandler(kept)
            logger.setLevel(level)
    ours = [line for line in kept.said if "'name': 'http" not in line]
    assert any("RuntimeError at rooms.py" in line for line in ours)
    for secret in (rooms.SECRET, session["session"], session["agent_key"]):
        assert [line for line in ours if secret in line] == []


def test_a_server_that_stops_answers_what_runs_and_takes_no_more(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 10.0)  # a busy machine may take longer than the others' 0.4 s
    envs = rooms.register()
    with GATE.shut(), concurrent.futures.ThreadPoolExecutor(2) as pool:
        with run.background(envs) as url:
            session = _made(url, "slow_room")
            path, body = _step(session, 1, "wait")
            headers = {"content-type": "application/json"}
            step = pool.submit(lambda: httpx.post(url + path, content=body, headers=headers, timeout=PATIENCE))
            assert GATE.entered.acquire(timeout=PATIENCE)
            threading.Timer(0.5, GATE.opened.set).start()
        assert step.result().json()["turn"] == 1
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")


def test_an_address_that_is_taken_is_told_as_a_mistake(url):
    with pytest.raises(ConfigError, match="cannot listen on 127"):
        run.serve(["room"], port=int(url.rpartition(":")[2]))
    for port in (-1, 70_000):
        with pytest.raises(ConfigError, match="cannot listen"):
            run.serve(["room"], port=port)
    with pytest.raises(ConfigError, match="needs a token"):
        run.serve(["room"], host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="cannot listen on no such host"):
        run.serve(["room"], host="no such host", port=0, insecure=True)
