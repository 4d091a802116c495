"""Limits that a worker process sets on itself before it imports a guest: memory once, processor time for each request.

The system holds them (``setrlimit``): an allocation beyond the first fails, a process beyond the second is ended by
``SIGXCPU``. They hold for each process; programs that a guest starts have the same limits, each on its own. Where a
system has no such limit nothing is held.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

MEMORY_MB = 4096
"""Limit of a worker's own memory where the spec names none."""

_MIB = 2**20


def bound_memory(megabytes: int | None) -> None:
    """Limit the memory of this process.

    Args:
        megabytes: The most; :data:`MEMORY_MB` where None, no limit where 0.
    """
    most = MEMORY_MB if megabytes is None else megabytes
    if sys.platform == "win32":
        return
    import resource

    # What a process has for itself; address space alone costs nobody anything, and libraries reserve a lot of it.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if most:
            resource.setrlimit(kind, (most * _MIB, resource.getrlimit(kind)[1]))


def allow_seconds(seconds: float | None) -> None:
    """Limit the processor time of this process from now on.

    Args:
        seconds: The most from now on, rounded up to whole seconds; no limit where None.
    """
    if seconds is None or sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def resident_bytes() -> int | None:
    """Return the memory this process has in use, in bytes; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
