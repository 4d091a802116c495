"""The processes below one: found, and ended with it, wherever they have gone.

A process that leaves its group, or loses its parent, is still below whoever has made itself the parent of orphans
(Linux' child subreaper). Other systems know no such thing; there, what has left its group is not found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

_SET_CHILD_SUBREAPER = 36
_ROUNDS = 50
"""Looks at what is left: whoever is ended may have started another one meanwhile."""


def adopt_orphans() -> None:
    """Make this process the parent of whatever loses its own below it; does nothing where a system cannot."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int) -> list[int]:
    """Return the children of a process; none where the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def end_descendants(pid: int) -> None:
    """End every process below one, but not itself; it must not start others meanwhile."""
    for _ in range(_ROUNDS):
        below = [child for child in _descendants(pid) if not _is_over(child)]
        if not below:
            return
        for child in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found, todo = [], [pid]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


def _is_over(pid: int) -> bool:
    """Whether a process has ended and only waits for its parent to ask how."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True
