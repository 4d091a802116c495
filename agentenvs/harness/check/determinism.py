"""The same actions give the same bytes: twice, after another episode, under other seeds of the global generators."""

from __future__ import annotations

import random  # noqa: TID251 - to see that nobody else uses it
from collections.abc import Callable, Iterator
from typing import Any

from agentenvs.harness.check.episodes import Difference, difference, rows
from agentenvs.harness.check.findings import Fault, Sight, Skip, check
from agentenvs.harness.check.plays import Play, plays
from agentenvs.harness.check.subject import Subject

_NAMED = "draw chance from a named agentenvs.core.streams.Stream made from the scenario's key"
_REMEMBERS = "nobody knows whether an episode shows what was done in the one before"
_ORDER = "look for clocks, global random generators, counters shared by instances, and what a reset does not set anew"


@check("the same actions give the same bytes twice", promise="deterministic")
def twin_runs(subject: Subject) -> Iterator[Fault]:
    """Play each play again with a fresh instance: observations, rewards, info, state keys and traces are equal."""
    for play in plays(subject):
        found = again(subject, play)
        if found is not None:
            yield Fault("two runs of the same actions differ", at(play, found), _ORDER)


@check("a reset forgets the episode before", promise="deterministic", lost=_REMEMBERS)
def reset_forgets(subject: Subject) -> Iterator[Fault]:
    """Play an episode with an instance that has played another one before."""
    known = plays(subject)
    for before, play in zip(known, [*known[1:], *known[:1]], strict=True):
        env = subject.make()
        subject.watch(env, before.ref, traced=False).play(before.actions, before.turns)
        found = difference(rows(play.turns), rows(subject.watch(env, play.ref).play(play.actions, play.turns)))
        subject.tidy()
        fed = subject.feeds or not any(turn.effects for turn in play.turns)
        if found is not None and fed and again(subject, play) is None:
            fix = "set everything anew in _begin(); keep what changes in self.world and nowhere else"
            yield Fault("what an instance played before shows in its next episode", at(play, found), fix)


@check("the global random generators are neither used nor touched", Sight.PROCESS, promise="deterministic")
def global_random(subject: Subject) -> Iterator[Fault]:
    """Play under two seeds of ``random`` and NumPy; compare, and look whether the generators have moved."""
    if subject.spec.capabilities.execution == "process":
        raise Skip("each instance has a process, and so a seed, of its own: the twin runs tell", "")
    with _kept_generators() as seed:
        for play in plays(subject)[:4]:
            seed(1)
            before = _standing()
            first = subject.episode(play.ref).play(play.actions, play.turns)
            moved = _standing() != before
            seed(2)
            second = subject.episode(play.ref).play(play.actions, play.turns)
            subject.tidy()
            found = difference(rows(first), rows(second))
            if found is not None:
                yield Fault(
                    "another seed of the global random generator gives another episode", at(play, found), _NAMED
                )
            elif moved:
                yield Fault("an episode seeds or moves the global random generator", f"task {play.ref}", _NAMED)


def again(subject: Subject, play: Play) -> Difference | None:
    """Return how a second run of a play differs from the first; None where what may differ cannot be fed back."""
    if not subject.feeds and any(turn.effects for turn in play.turns):
        return None
    turns = subject.episode(play.ref).play(play.actions, play.turns)
    subject.tidy()
    return difference(rows(play.turns), rows(turns))


def at(play: Play, found: Difference) -> str:
    """Return where a play differs from its twin, for a message."""
    action = f" after {play.actions[found.turn - 1]!r}" if 0 < found.turn <= len(play.actions) else ""
    return f"{play.ref.split}/{play.ref.index} ({play.who}), {found}{action}"


class _kept_generators:
    """Gives the global generators their state back."""

    def __enter__(self) -> Callable[[int], None]:
        import numpy as np

        self._random, self._numpy = random.getstate(), np.random.get_state()

        def seed(number: int) -> None:
            random.seed(number)
            np.random.seed(number)  # noqa: TID251 - to see that nobody else uses it

        return seed

    def __exit__(self, *raised: object) -> None:
        import numpy as np

        random.setstate(self._random)
        np.random.set_state(self._numpy)


def _standing() -> tuple[Any, ...]:
    import numpy as np

    state: Any = np.random.get_state()
    return random.getstate(), state[0], state[1].tobytes(), tuple(state[2:])


CHECKS = (twin_runs, reset_forgets, global_random)
