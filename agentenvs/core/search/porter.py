"""Porter's stemmer: English words without their endings.

Source: M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980, with the two changes of its author's own
program (``bli`` for ``abli``, and the rule ``logi``), which every common implementation has. Words that are not all of
a to z, and those of one or two letters, are left as they are.
"""

from __future__ import annotations

import itertools
import re
from typing import TypeAlias

Rules: TypeAlias = tuple[tuple[str, str], ...]

_WORD = re.compile("[a-z]{3,}")
_VOWELS = "aeiou"

# Where one ending is the end of another, the longer stands first.
_STEP_2: Rules = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("ousli", "ous"), ("eli", "e"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP_3: Rules = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"),  # codespell:ignore
    ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent",  # codespell:ignore
    "ion", "ous", "ou", "ism", "ate", "iti", "ive", "ize",
)  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a folded word."""
    if not _WORD.fullmatch(word):
        return word
    word = _step_1(word)
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    return _step_5(_step_4(word))


def _consonants(word: str) -> list[bool]:
    """Return for each letter whether it is a consonant; y is one at the start and after a vowel."""
    found: list[bool] = []
    for letter in word:
        found.append(letter not in _VOWELS and (letter != "y" or not found or not found[-1]))
    return found


def _measure(word: str) -> int:
    """Return m of ``[C](VC)^m[V]``."""
    kinds = _consonants(word)
    return sum(1 for before, after in itertools.pairwise(kinds) if after and not before)


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short(word: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last not w, x or y."""
    kinds = _consonants(word)
    return kinds[-3:] == [True, False, True] and word[-1] not in "wxy"


def _replaced(word: str, rules: Rules) -> str:
    """Replace the longest ending that a rule names, where there is a syllable before it."""
    for ending, new in rules:
        if word.endswith(ending):
            head = word[: -len(ending)]
            return head + new if _measure(head) > 0 else word
    return word


def _step_1(word: str) -> str:
    """Take off plurals, -ed and -ing, and turn y into i."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _without_tense(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _without_tense(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        head = word[: -len(ending)]
        if word.endswith(ending):
            return _mended(head) if _has_vowel(head) else word
    return word


def _mended(head: str) -> str:
    if head.endswith(("at", "bl", "iz")):
        return head + "e"
    if _doubled(head) and head[-1] not in "lsz":
        return head[:-1]
    return head + "e" if _measure(head) == 1 and _short(head) else head


def _step_4(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            head = word[: -len(ending)]
            fits = _measure(head) > 1 and (ending != "ion" or head.endswith(("s", "t")))
            return head if fits else word
    return word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        head = word[:-1]
        measure = _measure(head)
        if measure > 1 or (measure == 1 and not _short(head)):
            word = head
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
