"""A worker process seen from its host: start, ask with a time limit, end with all its children.

The worker leads a process group of its own and adopts its orphans, so that whatever it has started ends with it, also
what has left the group. Its pipes are
waited for with a deadline in both directions: neither a guest that does not answer nor one that does not listen can
hold the host. After any exchange that did not come to its end the worker is killed, so no answer is ever taken for
that of another question.

This isolates faults, not malice: a guest runs as the same user as its host.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

from agentenvs.core import errors
from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError, ConfigError, ContractError
from agentenvs.core.family import end_descendants
from agentenvs.core.frames import PREFIX_BYTES, pack, size_of, unpack
from agentenvs.core.spec import EnvSpec

START_SECONDS = 60.0
"""Wall-clock limit for a worker to start and make its environment."""

CLOSE_SECONDS = 2.0
"""Wall-clock limit for an environment to give up what it holds, before its process is killed."""

_SLICE_SECONDS = 0.2
_CHUNK = 2**16


class WorkerFailure(Exception):
    """A worker did not answer as it should.

    Args:
        code: ``step_timeout``, ``step_crashed``, ``step_raised``, ``step_memory``, ``step_cpu`` or ``step_size``.
        why: A word on it, for operators.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code
        self.why = why


class Worker:
    """A worker process with one environment in it.

    Args:
        spec: The environment.
        options: Its options.

    Raises:
        AgentEnvsError: The environment refused its options.
        ConfigError: This system has no process groups.
        ContractError: The environment could not be made.
    """

    def __init__(self, spec: EnvSpec, options: dict[str, Any]) -> None:
        if not hasattr(os, "killpg"):
            raise ConfigError(
                f"{spec.id} cannot be hosted here",
                why="it lives in a worker process, which needs the process groups of a POSIX system",
                fix="use Linux, macOS or WSL",
            )
        self._lock = threading.RLock()
        self._given_up = False
        self._owner = os.getpid()
        self._process = _started()
        self._end = weakref.finalize(self, _end, self._process, self._owner)
        try:
            self.ask("make", START_SECONDS, spec=spec.to_json(), options=options)
        except WorkerFailure as failure:
            raise ContractError(
                f"{spec.id} cannot be made in a worker process",
                why=str(failure),
                fix=f"make {spec.entry_point} without a worker to see its error",
            ) from failure
        except BaseException:
            self.kill()
            raise

    @property
    def alive(self) -> bool:
        """Whether it may be asked: not killed, and not inherited from a parent process."""
        return not self._given_up and os.getpid() == self._owner

    @property
    def sound(self) -> bool:
        """Whether it may be asked and its process still runs."""
        return self.alive and self._process.poll() is None

    def ask(self, call: str, seconds: float, **arguments: JSON) -> JSON:
        """Return the worker's answer.

        Args:
            call: What to do; see :class:`agentenvs.core.worker.Guest`.
            seconds: Wall-clock limit.
            **arguments: Its arguments.

        Raises:
            WorkerFailure: No answer in time, the process died, or the guest raised; the process is killed.
            AgentEnvsError: The guest refused, with an error of ours.
        """
        with self._lock:
            try:
                reply = self._exchange(pack({"call": call, "arguments": arguments}), time.monotonic() + seconds)
            except _Late:
                self.kill()
                raise WorkerFailure("step_timeout", f"no answer to {call} within {seconds:g} s") from None
            except (OSError, ValueError) as error:
                self.kill()
                if self._process.returncode == -signal.SIGXCPU:
                    raise WorkerFailure("step_cpu", f"too much processor time in {call}") from error
                raise WorkerFailure("step_crashed", f"the process died in {call}") from error
            except BaseException:
                self.kill()
                raise
            if "raised" in reply:
                self.kill()
                code = _RAISED.get(str(reply["raised"]), "step_raised")
                place = f" at {reply['place']}" if reply.get("place") else ""
                raise WorkerFailure(code, f"{reply['raised']}{place} in {call}")
            if "refused" in reply:
                raise _refusal(reply)
            return reply["value"]

    def close(self) -> None:
        """Let the environment give up what it holds, then end the process; one at work is not waited for."""
        if self.alive and self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(WorkerFailure, AgentEnvsError):
                    self.ask("close", CLOSE_SECONDS)
            finally:
                self._lock.release()
        self.kill()

    def kill(self) -> None:
        """End the process and its children, now; harmless when it has ended. May be called from any thread."""
        self._given_up = True
        self._end()
        with self._lock:  # whoever waits for an answer leaves as soon as the process is gone
            _close_pipes(self._process)

    def _exchange(self, request: bytes, deadline: float) -> dict[str, JSON]:
        if not self.alive or self._process.stdin is None or self._process.stdout is None:
            raise OSError("the worker is gone")
        rest = memoryview(request)
        while rest:
            self._wait(self._process.stdin.fileno(), select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._process.stdin.fileno(), rest[:_CHUNK]) :]
        source = self._process.stdout.fileno()
        reply = unpack(self._read(source, size_of(self._read(source, PREFIX_BYTES, deadline)), deadline))
        if not isinstance(reply, dict) or not reply.keys() & {"value", "raised", "refused"}:
            raise ValueError("no reply")
        return reply

    def _read(self, source: int, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(source, select.POLLIN, deadline)
            chunk = os.read(source, min(size - len(data), _CHUNK))
            if not chunk:
                raise OSError("the worker is gone")
            data += chunk
        return bytes(data)

    def _wait(self, pipe: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready, or broken.

        Raises:
            _Late: The deadline has passed.
            OSError: Another thread has given the worker up. (A pipe need not break when its process dies: a forked
                child that left the group may hold it.)
        """
        poll = select.poll()
        poll.register(pipe, event)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Late
            if poll.poll(1000 * min(left, _SLICE_SECONDS)):
                return
            if self._given_up:
                raise OSError("the worker was given up")


_RAISED = {"MemoryError": "step_memory", "TooLong": "step_size"}
"""Kinds of failure that have a code of their own, by what was raised."""


class _Late(Exception):
    """The deadline has passed."""


def _started() -> subprocess.Popen[bytes]:
    # The worker sees the modules its host sees, in the same order; -P keeps the working folder out of the way.
    paths = [path or os.getcwd() for path in sys.path]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "agentenvs.core.worker"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a guest's words may give its goal away, so they stand in no log
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
    return process


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a forked copy of the host must not end its parent's workers
        return
    if process.returncode is None:  # not yet waited for, so its number cannot be another's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGSTOP)  # so that it starts nothing while what it has started is ended
            end_descendants(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _refusal(reply: dict[str, JSON]) -> AgentEnvsError:
    """Return the error of ours that a worker named; the base of the tree where it names something else."""
    found = getattr(errors, str(reply["refused"]), AgentEnvsError)
    is_ours = isinstance(found, type) and issubclass(found, AgentEnvsError)
    kind: type[AgentEnvsError] = found if is_ours else AgentEnvsError
    return kind(str(reply.get("what", "")), why=str(reply.get("why", "")), fix=str(reply.get("fix", "")))
