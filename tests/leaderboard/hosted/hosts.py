"""A host and its contestants as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

SECRET = "00112233445566778899aabbccddeeff" * 2
AGENT = f"exec:{sys.executable} {Path(__file__).parent / 'programs' / 'contestant.py'}"
COMMAND = [sys.executable, "-m", "agentenvs.cli", "leaderboard"]


def until(done: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Return what is true at last."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := done():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to that in time")


class Host:
    """A host of two shared scenarios and one of each ticket's own, six turns each."""

    def __init__(self, folder: Path) -> None:
        self.at = folder
        self.folder = folder / "host"
        self.port = "0"
        self.board = folder / "board"
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.log = folder / "host.log"
        folder.mkdir(parents=True, exist_ok=True)

    def surroundings(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENVS_")}
        return {**kept, "HOME": str(self.at), **more}

    def start(self) -> None:
        address = self.at / "url"
        address.unlink(missing_ok=True)
        command = [*COMMAND, "host", "household", "--folder", str(self.folder), "--board", "spring", "--episodes", "2"]
        command += ["--own", "1", "--port", self.port, "--url-file", str(address), "-o", "limit=6"]
        command += ["--store", str(self.board)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self.surroundings(AGENTENVS_SEALED_SECRET=SECRET), stdout=log, stderr=log
            )
        until(address.exists)
        self.url = address.read_text().strip()
        self.port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def operator(self, *words: str) -> str:
        """Return what a verb of the operator's prints."""
        surroundings = self.surroundings(AGENTENVS_SEALED_SECRET=SECRET)
        done = subprocess.run([*COMMAND, *words], env=surroundings, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ticket(self, contestant: str, *more: str) -> str:
        return self.operator("ticket", str(self.folder), contestant, *more).strip()

    def tickets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.operator("tickets", str(self.folder), "--json"))
        return found

    def opened(self) -> int:
        """Return how many scenarios its tickets have opened."""
        with closing(sqlite3.connect(f"file:{self.folder / 'journal.db'}?mode=ro", uri=True)) as raw:
            return int(raw.execute("SELECT sum(opened) FROM tickets").fetchone()[0])

    def is_settled(self) -> bool:
        """Return whether nothing more can come of its tickets."""
        with closing(sqlite3.connect(f"file:{self.folder / 'journal.db'}?mode=ro", uri=True)) as raw:
            return bool(raw.execute("SELECT count(*) = 0 FROM tickets WHERE settled IS NULL").fetchone()[0])

    def result(self, ticket: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "runs" / ticket / "result.json").read_text())
        return found


class Contestant:
    """Somebody who holds a ticket, and nothing else."""

    def __init__(self, host: Host, ticket: str, out: Path, policy: str = AGENT) -> None:
        command = [*COMMAND, "play", "--url", host.url, "--policy", policy, "--out", str(out), "--json"]
        self.out = out
        self.process = subprocess.Popen(
            command,
            env=host.surroundings(AGENTENVS_TICKET=ticket),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
