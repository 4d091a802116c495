"""Many draws at once: arrays of integers out of one named stream, with integer arithmetic only.

A bounded integer is ``word * bound >> 32`` of a 32-bit word. Its bias is below ``bound / 2**32``, which nothing here
could show, and it costs the same draws for every bound, so that a change of one table shifts no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from agentenvs.core.streams import Stream

Ints: TypeAlias = npt.NDArray[np.int64]

_CHUNK = 4096


class Draws:
    """Arrays of random integers.

    Args:
        key: The universe's key.
        name: Purpose; draws of different names are independent.
    """

    __slots__ = ("_stream",)

    def __init__(self, key: bytes, name: str) -> None:
        self._stream = Stream(key, name)

    def words(self, count: int) -> Ints:
        """Return integers below 2**32."""
        size = 4 * count
        data = bytearray()
        while len(data) < size:
            data += self._stream.bits(8 * _CHUNK).to_bytes(_CHUNK, "little")
        return np.frombuffer(bytes(data[:size]), dtype="<u4").astype(np.int64)

    def below(self, count: int, bound: int | Ints) -> Ints:
        """Return integers in ``range(bound)``; ``bound`` may be an array, one for each."""
        return (self.words(count) * bound) >> 32

    def percent(self, count: int, share: int) -> npt.NDArray[np.bool_]:
        """Return which of ``count`` things happen that each have a chance of ``share`` in 100."""
        return self.below(count, 100) < share

    def weighted(self, count: int, weights: Sequence[int] | Ints) -> Ints:
        """Return indices, each with probability proportional to its weight; the sum must be below 2**31."""
        bounds = np.cumsum(np.asarray(weights, dtype=np.int64))
        return np.searchsorted(bounds, self.below(count, int(bounds[-1])), side="right").astype(np.int64)

    def order(self, count: int) -> Ints:
        """Return a permutation of ``range(count)``."""
        high = self.words(count) << 31
        return np.argsort(high | self.below(count, 1 << 31), kind="stable").astype(np.int64)


def zipf(count: int) -> Ints:
    """Return integer weights of ranks: the first is the most frequent, ``10**6 // (rank + 2)``."""
    return 1_000_000 // (np.arange(count, dtype=np.int64) + 2)
