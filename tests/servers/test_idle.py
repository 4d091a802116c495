"""What an idle session costs a server: little memory besides its world, no thread, no socket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.faults.processes import ROOT, Server

SESSIONS = 10_000
GROUP = 250
WARM = 500
"""Sessions before the first look, which pay for what is shared."""
MOST_KIB = 30

WORLDS_ALONE = """
import gc, sys
from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from tests.servers.test_idle import kib_of

def play(first, last):
    made = []
    for seed in range(first, last):
        env = registry.make("household")
        env.reset(TaskRef("train", seed))
        for action in ("look", "inventory", "look"):
            env.step(action)
        made.append(env)
    return made

warm, most = map(int, sys.argv[1:])
kept = play(0, warm)
gc.collect()
before = kib_of("self")
more = play(warm, most)
print((kib_of("self") - before) / len(more))
"""


def kib_of(pid: object) -> int:
    """Return the memory of a process that is its own, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}
    return found["Private_Clean"] + found["Private_Dirty"]


def descriptors(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    return [str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink()]


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def begin(client: httpx.Client, first: int, last: int) -> list[dict[str, str]]:
    """Begin sessions and play three turns of each."""
    made = []
    for start in range(first, last, GROUP):
        tasks = [{"split": "train", "seed": seed} for seed in range(start, min(start + GROUP, last))]
        answer = client.post("/v1/sessions", json={"env": "household", "key": f"group-{start}", "tasks": tasks})
        assert answer.status_code == 201, answer.text
        sessions = answer.json()["sessions"]
        for turn, action in enumerate(("look", "inventory", "look"), 1):
            items = [
                {"session": form["session"], "episode": form["episode"], "turn": turn, "action": action}
                for form in sessions
            ]
            played = client.post("/v1/steps", json={"items": items}).json()["items"]
            assert {item["status"] for item in played} == {200}
        made += sessions
    return made


def own_kib(count: int) -> float:
    """Return what a world takes alone, measured in the same way."""
    done = subprocess.run(
        [sys.executable, "-c", WORLDS_ALONE, str(WARM), str(count)],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(str(ROOT / room) for room in ("", "servers", "scenarios", "scoring"))},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc with the memory of processes")
@pytest.mark.parametrize("kept", [True, False], ids=["journal", "memory"])
def test_ten_thousand_idle_sessions(tmp_path, kept, record_property):
    most = f"{2 * SESSIONS}"
    more = ("--max-sessions", most, "--max-live", most, "--creates-burst", most, "--ttl", "7200")
    journal = str(tmp_path / "journal.db") if kept else "none"
    server = Server(journal, tmp_path / "log", ("household",), more)
    server.start()
    try:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            sessions = begin(client, 0, WARM)
            before = kib_of(server.pid), threads(server.pid), len(descriptors(server.pid))
            sessions += begin(client, WARM, SESSIONS)
            after = kib_of(server.pid), threads(server.pid), len(descriptors(server.pid))
            for form in sessions[:: SESSIONS // 20]:
                assert client.get(f"/v1/sessions/{form['session']}").json()["turn"] == 3
        each = (after[0] - before[0]) / (SESSIONS - WARM)
        own = own_kib(SESSIONS)
        record_property("KiB a session, and of its world", f"{each:.1f}, {own:.1f}")
        assert each - own <= MOST_KIB
        assert after[1:] == before[1:]
    finally:
        server.close()
