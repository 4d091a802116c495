"""Players that are programs: ``exec:COMMAND``, one process an episode, which plays over the wire with an agent key.

The program is told where and what to play by its environment, and may do nothing but play: the control token, and
whatever else of ours is secret, is taken out of what it inherits. It is ended with all its children: a
:mod:`~agentenvs.harness.guardian` runs it and ends them. Should a program end its guardian, those children are still
ended that kept the environment they were given.

=====================  ================================================================
``AGENTENVS_URL``      where the server is
``AGENTENVS_MCP_URL``  the episode's tools as MCP, where the server has that door open
``AGENTENVS_AGENT_KEY``  what to send as ``Authorization: Bearer`` to ``/v1/agent``
``AGENTENVS_TASK``     the task as JSON: env, ref, options, instruction
``AGENTENVS_SECONDS``  wall-clock budget of the episode
``AGENTENVS_TURNS``    turn budget; empty where the environment sets none
=====================  ================================================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError, PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.harness import guardian

PREFIX = "exec:"

WALL_SECONDS = 3600.0
"""Wall-clock budget of an episode where none is set."""

GRACE_SECONDS = guardian.GRACE_SECONDS + guardian.HUNT_SECONDS + 3.0
"""How long a guardian may take to end a program and its children."""

_SECRETS = ("AGENTENVS_TOKEN", "AGENTENVS_SEALED_SECRET")
_KEY = "AGENTENVS_AGENT_KEY"
_KEPT_BYTES = 32_768
_HUNT_SECONDS = 5.0
"""How long children are looked for that fork faster than they are found."""
_QUIET_LOOKS = 3
"""Looks without a find after which there are none; one look may miss a process that hands over to its child."""


class Program:
    """A policy that is a command line; :class:`~agentenvs.harness.execution.ProgramRollout` plays its episodes.

    Args:
        command: As a shell reads it.
        seconds: Wall-clock budget of an episode.
    """

    def __init__(self, command: str, seconds: float) -> None:
        self.command = command
        self.seconds = seconds
        self._said: dict[str, JSON] = {}

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Forget the last episode."""
        self._said = {}

    def act(self, observation: Observation) -> Any:
        """Refuse: a program is not asked turn by turn.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError("a program plays over a wire", fix="evaluate it with a server: --url URL")

    def note(self, run: Run) -> None:
        """Take what came of an episode's process."""
        self._said = {"command": self.command, "exit_code": run.exit_code, "output": run.output()}

    def sidecar(self) -> dict[str, JSON]:
        """Return what the program printed, and its exit code."""
        return self._said


def is_program(policy: str) -> bool:
    """Return whether a policy's name is a command line."""
    return policy.startswith(PREFIX)


def program(policy: str, url: str | None, seconds: float | None) -> Program:
    """Return the program of a policy's name.

    Args:
        policy: ``exec:COMMAND``.
        url: The server it plays on.
        seconds: Wall-clock budget of an episode; :data:`WALL_SECONDS` where None.

    Raises:
        ConfigError: No command, or no server.
    """
    command = policy.removeprefix(PREFIX).strip()
    if not command:
        raise ConfigError(f"{policy!r} names no command", fix="write exec:'python my_agent.py'")
    if url is None:
        raise ConfigError("a program plays over a wire, and no server is named", fix="give --url URL")
    return Program(command, seconds or WALL_SECONDS)


class Run:
    """One process of a program.

    Args:
        command: As a shell reads it.
        told: What its environment says beside what it inherits.

    Raises:
        PolicyError: There is no shell to run it.
    """

    def __init__(self, command: str, told: Mapping[str, str]) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        self._key = told[_KEY]
        self._started = time.monotonic()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command line
                _guarded(command),
                shell=os.name == "nt",
                env={**inherited, **told},
                stdin=subprocess.PIPE,  # its guardian ends it when this is closed, however we end ourselves
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise PolicyError(f"the program {command!r} cannot be started", why=str(error)) from error
        self._heard = _Heard(self._process.stdout)

    @property
    def exit_code(self) -> int | None:
        """How it exited; None while it runs. Negative where a signal ended it."""
        return self._process.poll()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._started

    def wait(self, seconds: float) -> bool:
        """Return whether it has exited within a time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def output(self) -> str:
        """Return the beginning and the end of what it printed."""
        return self._heard.text()

    def end(self) -> None:
        """End it and all its children; may be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self.wait(GRACE_SECONDS):
            self._process.kill()
            self._process.wait()
        mark, until = f"{_KEY}={self._key}".encode(), time.monotonic() + _HUNT_SECONDS
        quiet = 0
        while quiet < _QUIET_LOOKS and time.monotonic() < until:
            quiet = 0 if _kill_marked(mark) else quiet + 1
        self._heard.close()


def _guarded(command: str) -> str | list[str]:
    """Return what is run for a command line."""
    return command if os.name == "nt" else [sys.executable, "-I", "-S", guardian.__file__, command]


class _Heard:
    """What a process prints: all of it read, so that it never waits for us, and little of it kept."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe
        self._head = b""
        self._tail = b""
        self._lost = 0
        self._thread = threading.Thread(target=self._read, name="agentenvs-program", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        pipe = self._pipe
        with contextlib.suppress(OSError, ValueError):
            while pipe is not None and (part := os.read(pipe.fileno(), 65_536)):
                room = _KEPT_BYTES - len(self._head)
                self._head += part[:room]
                tail = self._tail + part[room:] if room < len(part) else self._tail
                self._lost += max(len(tail) - _KEPT_BYTES, 0)
                self._tail = tail[-_KEPT_BYTES:]

    def text(self) -> str:
        """Return what was kept."""
        middle = f"\n[… {self._lost} bytes …]\n".encode() if self._lost else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")

    def close(self) -> None:
        """Stop listening; what was printed before is read."""
        self._thread.join(1.0)
        if self._pipe is not None and not self._thread.is_alive():
            self._pipe.close()


def _kill_marked(mark: bytes) -> bool:
    """Kill each process whose environment holds a mark the moment it is seen; return whether there was one."""
    found = False
    for stray in _marked(mark):
        found = True
        with contextlib.suppress(OSError):
            os.kill(stray, signal.SIGKILL)
    return found


def _marked(mark: bytes) -> Iterator[int]:
    """Yield the processes whose environment holds a mark; none where the system does not tell."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
