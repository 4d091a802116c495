"""Real servers that are told to stop, to look at their tokens, and to tell what all of their workers count."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.servers.wire import key, problem

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60

ONE, TWO = "one-token-of-many-characters", "two-token-of-many-characters"


class Served:
    """A server in a process of its own."""

    def __init__(self, folder, *more):
        self.log = folder / "log"
        file = folder / "url"
        file.unlink(missing_ok=True)
        roots = os.pathsep.join(str(ROOT / room) for room in ("", "servers", "scenarios", "scoring"))
        command = [sys.executable, "-m", "agentenvs.cli", "serve", "household", "--port", "0", "--url-file", str(file)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *more], cwd=folder, env={**os.environ, "PYTHONPATH": roots}, stderr=log, stdout=log
            )
        end = time.monotonic() + PATIENCE
        while not file.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        self.url = file.read_text().strip()
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def make(self, token=None, **more):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self.http.post("/v1/sessions", json={"env": "household", "key": key(), **more}, headers=headers)

    def step(self, form, turn):
        body = {"episode": form["episode"], "turn": turn, "action": "look"}
        return self.http.post(f"/v1/sessions/{form['session']}/step", json=body)

    def tell(self, number):
        self.process.send_signal(number)

    def eventually(self, check):
        end = time.monotonic() + PATIENCE
        while not check():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)


@pytest.fixture
def served(tmp_path):
    made = []

    def start(*more):
        made.append(Served(tmp_path, *more))
        return made[-1]

    yield start
    for server in made:
        server.http.close()
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_told_to_stop_drains_first(served, workers):
    server = served("--drain-seconds", "3", "--journal", "j.db", "--workers", str(workers))
    form = server.make().json()
    assert server.http.get("/ready").status_code == 200
    told = time.monotonic()
    server.tell(signal.SIGTERM)
    server.eventually(lambda: server.http.get("/ready").status_code == 503)
    problem(server.make(), "draining")
    turn = 1
    while time.monotonic() - told < 2:
        assert server.step(form, turn).status_code == 200
        turn += 1
        time.sleep(0.1)
    assert server.process.wait(PATIENCE) in (0, -signal.SIGTERM)
    assert time.monotonic() - told > 2.9
    again = served("--journal", "j.db")
    assert again.step(form, turn).json()["turn"] == turn


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_it_now(served, workers, second):
    server = served("--drain-seconds", "600", "--journal", "j.db", "--workers", str(workers))
    form = server.make().json()
    assert server.step(form, 1).status_code == 200
    server.tell(signal.SIGTERM)
    server.eventually(lambda: server.http.get("/ready").status_code == 503)
    server.tell(second)
    server.process.wait(PATIENCE)
    assert served("--journal", "j.db").step(form, 2).json()["turn"] == 2


def test_an_interrupt_does_not_drain(served):
    server = served("--drain-seconds", "600")
    server.tell(signal.SIGINT)
    server.process.wait(PATIENCE)


@pytest.mark.parametrize("workers", [1, 2])
def test_tokens_are_changed_without_a_restart(served, tmp_path, workers):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"lab: {ONE}\n")
    server = served("--token-file", "tokens", "--journal", "j.db", "--workers", str(workers))
    assert server.make(ONE).status_code == 201
    stamp = tokens.stat()
    tokens.write_text(f"lab: {TWO}\n")
    os.utime(tokens, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    server.tell(signal.SIGHUP)

    def answers(token):  # of several workers, each over a connection of its own
        asked = [httpx.get(f"{server.url}/v1/envs", headers={"authorization": f"Bearer {token}"}) for _ in range(8)]
        return {answer.status_code for answer in asked}

    server.eventually(lambda: answers(TWO) == {200})
    assert answers(ONE) == {401}
    assert server.process.poll() is None
    assert ONE not in server.log.read_text()


def test_whichever_worker_is_asked_all_are_told_of(served):
    server = served("--journal", "j.db", "--workers", "2")
    for _ in range(8):
        with httpx.Client(base_url=server.url) as http:
            http.post("/v1/sessions", json={"env": "household", "key": key()}).raise_for_status()

    def told():
        text = httpx.get(f"{server.url}/metrics").text
        made = re.findall(r'agentenvs_sessions_made_total\{.*worker="(\d)"\} (\d+)', text)
        assert re.search(r"agentenvs_journal_sessions\{[^}]*\} 8\n", text) or "journal_sessions" not in text
        return sum(int(count) for _, count in made), set(re.findall(r'process_threads\{worker="(\d)"\}', text))

    server.eventually(lambda: told() == (8, {"0", "1"}))


def test_the_log_is_of_lines_of_json(served, monkeypatch):
    server = served("--log-format", "json", "--access-log")
    form = server.make().json()
    server.step(form, 1)
    server.tell(signal.SIGINT)
    server.process.wait(PATIENCE)
    text = server.log.read_text()
    assert '"route":"POST /v1/sessions/{session}/step","status":200' in text
    assert '"message":"serving household at http://127.0.0.1:' in text
    assert form["session"] not in text
    assert {line[0] for line in text.splitlines()} == {"{"}


def test_a_server_is_set_up_by_a_file(served, tmp_path):
    (tmp_path / "server.toml").write_text('max_group = 2\njournal = "none"\n[options]\nlimit = 7\n')
    server = served("--config", "server.toml", "--max-sessions", "3")
    assert server.http.get("/v1/envs/household").json()["options"]["limit"] == 7
    problem(server.make(count=3), "invalid_request")
    assert server.make(count=2).status_code == 201
    problem(server.make(count=2), "at_capacity")
