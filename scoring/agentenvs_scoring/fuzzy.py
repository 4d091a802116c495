"""How alike two texts are as sets of words: the measure ``token_set_ratio`` of thefuzz, in integers.

Words that both have are set against the rest; likeness of the rest is 2·LCS / (lengths), in percent, rounded half to
even as Python's ``round``. Written out here because a reward must not depend on which release of a C library is there.
Source of the measure: A. Cohen, "FuzzyWuzzy", 2011; LCS by bits: H. Hyyrö, 2004.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_BEYOND_ASCII: Final = dict.fromkeys(range(128, 256))
_NO_WORD = re.compile(r"[\W_]")


@lru_cache(maxsize=65_536)
def tokens(text: str) -> frozenset[str]:
    """Return the words of a text as the measure sees them: letters and digits, lower-case, Latin-1 accents dropped."""
    return frozenset(_NO_WORD.sub(" ", text.translate(_BEYOND_ASCII)).lower().split())


def token_set_ratio(one: str, other: str) -> int:
    """Return how alike two texts are, 0 to 100."""
    first, second = tokens(one), tokens(other)
    if not first or not second:
        return 0
    shared = first & second
    if shared and (first == shared or second == shared):
        return 100
    left, right = " ".join(sorted(first - shared)), " ".join(sorted(second - shared))
    common = len(" ".join(shared))  # its length does not depend on the order
    gap = 1 if common else 0
    distance = len(left) + len(right) - 2 * _lcs(left, right)
    best = _percent(distance, 2 * (common + gap) + len(left) + len(right))
    if common:
        best = max(best, *(_percent(gap + len(rest), 2 * common + gap + len(rest)) for rest in (left, right)))
    return best


def _percent(distance: int, length: int) -> int:
    """Return ``100 - 100 * distance / length``, rounded half to even."""
    value, rest = divmod(100 * (length - distance), length)
    return value + (2 * rest > length or (2 * rest == length and value % 2 == 1))


def _lcs(left: str, right: str) -> int:
    """Return the length of a longest common subsequence."""
    places: dict[str, int] = {}
    for at, letter in enumerate(left):
        places[letter] = places.get(letter, 0) | (1 << at)
    full = (1 << len(left)) - 1
    row = full
    for letter in right:
        matches = row & places.get(letter, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(left) - row.bit_count()
