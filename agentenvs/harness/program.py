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

Where the run names a model, a program is given it as well, through a proxy that counts (see
:mod:`agentenvs.harness.proxy`). The key is the episode's; whatever holds the endpoint's own is taken out.

======================================  ===============================================
``AGENTENVS_MODEL``                     name of the model
``OPENAI_BASE_URL``, ``OPENAI_API_KEY``        where it answers as OpenAI's APIs do
``ANTHROPIC_BASE_URL``, ``ANTHROPIC_API_KEY``  where it answers as Anthropic's does
======================================  ===============================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError, PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.harness import guardian
from agentenvs.harness.proxy.settings import ProxySettings

if TYPE_CHECKING:
    from agentenvs.core.policy import Policy
    from agentenvs.core.verdict import Verdict
    from agentenvs.harness.manifest import ModelEntry
    from agentenvs.harness.policies import PolicyFactory
    from agentenvs.harness.proxy.ledger import Account
    from agentenvs.harness.proxy.server import ModelProxy

PREFIX = "exec:"

WALL_SECONDS = 3600.0
"""Wall-clock budget of an episode where none is set."""

GRACE_SECONDS = guardian.GRACE_SECONDS + guardian.HUNT_SECONDS + 3.0
"""How long a guardian may take to end a program and its children."""

_SECRETS = ("AGENTENVS_TOKEN", "AGENTENVS_TICKET", "AGENTENVS_SEALED_SECRET")
_KEY = "AGENTENVS_AGENT_KEY"
_REAL = ("ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""What would go with a user's own key, and not with the one of an episode."""
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
        proxy: What gives it its model; None where it has its own.
    """

    def __init__(self, command: str, seconds: float, proxy: ModelProxy | None = None) -> None:
        self.command = command
        self.seconds = seconds
        self._said: dict[str, JSON] = {}
        self._proxy = proxy
        self._holds = False
        self._account: Account | None = None

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Forget the last episode."""
        self._said = {}
        self._account = None

    def act(self, observation: Observation) -> Any:
        """Refuse: a program is not asked turn by turn.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError("a program plays over a wire", fix="evaluate it with a server: --url URL")

    def start(self, number: int, told: Mapping[str, str]) -> Run:
        """Start the process of an episode, with a model where the run names one.

        Args:
            number: Of the episode in its run.
            told: What its environment says of the episode.

        Raises:
            PolicyError: There is no shell to run it.
            ServiceError: The model proxy does not come up.
        """
        if self._proxy is None:
            return Run(self.command, told)
        if not self._holds:
            self._proxy.hold()
            self._holds = True
        self._account = account = self._proxy.open(number)
        try:
            return Run(self.command, {**told, **self._proxy.told(account)}, without=_real_keys(self._proxy.settings))
        except BaseException:
            self._proxy.close(account)
            raise

    def note(self, run: Run) -> None:
        """Take what came of an episode's process."""
        if self._proxy is not None and self._account is not None:
            self._proxy.close(self._account)
        self._said = {"command": self.command, "exit_code": run.exit_code, "output": run.output()}

    def close(self) -> None:
        """Play no more. May be called twice."""
        if self._proxy is not None and self._holds:
            self._holds = False
            self._proxy.release()

    def model_away(self) -> str | None:
        """Return why its last call had no answer, where that was the endpoint's doing; None otherwise."""
        return None if self._account is None else self._account.away()

    @property
    def usage(self) -> dict[str, int | None]:
        """Tokens and cost of the episode; empty where it has a model of its own."""
        return {} if self._account is None else self._account.usage()

    @property
    def model_entry(self) -> ModelEntry | None:
        """The model, for a run's manifest."""
        return None if self._proxy is None else self._proxy.settings.model_entry()

    def metrics(self, verdict: Verdict | None = None) -> dict[str, JSON]:
        """Return how often it asked the model."""
        return {} if self._account is None else self._account.metrics()

    def sidecar(self) -> dict[str, JSON]:
        """Return what the program printed, its exit code, and what it asked of the model and got."""
        if self._account is None:
            return self._said
        return {**self._said, "model": self._account.sidecar()}


def is_program(policy: str) -> bool:
    """Return whether a policy's name is a command line."""
    return policy.startswith(PREFIX)


def program(policy: str, url: str | None, seconds: float | None, proxy: ModelProxy | None = None) -> Program:
    """Return the program of a policy's name.

    Args:
        policy: ``exec:COMMAND``.
        url: The server it plays on.
        seconds: Wall-clock budget of an episode; :data:`WALL_SECONDS` where None.
        proxy: What gives it its model.

    Raises:
        ConfigError: No command, or no server.
    """
    command = policy.removeprefix(PREFIX).strip()
    if not command:
        raise ConfigError(f"{policy!r} names no command", fix="write exec:'python my_agent.py'")
    if url is None:
        raise ConfigError("a program plays over a wire, and no server is named", fix="give --url URL")
    return Program(command, seconds or WALL_SECONDS, proxy)


def programs(policy: str, url: str | None, seconds: float | None, settings: Any = None) -> PolicyFactory:
    """Return what makes the players of a run; they share one model proxy where the settings are of one.

    Args:
        policy: As for :func:`program`.
        url: Likewise.
        seconds: Likewise.
        settings: :class:`~agentenvs.harness.proxy.settings.ProxySettings`, or None.

    Raises:
        ConfigError: As for :func:`program`, or the endpoint's key cannot be used.
    """
    proxy: ModelProxy | None = None
    if isinstance(settings, ProxySettings):
        from agentenvs.harness.proxy.server import ModelProxy

        settings.model.key()  # a mistake in it is to be told now
        proxy = ModelProxy(settings)
    program(policy, url, seconds)

    def make() -> Policy:
        return program(policy, url, seconds, proxy)

    return make


def _real_keys(settings: ProxySettings) -> list[str]:
    """Return the variables that hold the endpoint's key, or go with it."""
    key = settings.model.key()
    holding = [name for name, value in os.environ.items() if key is not None and value.strip() == key]
    return [*_REAL, settings.model.api_key_env, *holding]


class Run:
    """One process of a program.

    Args:
        command: As a shell reads it.
        told: What its environment says beside what it inherits.
        without: Further variables that it does not inherit.

    Raises:
        PolicyError: There is no shell to run it.
    """

    def __init__(self, command: str, told: Mapping[str, str], without: Collection[str] = ()) -> None:
        secret = {*_SECRETS, *without}
        inherited = {name: value for name, value in os.environ.items() if name not in secret}
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
