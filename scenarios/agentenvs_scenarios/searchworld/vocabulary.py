"""Invented words: every universe has sounds of its own, and no word of it is one of ours.

A universe draws onsets, vowels and codas from ``tables.toml``, and words are two or three syllables of them. All words
of a universe differ from one another, from the words of the article sentences, and from a list of common English words,
given names, surnames and places (``real_words.txt``), so nothing known of our world says anything about it. None holds
a crude one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

from agentenvs.core.errors import ContractError
from agentenvs.core.streams import Stream
from agentenvs_scenarios.searchworld.draws import Draws
from agentenvs_scenarios.searchworld.schema import schema

_LETTERS: Final = re.compile("[a-z]+")
_SHORTEST: Final = 5
_LONGEST: Final = 10


class Sounds(NamedTuple):
    """The syllables of a universe."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    """Plain ones twice, so that they are frequent."""
    codas: tuple[str, ...]
    """The empty one among them, several times."""


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """Return the words that no invented one may be: ours, and those of the sentences."""
    text = resources.files("agentenvs_scenarios.searchworld").joinpath("real_words.txt").read_text("utf-8")
    words = {word for line in text.splitlines() if not line.startswith("#") for word in line.split()}
    made = schema()
    sentences = [line for item in made.relations for line in (*item.mine, *item.theirs, item.forward, item.inverse)]
    sentences += [line for item in made.attributes for line in (*item.mine, item.phrase)]
    sentences += made.fillers
    for line in sentences:
        words.update(_LETTERS.findall(line.lower()))
    return frozenset(words)


def sounds(key: bytes) -> Sounds:
    """Return the syllables of a universe."""
    stream, made = Stream(key, "vocabulary/sounds"), schema().sounds
    vowels = stream.sample(made.vowels, 4)
    return Sounds(
        (*stream.sample(made.plain, 10), *stream.sample(made.clusters, 6)),
        (*vowels, *vowels, *stream.sample(made.pairs, 2)),
        ("", "", "", "", *stream.sample(made.codas, 6)),
    )


class Coiner:
    """Coins words that are new in this universe and in ours.

    Args:
        key: The universe's key.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._sounds = sounds(key)
        self._taken: set[str] = set()
        self._crude = re.compile("|".join(schema().sounds.crude))

    def coin(self, purpose: str, count: int) -> list[str]:
        """Return ``count`` new words, lower case.

        Args:
            purpose: Name of the draws; words of different purposes are independent.
            count: How many.

        Raises:
            ContractError: The sounds do not give as many words.
        """
        draws = Draws(self._key, f"vocabulary/{purpose}")
        found: list[str] = []
        for _ in range(40):
            found += self._some(draws, count - len(found))
            if len(found) >= count:
                return found
        raise ContractError(f"the vocabulary of a universe ran out at {len(found)} of {count} words ({purpose})")

    def _some(self, draws: Draws, count: int) -> list[str]:
        onsets, vowels, codas = self._sounds
        size = count + count // 4 + 8
        # A row is a word: its number of syllables, then onset, vowel and coda of each.
        rows = zip(
            draws.below(size, 3).tolist(),
            *(draws.below(size, len(pool)).tolist() for _ in range(3) for pool in (onsets, vowels, codas)),
            strict=True,
        )
        known, taken, is_crude, found = known_words(), self._taken, self._crude.search, []
        for long, a, b, c, d, e, f, g, h, i in rows:
            word = onsets[a] + vowels[b] + codas[c] + onsets[d] + vowels[e] + codas[f]
            if long == 0:
                word = onsets[a] + vowels[b] + onsets[d] + vowels[e] + onsets[g] + vowels[h] + codas[i]
            fits = _SHORTEST <= len(word) <= _LONGEST and word not in taken and word not in known
            if fits and not is_crude(word):
                taken.add(word)
                found.append(word)
                if len(found) == count:
                    break
        return found
