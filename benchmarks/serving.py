"""What serving costs: CPU time of the server a step, by door and by durability, over what the step costs in process.

The server is a process of its own; its CPU time is read from the system, all its workers together, so that what the
clients cost does not count. The clients are as cheap as can be: raw sockets in a closed loop, one session each, playing
walks that were recorded before. Beside it run echo servers that do no work and keep nothing.

    python benchmarks/serving.py                   # doors, durabilities, echoes, recovery
    python benchmarks/serving.py --workers         # 1, 2, 4, 8 workers, sessions kept together or not
    python benchmarks/serving.py --postgres        # steps into one PostgreSQL: of a cluster made for it, or of a URL
    python benchmarks/serving.py --recovery        # recovery alone

OpenEnv's own server, with an environment that echoes, stands beside them where AGENTENVS_PEER_PYTHON names a Python in
which ``openenv`` is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import agentenvs
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef

SESSIONS = 64
TURNS = 300
TICK = os.sysconf("SC_CLK_TCK")

OPENENV_DOORS = {"openenv": "OpenEnv's server, an echo, WebSocket", "openenv-http": "OpenEnv's server, an echo, HTTP"}
PEER = "AGENTENVS_PEER_PYTHON"
OWN = "own"

ECHOES = {
    "bare FastAPI echo, HTTP": """
from fastapi import FastAPI
from pydantic import BaseModel
class Step(BaseModel):
    session: str
    turn: int
    action: str
app = FastAPI()
@app.post("/step")
async def step(body: Step):
    return {"turn": body.turn, "observation": body.action, "reward": 0.0, "terminated": False, "truncated": False}
""",
    "raw ASGI echo, HTTP": """
import orjson
async def app(scope, receive, send):
    if scope["type"] != "http" or scope["method"] != "POST":
        raise NotImplementedError
    body = orjson.loads((await receive())["body"])
    data = orjson.dumps({"turn": body["turn"], "observation": body["action"], "reward": 0.0})
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": data})
""",
}


OPENENV = """
from openenv.core.env_server import Environment, create_fastapi_app
from openenv.core.env_server.types import Action, Observation, State
class Say(Action):
    message: str
class Seen(Observation):
    echoed_message: str = ""
class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__()
        self._state = State(episode_id="echo", step_count=0)
    def reset(self, seed=None, episode_id=None, **more):
        return Seen(echoed_message="ready", done=False, reward=0.0)
    def step(self, action, **more):
        self._state.step_count += 1
        return Seen(echoed_message=action.message, done=False, reward=0.0)
    @property
    def state(self):
        return self._state
