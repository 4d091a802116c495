"""Nobody takes the server from the others: not by connections, not by reading slowly, not by steps without end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from uvicorn.server import ServerState
from websockets.sync.client import connect

from agentenvs_servers import connection, run
from agentenvs_servers.settings import Settings
from tests.envs.fixtures import register_fixtures
from tests.servers import rooms
from tests.servers.wire import key, problem

PATIENCE = 20


@contextmanager
def serving(*envs, **settings):
    rooms.register()
    register_fixtures()
    with run.background(envs or ("room",), Settings(**settings)) as url:
        yield url


def line_to(url, *, buffer=None):
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    if buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.settimeout(PATIENCE)
    made.connect((host, int(port)))
    return made


def all_of(line):
    parts = []
    try:
        while part := line.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def count(url, name):
    text = httpx.get(f"{url}/metrics").text
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])


def eventually(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- connections -----------------------------------------------------------------------------------------------------


def test_connections_beyond_the_most_are_told_so_and_closed(monkeypatch):
    monkeypatch.setattr(connection, "SUPERFLUOUS_SECONDS", 0.3)
    with serving(max_connections=3) as url, ExitStack() as held:
        lines = [held.enter_context(line_to(url)) for _ in range(3)]
        for line in lines:
            line.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        refused = httpx.get(f"{url}/health")
        problem(refused, "too_many_connections")
        assert refused.headers["retry-after"] == "1"
        with line_to(url) as silent:
            assert all_of(silent) == b""
        with line_to(url) as half:
            half.sendall(b"GET /hea")
            assert b"too_many_connections" in all_of(half)
        lines[0].sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert lines[0].recv(4096).startswith(b"HTTP/1.1 200")
        lines[0].close()
        eventually(lambda: httpx.get(f"{url}/health").status_code == 200)


def test_sockets_count_as_connections():
    with serving(max_connections=2) as url:
        place = url.replace("http", "ws") + "/v1/ws"
        with connect(place), connect(place):
            problem(httpx.get(f"{url}/health"), "too_many_connections")
        eventually(lambda: httpx.get(f"{url}/health").status_code == 200)
        eventually(lambda: count(url, "agentenvs_sockets") == 0)


# ---- slow readers ----------------------------------------------------------------------------------------------------

ASK = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"


def test_a_client_that_reads_nothing_is_cut_off_and_holds_nobody_up():
    with serving(write_seconds=0.4) as url:
        with line_to(url, buffer=4096) as line:
            line.settimeout(0.3)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                try:
                    line.sendall(ASK * 100)
                except TimeoutError:
                    assert httpx.get(f"{url}/health").status_code == 200
                except OSError:
                    break
            else:
                pytest.fail("it is still served")
        eventually(lambda: count(url, "agentenvs_connections") <= 1)


def test_a_client_that_reads_slowly_is_waited_for():
    with serving(write_seconds=1.0) as url, line_to(url, buffer=65_536) as line:
        size = len(httpx.get(f"{url}/openapi.json").content)
        many = max(3_000_000 // size, 2)
        line.sendall(ASK * many + b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        got = b""
        began = time.monotonic()
        while part := line.recv(262_144):
            got += part
            if time.monotonic() - began < 3:
                time.sleep(0.15)
        assert got.count(b"HTTP/1.1 200") == many + 1
        assert got.endswith(b'{"status":"healthy"}')


class Transport:
    """A transport whose client reads as a test says: how many bytes are left, each time that is looked at."""

    def __init__(self, left):
        self.left = left
        self.done = []

    def get_write_buffer_size(self):
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def is_closing(self):
        return bool(self.done)

    def close(self):
        self.done.append("closed")

    def abort(self):
        self.done.append("cut off")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("left", "ends"),
    [([0], ["closed"]), ([9], ["closed", "cut off"]), ([9, 8, 7, 7], ["closed", "cut off"]), ([9, 5, 0], ["closed"])],
)
async def test_a_connection_that_is_closed_is_given_up_where_nobody_reads_the_rest(left, ends):
    config = connection.Config(None, Settings(write_seconds=0.01))
    made = connection.Connection(config, ServerState(), {}, asyncio.get_running_loop())
    made.transport = Transport(left)
    made.timeout_keep_alive_handler()
    await asyncio.sleep(0.2)
    assert made.transport.done == ends


# ---- steps without end -----------------------------------------------------------------------------------------------


def test_a_step_that_never_ends_is_cut_off_and_undone_while_others_play():
    with serving("slow_tool", "room") as url, httpx.Client(base_url=url, timeout=60) as http:

        def make(env, **more):
            return http.post("/v1/sessions", json={"env": env, "key": key(), **more}).raise_for_status().json()

        def step(form, turn, action):
            body = {"episode": form["episode"], "turn": turn, "action": action}
            return http.post(f"/v1/sessions/{form['session']}/step", json=body).raise_for_status().json()

        stuck = [make("slow_tool", task={"split": "train", "seed": seed}) for seed in range(3)]
        quick = make("room", options={"limit": 0})
        step(stuck[0], 1, {"tool": "add", "arguments": {"count": 1}})
        turns = {id(form): 2 if form is stuck[0] else 1 for form in stuck}
        nap = {"tool": "nap", "arguments": {"milliseconds": 600_000}}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            naps = [pool.submit(step, form, turns[id(form)], nap) for form in stuck]
            turn = 0
            while not all(one.done() for one in naps):
                turn += 1
                assert step(quick, turn, "look")["turn"] == turn
        assert turn > 20
        for one in naps:
            assert "undone" in json.dumps(one.result())
        after = step(stuck[0], 3, {"tool": "add", "arguments": {"count": 1}})
        assert "Counted to 2." in json.dumps(after)


# ---- floods ----------------------------------------------------------------------------------------------------------


def test_a_flood_of_creates_is_slowed_down_and_steps_go_on():
    with serving(creates_per_second=5, creates_burst=10, max_sessions=4096) as url:
        with httpx.Client(base_url=url) as http:
            form = http.post("/v1/sessions", json={"env": "room", "key": "first", "options": {"limit": 0}}).json()

            def flood(_):
                with httpx.Client(base_url=url) as mine:
                    return [
                        mine.post("/v1/sessions", json={"env": "room", "key": key()}).status_code for _ in range(50)
                    ]

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                began = time.monotonic()
                floods = pool.map(flood, range(4))
                for turn in range(1, 50):
                    body = {"episode": form["episode"], "turn": turn, "action": "look"}
                    assert http.post(f"/v1/sessions/{form['session']}/step", json=body).status_code == 200
                statuses = [status for one in floods for status in one]
                took = time.monotonic() - began
        assert set(statuses) == {201, 429}
        assert statuses.count(201) <= 10 + 5 * took + 1
