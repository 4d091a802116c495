"""A worker process seen from its host: start, ask with a time limit, kill with all its children."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any, BinaryIO, cast

from agentenvs.core import errors
from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.core.frames import read_frame, write_frame

START_SECONDS = 60.0
"""Wall-clock limit for a worker to start and make its environment."""


class WorkerFailure(Exception):
    """A worker did not answer as it should.

    Args:
        code: ``step_timeout``, ``step_crashed`` or ``step_raised``.
        why: A word on it, for operators.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code
        self.why = why


class Worker:
    """A worker process with one environment in it.

    Args:
        entry_point: ``module:Class`` of the environment.
        options: Its options.

    Raises:
        ContractError: The environment could not be made.
    """

    def __init__(self, entry_point: str, options: dict[str, Any]) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentenvs.core.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
        self._replies: queue.SimpleQueue[JSON | None] = queue.SimpleQueue()
        pipe = cast(BinaryIO, self._process.stdout)
        self._reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._reader.start()
        try:
            self.ask("make", START_SECONDS, entry_point=entry_point, options=options)
        except WorkerFailure as failure:
            raise ContractError(
                f"the environment {entry_point} cannot be made in a worker process",
                why=str(failure),
                fix="make it without a worker to see its error",
            ) from failure

    def ask(self, call: str, seconds: float | None, **arguments: JSON) -> JSON:
        """Return the worker's answer.

        Args:
            call: What to do; see :class:`agentenvs.core.worker.Guest`.
            seconds: Wall-clock limit; None for none.
            **arguments: Its arguments.

        Raises:
            WorkerFailure: No answer in time, the process died, or the guest raised; the process is killed.
            AgentEnvsError: The guest refused, with an error of ours.
        """
        try:
            write_frame(cast(BinaryIO, self._process.stdin), {"call": call, "arguments": arguments})
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            raise WorkerFailure("step_timeout", f"no answer to {call} within {seconds} s") from None
        except OSError:
            reply = None
        if reply is None:
            self.kill()
            raise WorkerFailure("step_crashed", f"the process died in {call}")
        if "raised" in reply:
            self.kill()
            raise WorkerFailure("step_raised", str(reply["raised"]))
        if "refused" in reply:
            raise _refusal(reply)
        return reply["value"]

    def kill(self) -> None:
        """End the process and its children, now; harmless when it has ended."""
        process = self._process
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self, pipe: BinaryIO) -> None:
        while (reply := read_frame(pipe)) is not None:
            self._replies.put(reply)
        self._replies.put(None)


def _refusal(reply: dict[str, JSON]) -> AgentEnvsError:
    """Return the error of ours that a worker named; the base of the tree where it names something else."""
    found = getattr(errors, str(reply["refused"]), AgentEnvsError)
    is_ours = isinstance(found, type) and issubclass(found, AgentEnvsError)
    kind: type[AgentEnvsError] = found if is_ours else AgentEnvsError
    return kind(str(reply.get("what", "")), why=str(reply.get("why", "")), fix=str(reply.get("fix", "")))