app = create_fastapi_app(Echo, Say, Seen, max_concurrent_envs=1000)
"""
"""The sample environment of its documentation."""


class Row(NamedTuple):
    """One line of the table."""

    name: str
    cpu: float
    """Server CPU microseconds a step."""
    rate: float
    """Steps a second of wall clock."""
    p99: float
    """Milliseconds of the slowest hundredth of the requests."""


class Server(NamedTuple):
    """A running server."""

    process: subprocess.Popen[bytes]
    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"


def walks() -> list[list[str]]:
    """Return a walk for each session: uniform over the legal commands."""
    return [_walk(number) for number in range(SESSIONS)]


def _walk(number: int) -> list[str]:
    env = agentenvs.make("household", admissible=True, limit=0)
    stream = Stream(scenario_key("household", "benchmark", number), "walk")
    observation = env.reset(TaskRef("dev", number))
    actions: list[str] = []
    while len(actions) < TURNS:
        actions.append(stream.choice(observation.admissible or ("look",)))
        result = env.fork().step(actions[-1])
        if result.terminated:  # a walk that happens to win would end the session
            actions[-1] = "look"
        observation = env.step(actions[-1]).observation
    return actions


def in_process(played: list[list[str]]) -> float:
    """Return CPU microseconds a step in this process."""
    best = float("inf")
    for _ in range(3):
        spent = 0.0
        for number, actions in enumerate(played):
            env = agentenvs.make("household", limit=0)
            env.reset(TaskRef("dev", number))
            began = time.process_time()
            for action in actions:
                env.step(action)
            spent += time.process_time() - began
        best = min(best, spent / (len(played) * TURNS) * 1e6)
    return best


# ---- servers ---------------------------------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, journal: str, workers: int = 1) -> Iterator[Server]:
    """Serve the household."""
    file = folder / "url"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "agentenvs.cli", "serve", "household", "--port", "0", "--url-file", str(file)]
    more = ["--journal", journal, "--workers", str(workers), "-o", "limit=0", "--quiet"]
    process = subprocess.Popen([*command, *more])
    try:
        while not file.exists():
            if process.poll() is not None:
                raise SystemExit("the server did not come up")
            time.sleep(0.05)
        host, _, port = file.read_text().strip().removeprefix("http://").partition(":")
        yield Server(process, host, int(port))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def echoing(folder: Path, code: str, port: int, python: str = sys.executable) -> Iterator[Server]:
    """Serve an echo."""
    (folder / "echo.py").write_text(code)
    command = [python, "-m", "uvicorn", "echo:app", "--port", str(port), "--log-level", "critical"]
    process = subprocess.Popen([*command, "--no-access-log"], cwd=folder)
    try:
        for _ in range(1200):  # OpenEnv takes long to come up
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing", timeout=1).close()
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.05)
                continue
            break
        yield Server(process, "127.0.0.1", port)
    finally:
        process.terminate()
        process.wait()


def cpu_of(pid: int) -> float:
    """Return CPU seconds of a process and its children."""
    spent, children = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent[int(folder.name)] = (int(fields[11]) + int(fields[12])) / TICK
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        total += spent.get(one, 0.0)
        todo += children.get(one, [])
    return total


# ---- clients ---------------------------------------------------------------------------------------------------------


async def _ask(server: Server, path: str, body: object) -> dict:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(_post(path, json.dumps(body).encode()))
    data = await _answer(reader)
    writer.close()
    return json.loads(data)


def _post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    body = await reader.readexactly(size)
    if b" 200 " not in head[:20] and b" 201 " not in head[:20]:
        raise SystemExit(f"refused: {body[:300]!r}")
    return body


async def _sessions(server: Server, durability: str | None) -> list[dict]:
    made = []
    for number in range(SESSIONS):
        body = {"env": "household", "key": f"{time.time_ns()}-{number}", "task": {"split": "dev", "index": number}}
        made.append(
            await _ask(server, "/v1/sessions", body if durability is None else {**body, "durability": durability})
        )
    return made


def _frame(data: bytes) -> bytes:
    size = len(data)
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    return head + b"\0\0\0\0" + data  # a mask of zeros leaves the data as it is


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    while True:
        first, second = await reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(await reader.readexactly(2), "big")
        elif size == 127:
            size = int.from_bytes(await reader.readexactly(8), "big")
        data = await reader.readexactly(size)
        if first & 0x0F == 1:
            return data


async def over_http(server: Server, session: dict, actions: list[str], times: list[float]) -> None:
    """Play a walk over one connection."""
    await _walked(session, actions, times, [await _Shared.opened(server)], 0)


async def over_any(server: Server, sessions: list[dict], played: list[list[str]], times: list[float]) -> None:
    """Play all walks, each turn over another of the connections: wherever they lead, it is mostly another worker."""
    lines = [await _Shared.opened(server) for _ in sessions]
    walks = enumerate(zip(sessions, played, strict=True))
    await asyncio.gather(*(_walked(one, actions, times, lines, at) for at, (one, actions) in walks))


async def _walked(session: dict, actions: list[str], times: list[float], lines: list[_Shared], at: int) -> None:
    path = f"/v1/sessions/{session['session']}/step"
    for turn, action in enumerate(actions, start=1):
        body = json.dumps({"episode": session["episode"], "turn": turn, "action": action}).encode()
        began = time.perf_counter()
        await lines[(at + turn) % len(lines)].ask(_post(path, body))
        times.append(time.perf_counter() - began)


class _Shared:
    """A connection with one request on it at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._free = asyncio.Lock()

    @classmethod
    async def opened(cls, server: Server) -> _Shared:
        return cls(*await asyncio.open_connection(server.host, server.port))

    async def ask(self, request: bytes) -> None:
        async with self._free:
            self._writer.write(request)
            await _answer(self._reader)


async def _socket(server: Server, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a line that has become a socket."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\n{upgrade}\r\n\r\n".encode())
    if b" 101 " not in await reader.readuntil(b"\r\n\r\n"):
        raise SystemExit(f"no socket at {path}")
    return reader, writer


