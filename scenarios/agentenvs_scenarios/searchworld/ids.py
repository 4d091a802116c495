"""Opaque ids of documents: a keyed permutation of numbers, so that no id says where a document stands or what is near.

A balanced Feistel network of four rounds over 30 bits (Luby and Rackoff 1988), with BLAKE2 as the round function, and
six characters of a small alphabet as its spelling. Both ways cost the same and no table is kept.
"""

from __future__ import annotations

import hashlib
from typing import Final

_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_VALUES: Final = {sign: value for value, sign in enumerate(_ALPHABET)}
_HALF: Final = 15
_MASK: Final = (1 << _HALF) - 1
_ROUNDS: Final = 4
LENGTH: Final = 6
"""Characters of an id."""


class Ids:
    """Ids of numbered documents.

    Args:
        key: Up to 64 bytes.
        count: How many documents there are.
    """

    __slots__ = ("_count", "_key")

    def __init__(self, key: bytes, count: int) -> None:
        self._key = key
        self._count = count

    def spell(self, number: int) -> str:
        """Return the id of a document."""
        left, right = number >> _HALF, number & _MASK
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        value = left << _HALF | right
        return "".join(_ALPHABET[value >> shift & 31] for shift in range(25, -1, -5))

    def number(self, text: str) -> int | None:
        """Return the document of an id, or None where it is no id of one."""
        if len(text) != LENGTH or any(sign not in _VALUES for sign in text):
            return None
        value = 0
        for sign in text:
            value = value << 5 | _VALUES[sign]
        left, right = value >> _HALF, value & _MASK
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mixed(turn, left), left
        found = left << _HALF | right
        return found if found < self._count else None

    def _mixed(self, turn: int, half: int) -> int:
        data = bytes((turn, half >> 8, half & 255))
        return (
            int.from_bytes(
                hashlib.blake2b(data, key=self._key, digest_size=2, person=b"searchworld/ids").digest(), "big"
            )
            & _MASK
        )
