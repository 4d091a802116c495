"""Which kind of question, of how many hops, stands at which place: a deck of cards, dealt (``catalogue.toml``).

A deck has a rung's weight times a kind's weight of cards of each pair, and the hops of a rung in turn, so that over a
whole deck every cell is asked as often as its weight says, whatever is drawn.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

from agentenvs.core.streams import Stream
from agentenvs_scenarios.searchworld.questions import FEWEST, KINDS

MIXED: Final = "mixed"
RUNGS: Final = ("easiest", "easy", "medium", "hard", "hardest")
DIFFICULTIES: Final = (MIXED, *RUNGS)

DECK: Final = 300
"""Cards of a deck."""
GRADED: Final = 3
"""Hops from which on a question is graded: no shortcut of one or two searches may answer it."""


class Rung(NamedTuple):
    """One rung."""

    name: str
    weight: int
    least: int
    most: int


class Split(NamedTuple):
    """One split."""

    size: int | None
    questions: int
    """Of one universe."""
    sealed: bool
    description: str


class Card(NamedTuple):
    """What is asked at one place."""

    rung: str
    kind: str
    hops: int
    variant: int
    """Different for every card of a kind."""


class Catalogue(NamedTuple):
    """All that the catalogue says."""

    splits: Mapping[str, Split]
    kinds: Mapping[str, int]
    rungs: Mapping[str, Rung]
    ceilings: Mapping[str, float]
    budgets: Mapping[str, int]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """Return the catalogue."""
    text = resources.files("agentenvs_scenarios.searchworld").joinpath("catalogue.toml").read_text("utf-8")
    form = tomllib.loads(text)
    return Catalogue(
        splits={
            name: Split(row["size"] or None, row["questions"], row["sealed"], row["description"])
            for name, row in form["splits"].items()
        },
        kinds={kind: form["kinds"][kind] for kind in KINDS},
        rungs={name: Rung(name, row["weight"], *row["hops"]) for name, row in form["difficulty"].items()},
        ceilings=form["ceilings"],
        budgets=form["budgets"],
    )


def deck(key: bytes, difficulty: str) -> tuple[Card, ...]:
    """Return the cards of a deck in the order in which they are dealt.

    Args:
        key: Of the deck.
        difficulty: ``mixed``, or a rung.

    Raises:
        KeyError: There is no such rung.
    """
    known = catalogue()
    rungs = [rung for rung in known.rungs.values() if rung.weight] if difficulty == MIXED else [known.rungs[difficulty]]
    stream = Stream(key, f"deck/{difficulty}")
    whole = sum(known.kinds.values())
    cards: list[Card] = []
    for kind, share in known.kinds.items():
        dealt: list[Card] = []
        for rung in rungs:
            weight = rung.weight if difficulty == MIXED else DECK // whole
            dealt += _cards(stream, rung, kind, weight * share)
        variants = list(range(len(dealt)))
        stream.shuffle(variants)
        cards += [card._replace(variant=variant) for card, variant in zip(dealt, variants, strict=True)]
    stream.shuffle(cards)
    return tuple(cards)


def _cards(stream: Stream, rung: Rung, kind: str, count: int) -> list[Card]:
    if FEWEST[kind] > rung.most:  # too few hops for this kind: a plain chain instead
        kind = "chain"
    hops = range(max(rung.least, FEWEST[kind]), rung.most + 1)
    first = stream.below(len(hops))
    return [Card(rung.name, kind, hops[(first + place) % len(hops)], 0) for place in range(count)]
