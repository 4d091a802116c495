"""Many strings or byte strings in two arrays: all of them joined, and where each begins."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from agentenvs.core.search.bundle import Array


def pack(items: Iterable[bytes]) -> tuple[Array, Array]:
    """Return the joined bytes (u1) and the starts (i8, one more than there are items)."""
    kept = list(items)
    starts = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, kept), np.int64, len(kept)), out=starts[1:])
    return np.frombuffer(b"".join(kept), np.uint8), starts


def native(numbers: Array) -> memoryview:
    """Return numbers that are read one at a time: several times faster from a memoryview than from an array."""
    return np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("="), copy=False)).data


class Packed:
    """Reads what :func:`pack` made, without unpacking it.

    Args:
        joined: The joined bytes.
        starts: Where each begins, and where the last one ends.
    """

    __slots__ = ("_joined", "_starts", "count")

    def __init__(self, joined: Array, starts: Array) -> None:
        self._joined = np.ascontiguousarray(joined).data
        self._starts = native(starts)
        self.count = len(self._starts) - 1

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> bytes:
        return self._joined[self._starts[number] : self._starts[number + 1]].tobytes()

    def find(self, item: bytes) -> int:
        """Return the number of an item among sorted ones; -1 where there is none."""
        joined, starts = self._joined, self._starts
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if joined[starts[middle] : starts[middle + 1]].tobytes() < item:
                low = middle + 1
            else:
                high = middle
        return low if low < self.count and self[low] == item else -1
