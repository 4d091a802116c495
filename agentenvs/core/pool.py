"""Warm workers: processes with their environment made, that wait for whoever needs one.

Starting a worker and importing a guest takes from a tenth of a second to many; with ``AGENTENVS_WARM_WORKERS=N`` in the
environment N of them wait, for each of the last few kinds of guest that were asked for, and each that is taken is
replaced in the background. A worker serves one instance and is killed with it: none is ever given to a second one, so
nothing a guest leaves behind in its process reaches another episode's owner.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from typing import Any

from agentenvs.core.canon import canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.process import Worker
from agentenvs.core.spec import EnvSpec

VARIABLE = "AGENTENVS_WARM_WORKERS"

MOST_KINDS = 8
"""Kinds of guest (spec and options) for which workers wait; the one that was not asked for longest goes first."""


class Pool:
    """The workers of one kind that wait.

    Args:
        spec: The environment.
        options: Its options.
        size: How many wait.
    """

    def __init__(self, spec: EnvSpec, options: dict[str, Any], size: int) -> None:
        self._spec = spec
        self._options = options
        self._size = size
        self._ready: deque[Worker] = deque()
        self._lock = threading.Lock()
        self._filling = False
        self._closed = False

    def take(self) -> Worker:
        """Return a worker: one that waited, or a fresh one.

        Raises:
            AgentEnvsError: The environment cannot be made.
        """
        found = self._waiting() or Worker(self._spec, self._options)
        self._refill()
        return found

    def _waiting(self) -> Worker | None:
        """Return one that waits; those that died meanwhile are put away."""
        with self._lock:
            while self._ready:
                first = self._ready.popleft()
                if first.sound:
                    return first
                first.kill()
        return None

    @property
    def ready(self) -> int:
        """How many wait."""
        return len(self._ready)

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            self._closed = True
            waiting, self._ready = list(self._ready), deque()
        for worker in waiting:
            worker.kill()

    def _refill(self) -> None:
        with self._lock:
            if self._filling or self._closed:
                return
            self._filling = True
        threading.Thread(target=self._fill, name="agentenvs-warm", daemon=True).start()

    def _fill(self) -> None:
        try:
            while len(self._ready) < self._size and self._keep(Worker(self._spec, self._options)):
                pass
        except AgentEnvsError:  # whoever needs one makes it, and is told
            return
        finally:
            self._filling = False

    def _keep(self, worker: Worker) -> bool:
        """Let a worker wait, unless the pool has been closed meanwhile; return whether it does."""
        with self._lock:
            if not self._closed:
                self._ready.append(worker)
                return True
        worker.kill()
        return False


_pools: OrderedDict[str, Pool] = OrderedDict()
_lock = threading.Lock()


def worker(spec: EnvSpec, options: dict[str, Any]) -> Worker:
    """Return a worker with an environment of its own.

    Raises:
        AgentEnvsError: The environment refused its options.
        ContractError: It could not be made.
    """
    size = _size()
    if not size:
        return Worker(spec, options)
    key = canonical([spec.to_json(), options])
    with _lock:
        pool = _pools.pop(key, None) or Pool(spec, options, size)
        _pools[key] = pool
        dropped = [_pools.popitem(last=False)[1] for _ in range(len(_pools) - MOST_KINDS)]
    for old in dropped:
        old.close()
    return pool.take()


def close_all() -> None:
    """End every worker that waits."""
    with _lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.close()


def _size() -> int:
    said = os.environ.get(VARIABLE, "")
    return int(said) if said.isascii() and said.isdecimal() else 0


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):  # the workers are the parent's
    os.register_at_fork(after_in_child=_forget)
