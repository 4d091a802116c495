"""The shuffle of Python's ``random`` from a seed, without its global state: it fixes the order of the original's goals.

MT19937 (Matsumoto and Nishimura 1998) seeded by an array, and Fisher and Yates on integers drawn by rejection: what
CPython has done since 3.2, written out, so that no release of Python can change an order.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Final, TypeVar

T = TypeVar("T")

_N: Final = 624
_M: Final = 397
_MASK: Final = 0xFFFFFFFF


class Twister:
    """A stream of 32-bit words.

    Args:
        seed: A non-negative integer below 2**32.
    """

    __slots__ = ("_at", "_state")

    def __init__(self, seed: int) -> None:
        state = [19650218]
        for at in range(1, _N):
            state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + at) & _MASK)
        at = 1
        for _ in range(_N):
            state[at] = ((state[at] ^ ((state[at - 1] ^ (state[at - 1] >> 30)) * 1664525)) + seed) & _MASK
            at += 1
            if at == _N:
                state[0] = state[-1]
                at = 1
        for _ in range(_N - 1):
            state[at] = ((state[at] ^ ((state[at - 1] ^ (state[at - 1] >> 30)) * 1566083941)) - at) & _MASK
            at += 1
            if at == _N:
                state[0] = state[-1]
                at = 1
        state[0] = 0x80000000
        self._state, self._at = state, _N

    def word(self) -> int:
        """Return the next 32 bits."""
        if self._at == _N:
            self._turn()
        value = self._state[self._at]
        self._at += 1
        value ^= value >> 11
        value ^= (value << 7) & 0x9D2C5680
        value ^= (value << 15) & 0xEFC60000
        return value ^ (value >> 18)

    def below(self, bound: int) -> int:
        """Return an integer in ``range(bound)``; ``bound`` is below 2**32."""
        width = bound.bit_length()
        while True:
            value = self.word() >> (32 - width)
            if value < bound:
                return value

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def _turn(self) -> None:
        state = self._state
        for at in range(_N):
            mixed = (state[at] & 0x80000000) | (state[(at + 1) % _N] & 0x7FFFFFFF)
            state[at] = state[(at + _M) % _N] ^ (mixed >> 1) ^ (0x9908B0DF if mixed & 1 else 0)
        self._at = 0
