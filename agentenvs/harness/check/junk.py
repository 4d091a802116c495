"""Nonsense of every kind is a turn: never an exception, never a change of the world, and it says so.

The hard cases are tried one by one, each on a fresh episode; then Hypothesis looks for more and shrinks what it finds.
What is wrong with one action is told under the check it breaks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from agentenvs.core.actions import End, parse_action
from agentenvs.core.errors import missing_extra
from agentenvs.harness.check import nonsense
from agentenvs.harness.check.branching import steady
from agentenvs.harness.check.episodes import Episode, Raised, difference
from agentenvs.harness.check.findings import MOST_FAULTS, UNDONE, Fault, Sight, Skip, check, raised, short
from agentenvs.harness.check.plays import plays
from agentenvs.harness.check.subject import Subject

RAISES, MOVES, SPENDS, SILENT = "raises", "moves", "spends", "silent"

_FIXES = {
    RAISES: "make what cannot be done an Outcome with valid=False; parse with care, and compare types exactly",
    MOVES: "look at all of an action before the world is changed, or undo what was begun",
    SPENDS: "an invalid action may cost declared budgets, and nothing else",
    SILENT: "return Outcome(…, valid=False) with words for what cannot be done",
}


@check("junk never raises")
def never_raises(subject: Subject) -> Iterator[Fault]:
    """No junk makes step() raise, or brings a worker process down."""
    yield from _found(subject)[RAISES][:MOST_FAULTS]


@check("junk is told to be invalid")
def is_told(subject: Subject) -> Iterator[Fault]:
    """What can be no action says ``info["invalid"]``, with words in the observation."""
    yield from _found(subject)[SILENT][:MOST_FAULTS]


@check("invalid actions leave the world as it was", Sight.STATE)
def leaves_the_world(subject: Subject) -> Iterator[Fault]:
    """The state key stays, and what comes later is what would have come without the junk."""
    if not steady(subject):
        raise Skip("its state key changes by itself, so nothing can be told by it", "")
    found = _found(subject)[MOVES][:MOST_FAULTS]
    yield from found
    if not found:
        yield from _afterwards(subject)


@check("invalid actions move only declared budgets")
def spends_only_budgets(subject: Subject) -> Iterator[Fault]:
    """Budgets keep their names and never grow, nothing is paid, the episode is not won or lost by nonsense."""
    yield from _found(subject)[SPENDS][:MOST_FAULTS]


@check("Hypothesis finds no junk that does harm", lost="junk beyond the built-in cases is not tried")
def hypothesis(subject: Subject) -> Iterator[Fault]:
    """Short lists of generated junk: nothing raises, moves the world, spends or passes for an action."""
    try:
        import hypothesis
    except ModuleNotFoundError as error:
        raise Skip(str(missing_extra("generating junk", "hypothesis", "check").fix)) from error
    if any(_found(subject).values()):
        raise Skip("the built-in cases do harm already", "")
    last: list[Fault] = []

    def tried(actions: list[Any]) -> None:
        for kind, fault in harm(subject, actions):
            if kind != MOVES or steady(subject):
                last[:] = [fault]
                raise _Harm

    _run(hypothesis, tried, subject)
    yield from last


class _Harm(Exception):
    """Junk did harm."""


def _run(hypothesis: Any, tried: Any, subject: Subject) -> None:
    strategy = hypothesis.strategies.lists(nonsense.strategy(subject.spec), min_size=1, max_size=4)
    settings = hypothesis.settings(
        max_examples=subject.effort.junk,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        verbosity=hypothesis.Verbosity.quiet,
    )
    # What was found is told by its fault; an environment that is not deterministic makes Hypothesis complain as well.
    with contextlib.suppress(_Harm, hypothesis.errors.HypothesisException):
        settings(hypothesis.given(strategy)(tried))()


def _found(subject: Subject) -> dict[str, list[Fault]]:
    """Return the harm the hard cases do, by kind; tried once for all checks."""

    def made() -> dict[str, list[Fault]]:
        found: dict[str, list[Fault]] = {RAISES: [], MOVES: [], SPENDS: [], SILENT: []}
        for case in nonsense.hard_cases(subject.spec):
            for kind, fault in harm(subject, [case]):
                found[kind].append(fault)
        return found

    return subject.once("junk", made)


def harm(subject: Subject, actions: list[Any]) -> Iterator[tuple[str, Fault]]:
    """Play junk on a fresh episode and yield what is wrong, with its kind."""
    env = subject.once("junk env", lambda: subject.keep(subject.make(**subject.listing())))
    episode = subject.watch(env, subject.ref, traced=False)
    try:
        episode.begin()
        for action in actions:
            if episode.ended:
                return
            episode.step(action)
            yield from _harm_of(subject, episode, action)
    except Raised as error:
        yield (
            RAISES,
            Fault(
                f"junk raises {raised(error.error)}",
                error.where,
                ": ".join(filter(None, (error.place, _FIXES[RAISES]))),
            ),
        )


def _harm_of(subject: Subject, episode: Episode, action: Any) -> Iterator[tuple[str, Fault]]:
    before, turn = episode.turns[-2:]
    parsed, where = parse_action(action), episode.where()
    invalid = turn.shown["info"].get("invalid")
    if turn.error in UNDONE:
        what = f"with junk a turn {UNDONE[turn.error]} ({turn.error})"
        yield RAISES, Fault(what, where, _FIXES[RAISES])
        return
    if nonsense.must_be_refused(subject.spec, parsed) and invalid is not True:
        yield SILENT, Fault("junk passes for a valid action", where, _FIXES[SILENT])
        return
    if not invalid:
        return
    if not turn.text.strip():
        yield SILENT, Fault("an invalid action is answered with nothing", where, _FIXES[SILENT])
    if turn.state != before.state:
        yield MOVES, Fault(f"an invalid action moves the world: {before.state} to {turn.state}", where, _FIXES[MOVES])
    if (spent := _spent(episode, parsed)) is not None:
        yield SPENDS, Fault(spent, where, _FIXES[SPENDS])


def _spent(episode: Episode, action: Any) -> str | None:
    before, turn = episode.turns[-2:]
    first, second = (one.shown["observation"].get("budgets", {}) for one in (before, turn))
    if set(first) != set(second):
        return f"an invalid action changes which budgets there are: {short(first)}, {short(second)}"
    if grown := [name for name in second if second[name] > first[name]]:
        return f"an invalid action fills the budget {grown[0]!r}"
    if turn.shown["reward"] > 0:
        return f"an invalid action earns {turn.shown['reward']:g}"
    if turn.shown["terminated"] and not isinstance(action, End):
        return "an invalid action ends the episode as terminated"
    return None


def _afterwards(subject: Subject) -> Iterator[Fault]:
    """Play with junk between the actions: where it was invalid, the state keys are those of the play without it."""
    cases = nonsense.hard_cases(subject.spec)
    stream = subject.stream("junk between")
    for play in plays(subject):
        if any(turn.effects for turn in play.turns):
            continue
        episode = subject.episode(play.ref, traced=False)
        plain: list[dict[str, Any]] = []
        with contextlib.suppress(Raised):  # which the check that junk never raises tells
            for action in play.actions:
                episode.play([stream.choice(cases), stream.choice(cases)])
                if episode.ended or any(turn.valid for turn in episode.turns[-2:]) or episode.step(action).ended:
                    break
                plain.append({"state_key": episode.turns[-1].state, "valid": episode.turns[-1].valid})
        wanted = [{"state_key": turn.state, "valid": turn.valid} for turn in play.turns[1 : len(plain) + 1]]
        found = difference(wanted, plain)
        subject.tidy()
        if found is not None:
            where = f"{play.ref.split}/{play.ref.index} ({play.who}), turn {found.turn + 1} of the play: {found}"
            yield Fault("invalid actions change what later actions do", where, _FIXES[MOVES])


CHECKS = (never_raises, is_told, leaves_the_world, spends_only_budgets, hypothesis)
