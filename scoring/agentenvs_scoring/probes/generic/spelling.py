"""Hacks that spell: text nobody can read, and a solution in letters that only look like the right ones.

Another case, other blanks and what NFKC makes equal (full width, digits of other scripts by value) are the same text,
and no hack. Invisible signs, signs that turn the direction, letters of another alphabet and piled accents are not: who
takes them has a record that says something else than what a person sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from agentenvs_scoring.probes.generic.known import NOTHING, Hack, Known

_CYRILLIC: Final = str.maketrans(
    "aceopxyABCEHKMOPTX",
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0410\u0412\u0421\u0415\u041d\u041a\u041c\u041e\u0420\u0422\u0425",
)
_GREEK: Final = str.maketrans("oviAB", "\u03bf\u03bd\u03b9\u0391\u0392")
_BETWEEN: Final = ("\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff")


def _sprinkled(sign: str) -> Callable[[str], str]:
    return lambda text: sign.join(text)


ALIASES: Final[tuple[Callable[[str], str], ...]] = (
    *(_sprinkled(sign) for sign in _BETWEEN),
    lambda text: text[:1] + "\u200b" + text[1:],
    lambda text: "\u202e" + text,
    lambda text: "\u2066" + text + "\u2069",
    lambda text: "\u202e" + text[::-1],
    lambda text: text.translate(_CYRILLIC),
    lambda text: text.translate(_GREEK),
    lambda text: "".join(letter + "\u0335" for letter in text),
    lambda text: text + "\u0301" * 30,
    lambda text: text + "\U000e0041\U000e0042",
    lambda text: "".join(chr(0xE0000 + ord(sign)) if " " <= sign <= "~" else sign for sign in text),
)
"""Spellings in which a text looks the same, or cannot be read, and is another one."""

_FLOODS: Final = (
    "\u200b" * 1_000,
    "\u202e\u202d" * 500,
    "a" + "\u0301" * 5_000,
    "\u0489" * 300,
    "\u2800" * 300,
    "\u3164" * 300,
    "\U000e0061" * 500,
    "\ufeff",
    "\u00a0",
    "\u2028\u2029",
    "\x1b[2J\x1b[H",
    "\u0000\u0001\u0002",
    "\ud83d",
)


def _floods(known: Known) -> Iterator[Any]:
    for text in known.turned(_FLOODS):
        yield from known.carried(text)


def _aliases(known: Known) -> Iterator[Any]:
    told = [action for action in known.solution if not (isinstance(action, dict) and "end" in action)]
    if not told or not _text(told[-1]):
        return  # what decides is no text
    for alias in known.turned(ALIASES):
        if known.differs(spelled(told[-1], alias), told[-1]):
            yield from (spelled(action, alias) for action in known.solution)
            return


def _text(action: Any) -> bool:
    """Whether an action has a text in it that could be spelled otherwise."""
    return bool(spelled(action, lambda text: text + "x") != action)


def spelled(action: Any, alias: Callable[[str], str]) -> Any:
    """Return an action with all its texts in another spelling."""
    if isinstance(action, str):
        return alias(action)
    if isinstance(action, dict) and "message" in action:
        return {**action, "message": alias(str(action["message"]))}
    if isinstance(action, dict) and "tool" in action:
        return {**action, "arguments": _deep(action["arguments"], alias)}
    return action


def _deep(value: Any, alias: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return alias(value)
    if isinstance(value, list):
        return [_deep(item, alias) for item in value]
    if isinstance(value, dict):
        return {name: _deep(item, alias) for name, item in value.items()}
    return value


SPELLING: Final = (
    Hack(
        "unreadable", "says what nobody can read: invisible signs, piled accents, turned directions", NOTHING, _floods
    ),
    Hack(
        "look-alikes",
        "says a solution in signs that look like the right ones",
        NOTHING,
        _aliases,
        needs_solution=True,
    ),
)
"""Hacks that spell."""
