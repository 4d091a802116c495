"""Keys and random streams: where every bit of chance in the suite comes from.

A scenario has a 256-bit key made from its address ``(env, split, index)`` or ``(env, "train", seed)``; the split is
inside, so no index of one split can meet an index of another. Everything random in it is drawn from named streams
derived from that key, so a new draw in one place never shifts the draws of another. A stream is BLAKE2b in counter
mode: specified bit for bit (RFC 7693), unlike the samplers of general random libraries, and mapped to numbers here
with integer arithmetic only.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")

KEY_BYTES = 32
"""Length of a scenario key: 256 bits."""

_BLOCK_BYTES = 64


def scenario_key(env: str, split: str, index: int) -> bytes:
    """Return the 256-bit key of a public scenario.

    Args:
        env: Slug of the environment, e.g. ``household``.
        split: Name of the split; part of the key.
        index: Index in a finite split, or the seed in an endless one. Any integer.
    """
    address = f"agentenvs/scenario/1\x00{env}\x00{split}\x00{index}"
    return hashlib.sha256(address.encode()).digest()


def sealed_key(secret: bytes, env: str, index: int) -> bytes:
    """Return the 256-bit key of a sealed scenario: HMAC-SHA256 under the operator's secret."""
    return hmac.digest(secret, f"agentenvs/sealed/1\x00{env}\x00{index}".encode(), "sha256")


def derive(key: bytes, name: str) -> bytes:
    """Return a 256-bit sub-key of a key for a purpose."""
    return hashlib.blake2b(name.encode(), key=key, digest_size=KEY_BYTES, person=b"agentenvs/derive").digest()


class Stream:
    """A named, reproducible stream of random bits with integer maps.

    Args:
        key: Up to 64 bytes; usually a scenario key.
        name: Purpose of the stream; streams of different names are independent.

    Its position is the number of bits drawn; see :meth:`state`.
    """

    __slots__ = ("_block", "_key", "_rest", "_width")

    def __init__(self, key: bytes, name: str) -> None:
        self._key = derive(key, name)
        self._block = 0
        self._rest = 0
        self._width = 0

    def bits(self, count: int) -> int:
        """Return an integer of ``count`` random bits.

        Raises:
            ValueError: ``count`` is negative.
        """
        if count < 0:
            raise ValueError("count must not be negative")
        while self._width < count:
            data = hashlib.blake2b(
                self._block.to_bytes(8, "big"), key=self._key, digest_size=_BLOCK_BYTES, person=b"agentenvs/stream"
            ).digest()
            self._rest |= int.from_bytes(data, "little") << self._width
            self._width += 8 * _BLOCK_BYTES
            self._block += 1
        value = self._rest & ((1 << count) - 1)
        self._rest >>= count
        self._width -= count
        return value

    def below(self, bound: int) -> int:
        """Return an unbiased integer in ``range(bound)``.

        Raises:
            ValueError: ``bound`` is not positive.
        """
        if bound <= 0:
            raise ValueError("bound must be positive")
        width = (bound - 1).bit_length()
        while True:
            value = self.bits(width)
            if value < bound:
                return value

    def between(self, low: int, high: int) -> int:
        """Return an unbiased integer with ``low <= value <= high``."""
        return low + self.below(high - low + 1)

    def chance(self, numerator: int, denominator: int) -> bool:
        """Return True with probability ``numerator / denominator``."""
        return self.below(denominator) < numerator

    def uniform(self) -> float:
        """Return a float in [0, 1) with 53 random bits; exact on every platform."""
        return self.bits(53) / 9007199254740992.0

    def choice(self, items: Sequence[T]) -> T:
        """Return one item, all equally likely.

        Raises:
            ValueError: ``items`` is empty.
        """
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[int]) -> T:
        """Return one item with probability proportional to its integer weight.

        Raises:
            ValueError: Lengths differ, a weight is negative, or all are zero.
        """
        if len(items) != len(weights) or any(weight < 0 for weight in weights):
            raise ValueError("weights must be as many as items, and not negative")
        point = self.below(sum(weights))
        for item, weight in zip(items, weights, strict=True):
            if point < weight:
                return item
            point -= weight
        raise ValueError("unreachable: the weights changed while drawing")

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle in place (Fisher and Yates; Knuth, The Art of Computer Programming 3.4.2, algorithm P)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` different items in random order.

        Raises:
            ValueError: There are fewer items than that.
        """
        if not 0 <= count <= len(items):
            raise ValueError(f"cannot draw {count} of {len(items)} items")
        pool = list(items)
        for first in range(count):
            other = first + self.below(len(pool) - first)
            pool[first], pool[other] = pool[other], pool[first]
        return pool[:count]

    def fork(self) -> Stream:
        """Return an independent copy at the same position."""
        copy = object.__new__(Stream)
        copy._key, copy._block, copy._rest, copy._width = self._key, self._block, self._rest, self._width
        return copy

    def state(self) -> int:
        """Return the number of bits drawn so far: with key and name, all there is to restore."""
        return self._block * 8 * _BLOCK_BYTES - self._width

    def seek(self, state: int) -> None:
        """Go to a position that :meth:`state` returned.

        Raises:
            ValueError: The position is negative.
        """
        if state < 0:
            raise ValueError("the position of a stream is not negative")
        self._block, offset = divmod(state, 8 * _BLOCK_BYTES)
        self._rest = self._width = 0
        self.bits(offset)
