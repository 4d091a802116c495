"""The socket that clients share: one for all, found again whenever it breaks, and HTTP where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from websockets.sync.server import serve

from agentenvs.client import AsyncRemoteEnv, ClientSettings, RemoteEnv, channels, in_process
from agentenvs.client.calls import Call
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import Line
from agentenvs.core import registry
from agentenvs.core.aio import run_sync
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs_servers.app import make_app
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.client.servers import Relay, serving
from tests.client.tcp import Tcp, tcp

SOCKET = ClientSettings(wire="socket", backoff=0.01, timeout=10)
WORDS = ("look", "inventory", "go to fridge 1", "nonsense")
HANDSHAKE = b"GET /v1/ws HTTP/1.1"


@pytest.fixture
def line(url: str) -> Iterator[Tcp]:
    with tcp(url) as found:
        yield found


def _in_process(index: int, turns: int) -> bytes:
    recorded = Recorded(registry.make("household"))
    recorded.reset(TaskRef("dev", index))
    for turn in range(turns):
        recorded.step(WORDS[turn % len(WORDS)])
    recorded.finish("truncated")
    return recorded.to_bytes()


def _play(url: str, index: int, turns: int, settings: ClientSettings) -> bytes:
    with RemoteEnv("household", url, settings=settings) as env:
        env.reset(TaskRef("dev", index))
        for turn in range(turns):
            env.step(WORDS[turn % len(WORDS)])
        env.finish("truncated")
        return env.record()


async def _aplay(url: str, index: int, turns: int, settings: ClientSettings) -> bytes:
    async with AsyncRemoteEnv("household", url, settings=settings) as env:
        await env.reset(TaskRef("dev", index))
        for turn in range(turns):
            await env.step(WORDS[turn % len(WORDS)])
        await env.finish("truncated")
        return await env.record()


def _all(play: Callable[[int], bytes], count: int) -> list[bytes]:
    """Play that many episodes, each in a thread."""
    found: dict[int, bytes] = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: play(i)})) for i in range(count)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[i] for i in range(count)]


def _until(seen: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.005)


# ---- one for all -----------------------------------------------------------------------------------------------------


def test_many_environments_share_one_socket(line: Tcp) -> None:
    records = _all(lambda index: _play(line.url, index, 6, SOCKET), 8)
    assert records == [_in_process(index, 6) for index in range(8)]
    assert set(line.heads) == {HANDSHAKE}
    assert line.opened <= 8  # one at a time; each is closed when nobody uses it
    with RemoteEnv("household", line.url) as one, RemoteEnv("household", line.url) as two:
        before = line.opened
        for env in (one, two):
            env.reset()
            env.step("look")
        assert line.opened == before


def test_the_last_one_closes_it_and_the_next_opens_another(line: Tcp) -> None:
    with RemoteEnv("stairs", line.url), RemoteEnv("stairs", line.url):
        assert line.opened == 1
    _until(lambda: not any(near.fileno() >= 0 and _alive(near) for near, _ in line.pairs))
    with RemoteEnv("stairs", line.url) as env:
        env.reset(TaskRef("few", 0))
        assert env.step("up").terminated
    assert line.opened == 2


def _alive(side: Any) -> bool:
    try:
        side.getpeername()
    except OSError:
        return False
    return True


def test_an_asynchronous_client_has_the_socket_of_its_loop(line: Tcp) -> None:
    async def play() -> list[bytes]:
        return await asyncio.gather(*(_aplay(line.url, index, 6, SOCKET) for index in range(8)))

    assert asyncio.run(play()) == [_in_process(index, 6) for index in range(8)]
    assert line.opened == 1


def test_a_token_is_sent_at_the_handshake() -> None:
    token = "a-token-of-the-server-0123"
    with serving("stairs", settings=Settings(tokens=(token,))) as url, tcp(url) as line:
        with RemoteEnv("stairs", line.url, token=token, settings=SOCKET) as env:
            env.reset(TaskRef("few", 0))
            assert env.step("up").terminated
        assert set(line.heads) == {HANDSHAKE}
        with pytest.raises(ServiceError, match="unauthorized"):
            RemoteEnv("stairs", line.url, token="another-token-012345", settings=SOCKET)


def test_large_requests_take_http_and_hold_nobody_up(line: Tcp) -> None:
    with RemoteEnv("household", line.url) as env:
        recorded = Recorded(registry.make("household"))
        assert env.reset(TaskRef("dev", 0)) == recorded.reset(TaskRef("dev", 0))
        for action in ("look", "\U0001f600" * 70_000, "look"):
            assert env.step(action) == recorded.step(action)
    assert [head.split()[0] for head in line.heads] == [b"GET", b"POST"]


def test_a_forked_process_has_a_socket_of_its_own(line: Tcp) -> None:
    with RemoteEnv("stairs", line.url, settings=SOCKET) as env:
        env.reset(TaskRef("few", 2))
        env.step("up")
        child = os.fork()
        if child == 0:
            try:
                env.step("up")
                with RemoteEnv("stairs", line.url, settings=SOCKET) as other:
                    other.reset(TaskRef("few", 0))
                    os._exit(0 if other.step("up").terminated else 2)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert env.step("up").observation.text == "Step 2."  # which the child has played too


# ---- it breaks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cut", "deaf"])
def test_whatever_breaks_no_turn_is_lost_or_doubled(line: Tcp, kind: str) -> None:
    """64 episodes at a time over one socket, which breaks again and again; replies are lost on the way where deaf."""
    done = threading.Event()

    def break_it() -> None:
        while not done.wait(0.15):
            if kind == "deaf":
                line.deaf = True
                time.sleep(0.02)
            line.cut()
            line.deaf = False

    breaker = threading.Thread(target=break_it)
    breaker.start()
    try:
        records = _all(lambda index: _play(line.url, index, 40, SOCKET), 64)
    finally:
        done.set()
        breaker.join()
    assert line.opened > 1
    wanted = [_in_process(index, 40) for index in range(64)]
    assert records == wanted


def test_whatever_breaks_no_turn_is_lost_or_doubled_asynchronously(line: Tcp) -> None:
    async def play() -> list[bytes]:
        async def break_it() -> None:
            while True:
                await asyncio.sleep(0.1)
                line.cut()

        breaker = asyncio.create_task(break_it())
        try:
            return await asyncio.gather(*(_aplay(line.url, index, 40, SOCKET) for index in range(64)))
        finally:
            breaker.cancel()

    assert asyncio.run(play()) == [_in_process(index, 40) for index in range(64)]
    assert line.opened > 1


def test_a_silent_socket_is_found_out(line: Tcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(channels, "OPEN_SECONDS", 0.3)
    with RemoteEnv("stairs", line.url, settings=SOCKET) as env:
        env.reset(TaskRef("few", 2))
        line.silent = True
        threading.Timer(0.5, lambda: setattr(line, "silent", False)).start()
        began = time.monotonic()
        assert env.step("up").observation.text == "Step 1."
        assert time.monotonic() - began < SOCKET.timeout  # long before the request itself would have been given up
        assert line.opened >= 2


def test_a_server_that_starts_again_costs_no_episode(tmp_path: Any) -> None:
    journal = str(tmp_path / "journal.db")
    settings = ClientSettings(backoff=0.01, retries=1)
    with ExitStack() as stack:
        with background(["household"], journal=journal) as first:
            line = stack.enter_context(tcp(first))
            env = stack.enter_context(RemoteEnv("household", line.url, settings=settings))
            env.reset(TaskRef("dev", 3))
            env.step("look")
        began, again = time.monotonic(), threading.Event()

        def restart() -> None:
            time.sleep(1)
            with background(["household"], journal=journal) as second:
                line.upstream = second.removeprefix("http://")
                again.wait(30)

        server = threading.Thread(target=restart)
        server.start()
        assert env.step("inventory").info["invalid"] is False
        assert time.monotonic() - began > 0.9
        env.finish("truncated")
        assert env.record().count(b'"kind":"turn"') == 2
        env.close()
        again.set()
        server.join()


def test_patience_has_an_end(line: Tcp) -> None:
    settings = ClientSettings(wire="socket", backoff=0.01, retries=1, patience=0.3)
    with RemoteEnv("stairs", line.url, settings=settings) as env:
        env.reset(TaskRef("few", 2))
        line.refusing = True
        line.cut()
        began = time.monotonic()
        with pytest.raises(ServiceError, match="stays away"):
            env.step("up")
        assert time.monotonic() - began < 5
        line.refusing = False
        assert env.step("up").observation.text == "Step 1."


def test_a_full_server_is_waited_for() -> None:
    with serving("stairs", settings=Settings(max_sessions=1)) as url:
        settings = ClientSettings(backoff=0.01, retries=0, max_wait=0.05)
        with RemoteEnv("stairs", url, settings=settings) as one, RemoteEnv("stairs", url, settings=settings) as two:
            one.reset()
            threading.Timer(0.4, one.close).start()
            two.reset(TaskRef("few", 0))
            assert two.step("up").terminated


def test_a_line_can_be_hung_up_while_it_waits(line: Tcp) -> None:
    with RemoteEnv("stairs", line.url, settings=ClientSettings(timeout=60, patience=0, retries=0)) as env:
        env.reset(TaskRef("few", 2))
        line.silent = True
        threading.Timer(0.2, env._line.hang_up).start()
        began = time.monotonic()
        with pytest.raises(ServiceError):
            env.step("up")
        assert time.monotonic() - began < 10
        line.silent = False
        line.cut()


# ---- there is none ---------------------------------------------------------------------------------------------------


def test_http_where_sockets_are_refused(relay: Relay) -> None:
    with RemoteEnv("stairs", relay.url) as env:
        env.reset(TaskRef("few", 0))
        assert env.step("up").terminated
    assert [method for method, _ in relay.requests[:3]] == ["GET", "POST", "POST"]
    with pytest.raises(ServiceError, match=r"is no agentenvs server") as raised:
        RemoteEnv("stairs", relay.url, settings=SOCKET)
    assert "status 426" in raised.value.why


@pytest.mark.parametrize("how", ["unanswered", "cut"])
def test_http_where_handshakes_come_to_nothing(url: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "OPEN_SECONDS", 0.2)

    class Picky(Tcp):
        def _pump(self, source: Any, sink: Any, outward: bool) -> None:
            if outward:
                import socket

                head = source.recv(65_536, socket.MSG_PEEK)
                if b"Upgrade: websocket" in head:
                    if how == "unanswered":
                        time.sleep(1)
                    sink.close()
            super()._pump(source, sink, outward)

    with closing(Picky(url)) as line, RemoteEnv("stairs", line.url) as env:
        env.reset(TaskRef("few", 0))
        assert env.step("up").terminated
        assert any(head.startswith(b"GET /v1/envs") for head in line.heads)


def test_http_where_it_is_asked_for(line: Tcp) -> None:
    with RemoteEnv("stairs", line.url, settings=ClientSettings(wire="http")) as env:
        env.reset(TaskRef("few", 0))
        assert env.step("up").terminated
    assert HANDSHAKE not in line.heads


def test_http_within_the_background_loop(url: str) -> None:
    with RemoteEnv("stairs", url) as env:

        async def play() -> bool:
            env.reset(TaskRef("few", 0))
            return env.step("up").terminated

        assert run_sync(play())


def test_a_socket_where_none_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="a transport carries no socket"):
        RemoteEnv("stairs", transport=in_process(make_app(["stairs"])), settings=SOCKET)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ConfigError, match="a proxy stands between"):
        RemoteEnv("stairs", "http://example.com", settings=SOCKET)


def test_a_wire_that_is_none() -> None:
    with pytest.raises(ConfigError, match="wire 'pigeon' makes no sense"):
        ClientSettings(wire="pigeon")  # type: ignore[arg-type]


# ---- a server of another make ----------------------------------------------------------------------------------------


@pytest.fixture
def strange() -> Iterator[tuple[str, list[Any]]]:
    """A server that answers each request with the next frames of a list; ID in them is the request's."""
    frames: list[Any] = []

    def handle(socket: Any) -> None:
        for message in socket:
            number = json.loads(message)["id"]
            for frame in frames.pop(0):
                socket.send(frame.replace("ID", str(number)) if isinstance(frame, str) else frame)

    with serve(handle, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", frames
        server.shutdown()


ASK = Call("GET", "/v1/envs", op="envs")


def _ask(url: str, **more: Any) -> Any:
    settings = ClientSettings(**{"wire": "socket", "retries": 0, "patience": 0, "timeout": 2, **more})
    with closing(_Closing(Line(Endpoint(url), settings))) as made:

        def dialogue() -> Any:
            return (yield ASK)

        return made.line.carry(dialogue())


class _Closing:
    def __init__(self, line: Line) -> None:
        self.line = line

    def close(self) -> None:
        self.line.hang_up()


@pytest.mark.parametrize(
    "reply",
    [
        '{"id":ID,"status":200,"body":{"n":36893488147419103232}}',
        ' { "status" : 200 , "body" : {"n": 36893488147419103232}, "more": 1, "id" : ID }',
        '{"id": ID, "body":{"n":36893488147419103232}, "status":200}',
    ],
)
def test_any_spelling_of_a_reply_is_read(strange: Any, reply: str) -> None:
    url, frames = strange
    frames.append([reply])
    assert _ask(url).form == {"n": 2**65}


def test_what_is_to_nobody_is_dropped(strange: Any) -> None:
    url, frames = strange
    junk = ['{"id":999,"status":200,"body":1}', '{"id":null,"status":422,"problem":{}}', "[]", "", "{", b"\x00", "3"]
    frames.append([*junk, '{"id":ID,"status":200,"body":1}', '{"id":ID,"status":200,"body":2}'])
    assert _ask(url).form == 1


@pytest.mark.parametrize(
    "reply",
    [
        '{"id":ID}',
        '{"id":ID,"status":200}',
        '{"id":ID,"status":true,"body":1}',
        '{"id":ID,"status":"200","body":1}',
        '{"id":ID,"status":99,"body":1}',
        '{"id":ID,"status":409,"body":1}',
        '{"id":ID,"status":200,"body":',
        '{"id":ID,"status":503,"problem":{},"retry_after":"soon"}',
        '{"id":ID,"status":200,"body":' + "[" * 100_000,
    ],
)
def test_a_reply_that_makes_no_sense_is_none(strange: Any, reply: str) -> None:
    url, frames = strange
    frames.append([reply])
    with pytest.raises(ServiceError, match="stays away") as raised:
        _ask(url)
    assert "a reply on the socket makes no sense" in raised.value.why


def test_a_server_that_never_answers_is_given_up(strange: Any) -> None:
    url, frames = strange
    frames.append([])
    with pytest.raises(ServiceError, match="stays away") as raised:
        _ask(url, timeout=0.2)
    assert "ReadTimeout" in raised.value.why