async def over_socket(server: Server, session: dict, actions: list[str], times: list[float]) -> None:
    """Play a walk over a socket."""
    reader, writer = await _socket(server, "/v1/ws")
    for turn, action in enumerate(actions, start=1):
        ask = {"id": turn, "op": "step", "session": session["session"], "episode": session["episode"], "turn": turn}
        data = json.dumps({**ask, "action": action}).encode()
        began = time.perf_counter()
        writer.write(_frame(data))
        if b'"status":200' not in (await _read_frame(reader))[:60]:
            raise SystemExit("refused over the socket")
        times.append(time.perf_counter() - began)
    writer.close()


async def over_openenv(server: Server, times: list[float]) -> None:
    """Echo over a socket of OpenEnv's."""
    reader, writer = await _socket(server, "/ws")
    for turn in range(TURNS + 1):
        kind, data = ("step", {"message": "go to drawer 1"}) if turn else ("reset", {})
        began = time.perf_counter()
        writer.write(_frame(json.dumps({"type": kind, "data": data}).encode()))
        if b'"type":"observation"' not in (await _read_frame(reader)).replace(b" ", b""):
            raise SystemExit("refused by OpenEnv")
        if turn:
            times.append(time.perf_counter() - began)
    writer.close()


async def in_batches(server: Server, sessions: list[dict], played: list[list[str]], times: list[float]) -> None:
    """Play all walks, one request a turn."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    for turn in range(1, TURNS + 1):
        items = [
            {"session": one["session"], "episode": one["episode"], "turn": turn, "action": actions[turn - 1]}
            for one, actions in zip(sessions, played, strict=True)
        ]
        body = json.dumps({"items": items}).encode()
        began = time.perf_counter()
        writer.write(_post("/v1/steps", body))
        if b'"status":4' in await _answer(reader):
            raise SystemExit("refused in a batch")
        times.append(time.perf_counter() - began)
    writer.close()


async def echoed(server: Server, times: list[float], *, openenv: bool = False) -> None:
    """Ask an echo over one connection."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    for turn in range(TURNS):
        plain = {"session": "x" * 54, "turn": turn, "action": "go to drawer 1"}
        body = json.dumps({"action": {"message": "go to drawer 1"}} if openenv else plain).encode()
        began = time.perf_counter()
        writer.write(_post("/step", body))
        await _answer(reader)
        times.append(time.perf_counter() - began)
    writer.close()


# ---- measurements ----------------------------------------------------------------------------------------------------


async def measure(name: str, server: Server, door: str, played: list[list[str]], durability: str | None = None) -> Row:
    """Return what a door costs."""
    times: list[float] = []
    sessions = [] if door in ("echo", *OPENENV_DOORS) else await _sessions(server, durability)
    pairs = list(zip(sessions, played, strict=True)) if sessions else []
    before, began = cpu_of(server.process.pid), time.perf_counter()
    if door == "batch":
        await in_batches(server, sessions, played, times)
    elif door == "echo":
        await asyncio.gather(*(echoed(server, times) for _ in range(SESSIONS)))
    elif door == "openenv":
        await asyncio.gather(*(over_openenv(server, times) for _ in range(SESSIONS)))
    elif door == "openenv-http":
        await asyncio.gather(*(echoed(server, times, openenv=True) for _ in range(SESSIONS)))
    elif door == "socket":
        await asyncio.gather(*(over_socket(server, one, actions, times) for one, actions in pairs))
    elif door == "any":
        await over_any(server, sessions, played, times)
    else:
        await asyncio.gather(*(over_http(server, one, actions, times) for one, actions in pairs))
    wall, spent = time.perf_counter() - began, cpu_of(server.process.pid) - before
    steps = SESSIONS * TURNS
    slow = statistics.quantiles(times, n=100)[98] * 1e3
    return Row(name, spent / steps * 1e6, steps / wall, slow)


def show(row: Row, base: float) -> None:
    """Print a line."""
    print(f"{row.name:46} {row.cpu:8.1f} {row.cpu - base:8.1f} {row.rate:9,.0f} {row.p99:8.1f}", flush=True)


