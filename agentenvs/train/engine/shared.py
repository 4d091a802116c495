"""One sampler for many threads: whoever waits for a turn computes for all who wait.

Each player holds a slot. A player that asks while nobody computes does so until a turn is done, its own or another's,
and hands on; what was asked meanwhile joins the next forward pass. So episodes of several threads share passes without
a thread of the model's own, and a turn's chance is its seed's alone.
"""

from __future__ import annotations

import threading
from typing import Any

from agentenvs.core.errors import ServiceError
from agentenvs.train.engine.generic import slots_of
from agentenvs.train.interfaces import Draw, Sampled, Sampling


class SharedSampler:
    """Samples turns for some threads.

    Args:
        model: A causal language model, on its device.
        slots: How many conversations at a time.
        length: The most tokens of each.
        sampling: How tokens are drawn.
    """

    def __init__(self, model: Any, slots: int, length: int, sampling: Sampling) -> None:
        self._slots = slots_of(model, slots, length)
        self._sampling = sampling
        self._free = list(range(slots))
        self._asked: list[Draw] = []
        self._done: dict[int, Sampled] = {}
        self._computing = False
        self._failure: BaseException | None = None
        self._turn = threading.Condition()

    def take(self) -> int:
        """Return a free slot; waits for one."""
        with self._turn:
            while not self._free:
                self._turn.wait()
            return self._free.pop(0)

    def give(self, slot: int) -> None:
        """Give a slot back."""
        with self._turn:
            self._slots.forget([slot])
            self._free.append(slot)
            self._turn.notify_all()

    def sample(self, draw: Draw) -> Sampled:
        """Sample a turn. Blocks.

        Raises:
            ServiceError: The model failed, for this player or for another one.
        """
        with self._turn:
            self._asked.append(draw)
        while True:
            with self._turn:
                while self._computing and draw.slot not in self._done and self._failure is None:
                    self._turn.wait()
                if draw.slot in self._done:
                    return self._done.pop(draw.slot)
                if self._failure is not None:
                    raise ServiceError("the model failed", why=str(self._failure)) from self._failure
                self._computing = True
                asked, self._asked = self._asked, []
            self._compute(asked)

    def _compute(self, asked: list[Draw]) -> None:
        """Compute until a turn is done; the lock is not held meanwhile."""
        done: dict[int, Sampled] = {}
        failure: BaseException | None = None
        try:
            for draw in asked:
                self._slots.submit(draw)
            done = dict(self._slots.advance(self._sampling))
        except Exception as error:  # noqa: BLE001 - boundary: a model may fail in any way, and others wait for it
            failure = error
        with self._turn:
            self._done.update(done)
            self._failure = failure
            self._computing = False
            self._turn.notify_all()
