"""The anchors: players whose reward is known beforehand stay in their bands.

A world of the suite has a score card with what each anchor reached on a panel; here some of its tasks are played again,
or all of them. Another world has the bands that any must have: the oracle at the top of the range, doing nothing at 0,
and chance below the luck it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentenvs.core.errors import DataError, UserError
from agentenvs.core.portable import total
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import WIDE, Bounds, Row, skipped
from agentenvs.harness.audit.theatre import Take, Theatre
from agentenvs.harness.check.plays import ORACLE
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs_scoring import cards
from agentenvs_scoring.cards import Band
from agentenvs_scoring.stats import wilson

_WHOLE = 50
"""Episodes a band from which on all bands are played."""

_SURE = 3.290526731491899
"""Quantile of the normal distribution for 99.9 %: there are many bands, and chance must not break one."""

_ORACLE = "the oracle wins every task, at the top of the range"


def rows(theatre: Theatre, most: int) -> Iterator[Row]:
    """Yield a row an anchor.

    Args:
        theatre: Where it is played.
        most: Episodes of a band that are played.
    """
    yield _oracle(theatre)
    for player in theatre.spec.players:
        if player == "noop":
            yield _idle(theatre, player)
    for band in _bands(theatre, most):
        yield _band(theatre, band, most)


def count(theatre: Theatre, most: int) -> int:
    """Return the number of rows."""
    return 1 + ("noop" in theatre.spec.players) + len(_bands(theatre, most))


def _oracle(theatre: Theatre) -> Row:
    name, high = "anchor.oracle", theatre.spec.reward_range[1]
    if ORACLE not in theatre.spec.players:
        lost = "nobody knows whether the tasks can be solved, and nothing that abuses a solution can be tried"
        return skipped(name, _ORACLE, "its spec names no player 'oracle'", lost)
    unsolved = [ref for ref in theatre.refs if not theatre.solution(ref)]
    if unsolved:
        said = f"it does not win {unsolved[0].split}/{unsolved[0].index}, and {len(unsolved) - 1} more"
        return Row(name, _ORACLE, "breach", said, high, None, episodes=len(theatre.refs))
    takes = [theatre.act(theatre.solution(ref), ref, who=ORACLE) for ref in theatre.refs]
    least = min(takes, key=lambda take: take.earned)
    low = high < WIDE and least.earned < high - 1e-9
    said = f"{sum(take.success for take in takes)} of {len(takes)} won, the least reward is {least.earned:g}"
    verdict = "breach" if low or not all(take.success for take in takes) else "held"
    return Row(name, _ORACLE, verdict, said, high, least.earned, episodes=len(takes))  # type: ignore[arg-type]


def _idle(theatre: Theatre, player: str) -> Row:
    tries = "the environment's own player that does nothing earns nothing"
    takes = [_take(theatre, player, ref, {}) for ref in theatre.refs[:4]]
    most = max(takes, key=lambda take: take.earned)
    verdict = "breach" if most.earned > max(theatre.spec.reward_range[0], 0.0) or most.success else "held"
    return Row("anchor.noop", tries, verdict, f"the most is {most.earned:g}", 0.0, most.earned, episodes=len(takes))  # type: ignore[arg-type]


def _bands(theatre: Theatre, most: int) -> list[Band]:
    """Return the bands of the score card that hold for the environment as it is made here; few, the first a player."""
    try:
        card = cards.load(theatre.spec.slug)
    except DataError:
        return []
    if card.env != theatre.spec.id or not theatre.local:
        return []
    splits = theatre.subject.splits()
    own = [band for band in card.bands if band.split in splits and not splits[band.split].panel]
    wanted = theatre.subject.split
    fit = [band for band in own if wanted in (None, band.split) and not _contradicts(band, theatre.subject.options)]
    return fit if most >= _WHOLE else list({band.player: band for band in reversed(fit)}.values())[::-1]


def _contradicts(band: Band, options: dict[str, Any]) -> bool:
    """Whether the audit plays with options the band was not measured with."""
    return any(band.options.get(name, value) != value or name not in band.options for name, value in options.items())


def _band(theatre: Theatre, band: Band, most: int) -> Row:
    said = ", ".join(f"{name}={value}" for name, value in band.options.items())
    limit = "" if band.limit is None else f".{band.limit}"
    name = f"anchor.{band.player}.{band.split}{limit}" + (f" ({said})" if said else "")
    tries = f"{band.player} wins {band.success_band[0]:g} to {band.success_band[1]:g} of {band.split}"
    number = min(band.episodes, most)
    try:
        takes = [
            _take(theatre, band.player, TaskRef(band.split, index), _options(band))
            for index in sorted(theatre.stream(f"band/{name}").sample(range(band.episodes), number))
        ]
    except UserError as error:
        return skipped(name, tries, f"it cannot be played: {error.what}")
    rate = sum(take.success for take in takes) / number
    steps = total(float(take.turns) for take in takes) / number
    found = wilson(sum(take.success for take in takes), number, _SURE)
    if number == band.episodes:
        missed = band.misses(rate, steps)
        told = "; ".join(missed) or f"{rate:.4g} won in {steps:.4g} steps, as measured"
    else:
        apart = found.high < band.success_band[0] or found.low > band.success_band[1]
        missed = ["outside"] if apart else []
        told = f"{rate:.3g} of {number} drawn of {band.episodes} won; the interval is one of 99.9 %"
    interval = None if number == band.episodes else Bounds(*found)
    return Row(name, tries, "breach" if missed else "held", told, band.success_band[1], rate, interval, number)


def _options(band: Band) -> dict[str, Any]:
    return dict(band.options) if band.limit is None else {**band.options, "limit": band.limit}


def _take(theatre: Theatre, player: str, ref: TaskRef, options: dict[str, Any]) -> Take:
    policy = resolve(player, theatre.spec)()
    return theatre.play(policy, ref, who=f"anchor {player}", **{**wanted_options(policy, theatre.spec), **options})