def doors(played: list[list[str]], base: float, rounds: int) -> None:
    """Print the doors, the durabilities, the echoes and the size of a step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = folder / "journal.db"
        with serving(folder, str(journal)) as server:
            for door, title in (("http", "HTTP"), ("socket", "WebSocket"), ("batch", "batches of 64")):
                rows = [asyncio.run(measure(f"{title}, group", server, door, played, "group")) for _ in range(rounds)]
                show(min(rows, key=lambda row: row.cpu), base)
            for durability in ("memory", "strict"):
                for door, title in (("http", "HTTP"), ("batch", "batches of 64")):
                    show(asyncio.run(measure(f"{title}, {durability}", server, door, played, durability)), base)
        kept = rounds * 3 * SESSIONS * TURNS + 2 * SESSIONS * TURNS
        print(f"journal: {journal.stat().st_size / kept:.0f} bytes a step")
        for number, (title, code) in enumerate(ECHOES.items()):
            with echoing(folder, code, 18_700 + number) as server:
                show(asyncio.run(measure(title, server, "echo", played)), 0.0)


def peers(played: list[list[str]]) -> None:
    """Print what OpenEnv's own server takes for an echo."""
    python = os.environ.get(PEER)
    if not python:
        print(f"OpenEnv's server: not measured, {PEER} names no Python with openenv in it")
        return
    with tempfile.TemporaryDirectory() as name, echoing(Path(name), OPENENV, 18_710, python) as server:
        for door, title in OPENENV_DOORS.items():
            show(asyncio.run(measure(title, server, door, played)), 0.0)


def recovery() -> None:
    """Print how long a session takes to be made again after its server was killed."""
    for turns in (50, 3_000):
        with tempfile.TemporaryDirectory() as name:
            folder, journal = Path(name), str(Path(name) / "journal.db")
            with serving(folder, journal) as server:
                session = asyncio.run(
                    _ask(server, "/v1/sessions", {"env": "household", "key": "k", "task": {"split": "dev", "index": 1}})
                )
                asyncio.run(over_http(server, session, ["look", "inventory"] * (turns // 2), []))
                server.process.kill()
            with serving(folder, journal) as server:
                began = time.perf_counter()
                url = f"{server.url}/v1/sessions/{session['session']}"
                with urllib.request.urlopen(url) as answer:  # noqa: S310 - an address of our own
                    found = json.load(answer)["turn"]
                spent = (time.perf_counter() - began) * 1e3
            print(f"recovery at {turns} turns: {spent:.0f} ms (turn {found})", flush=True)


def crews(played: list[list[str]], base: float, url: str | None) -> None:
    """Print what several workers do: each session on the connection, and so the worker, that it began on, or on any."""
    for count in (1, 2, 4, 8):
        with tempfile.TemporaryDirectory() as name:
            journal = url or str(Path(name) / "journal.db")
            with serving(Path(name), journal, count) as server:
                for door, how in (("http", "with affinity"), ("any", "without affinity")):
                    show(asyncio.run(measure(f"{count} workers, {how}", server, door, played)), base)


@contextmanager
def database(asked: str | None) -> Iterator[str | None]:
    """Give the address of a database: the one that was asked for, or one of a cluster that is made for it."""
    if asked != OWN:
        yield asked
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.postgres import Cluster

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        cluster = Cluster(Path(name) / "c")
        cluster.start()
        try:
            yield cluster.url()
        finally:
            cluster.stop("immediate")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", action="store_true", help="1, 2, 4, 8 workers")
    parser.add_argument("--postgres", metavar="URL", nargs="?", const=OWN, help="a database to play into")
    parser.add_argument("--recovery", action="store_true", help="recovery alone")
    parser.add_argument("--peers", action="store_true", help="OpenEnv's server alone")
    parser.add_argument("--rounds", type=int, default=3, help="of the main rows; the best counts")
    asked = parser.parse_args()
    if asked.recovery:
        recovery()
        return
    played = walks()
    base = in_process(played)
    print(f"in process: {base:.1f} µs a step; {SESSIONS} sessions, {TURNS} turns each")
    print(f"{'':46} {'CPU µs':>8} {'over it':>8} {'steps/s':>9} {'p99 ms':>8}")
    with database(asked.postgres) as url:
        if asked.peers:
            peers(played)
        elif asked.workers:
            crews(played, base, url)
        elif url is not None:
            with tempfile.TemporaryDirectory() as name, serving(Path(name), url) as server:
                for door in ("http", "socket", "batch"):
                    show(asyncio.run(measure(f"{door}, group, PostgreSQL", server, door, played)), base)
        else:
            doors(played, base, asked.rounds)
            peers(played)
            recovery()


if __name__ == "__main__":
    main()
