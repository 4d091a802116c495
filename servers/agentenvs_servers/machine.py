"""What this process takes of its machine, by the names that Prometheus' own libraries use."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from agentenvs_servers.metering import Family, gauge, total

_STARTED = time.time()
_PROC = Path("/proc/self")


def families() -> Iterator[Family]:
    """Return what can be told; less of it where there is no ``/proc``."""
    yield total("process_cpu_seconds_total", "Seconds of a processor that were used.", time.process_time())
    yield gauge("process_start_time_seconds", "When it was started, since 1970.", _STARTED)
    yield gauge("process_threads", "Threads of Python's.", threading.active_count())
    try:
        pages = int((_PROC / "statm").read_text().split()[1])
        open_files = len(os.listdir(_PROC / "fd"))
    except (OSError, IndexError, ValueError):
        return
    yield gauge("process_resident_memory_bytes", "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE"))
    yield gauge("process_open_fds", "Open files and connections.", open_files)
    yield gauge("process_max_fds", "The most there may be.", most_files())


def most_files() -> int:
    """Return how many files this process may have open; 0 where that is not known."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_files() -> None:
    """Allow this process as many open files as it may allow itself: each connection is one."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return
