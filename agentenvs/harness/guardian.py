"""Runs a command line and, when it is over or nobody holds the other end of its input any more, ends all it started.

A script of its own, run by its path and with the least of Python, since one is started for every episode of a program.
On Linux it makes itself the parent of whatever loses its own below it, so that no child gets away by leaving its group
or emptying its environment: once it has no children left, there are none. It exits as the command did.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

GRACE_SECONDS = 2.0
"""How long the command may take to leave when it is told to."""

HUNT_SECONDS = 10.0
"""How long children are ended that start others meanwhile."""

_SET_CHILD_SUBREAPER = 36


def main(command: str) -> None:
    """Run a command line to its end, and end what it left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    bell, ringer = os.pipe()
    for end in (bell, ringer):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv("/bin/sh", ["sh", "-c", command])  # noqa: S606 - the user's own command line
    status = _watched(child, bell)
    _end_children(child)
    _exit_as(status)


def _watched(child: int, bell: int) -> int:
    """Wait for the command, and return how it exited; tell it to leave when our input ends."""
    inputs, deadline = [0, bell], None
    while True:
        status = _reaped(child)
        if status is not None:
            return status
        if deadline is not None and time.monotonic() > deadline:
            _signal_group(child, signal.SIGKILL)
        ready, _, _ = select.select(inputs, [], [], None if deadline is None else 0.05)
        if bell in ready:
            os.read(bell, 4096)
        if 0 in ready:  # nobody writes to us: it can only have been closed
            inputs, deadline = [bell], time.monotonic() + GRACE_SECONDS
            _signal_group(child, signal.SIGTERM)


def _reaped(child: int) -> int | None:
    """Bury what has exited; return how the command did, if it is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return status
            if pid == 0:
                return None
    return None


def _end_children(child: int) -> None:
    _signal_group(child, signal.SIGKILL)
    until = time.monotonic() + HUNT_SECONDS
    with suppress(ChildProcessError):  # there is none left
        while time.monotonic() < until:
            for pid in _descendants():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)


def _descendants() -> list[int]:
    """Return every process below this one; none where the system does not tell."""
    below: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as file:
                below.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        children = below.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _signal_group(leader: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(leader, number)  # the group outlives the process that leads it


def _exit_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1])
