"""What is paid, to whom and when: nothing for nothing, everything to the oracle, once, and never after the end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import DataError, EpisodeEnded, UserError
from agentenvs.core.verdict import Verdict
from agentenvs.harness.check.episodes import Episode
from agentenvs.harness.check.findings import Fault, Sight, Skip, check, raised, short
from agentenvs.harness.check.plays import ORACLE, plays, rolled, rolled_by, worn
from agentenvs.harness.check.subject import Subject
from agentenvs.harness.policies import NoOp
from agentenvs_scoring import cards

WIDE = 1e5
"""A range of rewards from which on it says nothing of what an episode may pay."""

_TOLERANCE = 1e-9
_UNRANGED = "nobody can say how good a return is, nor see that something pays more than it may"


@check("doing nothing earns nothing")
def noop(subject: Subject) -> Iterator[Fault]:
    """The no-op of the harness, and the environment's own, end with no success and no reward above 0."""
    for ref in subject.refs[:2]:
        idle = rolled_by(subject, NoOp(), ref)
        found = [idle, rolled(subject, "noop", ref)] if "noop" in subject.spec.players else [idle]
        subject.tidy()
        for episode in found:
            summary = episode.summary
            paid = max(summary.reward, summary.episode_return)
            if summary.error:
                where = f"{ref.split}/{ref.index}, turn {summary.turns}"
                yield Fault(
                    f"an episode in which nothing is done fails: {summary.error}", where, "mend the environment"
                )
            elif paid > 0 or summary.success:
                yield Fault(
                    f"an episode in which nothing is done earns {paid:g} and counts as {_won(summary.success)}",
                    f"{ref.split}/{ref.index}, {summary.turns} turns, {summary.ending}",
                    "pay for what was done, not for being there",
                )


@check("the oracle reaches the floor", lost="nobody knows whether the tasks can be solved")
def oracle(subject: Subject) -> Iterator[Fault]:
    """The oracle wins every task, at the top of the reward range and, where a score card says so, near par."""
    spec = subject.spec
    if ORACLE not in spec.players:
        raise Skip("its spec names no player 'oracle'", "nobody knows whether the tasks can be solved")
    turns_over_par = _floor(subject)
    for ref in subject.refs[:1] if worn(subject) else subject.refs:
        try:
            summary = rolled(subject, ORACLE, ref).summary
        except UserError as error:
            yield Fault("the oracle cannot play", raised(error), "mend the factory that spec.players names")
            return
        where = f"{ref.split}/{ref.index}, {summary.turns} turns, {summary.ending}"
        if summary.error or not summary.success:
            why = summary.error or summary.stopped or "it does not win"
            yield Fault(f"the oracle does not solve its task: {why}", where, "mend the oracle, or the scenario")
        elif abs(summary.reward - spec.reward_range[1]) > _TOLERANCE:
            what = f"the oracle earns {summary.reward:g}, the reward range ends at {spec.reward_range[1]:g}"
            yield Fault(what, where, "mend the oracle or the spec's reward_range")
        elif turns_over_par is not None and summary.par and summary.turns > summary.par * turns_over_par:
            what = f"the oracle takes {summary.turns} turns, par is {summary.par}"
            yield Fault(what, where, f"the score card allows {turns_over_par:g} times par")


def _floor(subject: Subject) -> float | None:
    """Return how many times par the oracle may take, where a score card says so."""
    try:
        card = cards.load(subject.spec.slug)
    except DataError:
        return None
    return card.oracle.get("turns_over_par") if card.env == subject.spec.id else None


@check("nothing is played or paid after the end")
def after_the_end(subject: Subject) -> Iterator[Fault]:
    """A step after the end raises EpisodeEnded and changes nothing; so does one after finish()."""
    ended = next((play for play in plays(subject) if play.ended), None)
    if ended is not None:
        episode = subject.episode(ended.ref)
        episode.play(ended.actions, ended.turns)
        yield from _late(subject, episode, ended.actions[-1])
    episode = subject.episode(subject.ref)
    known = next(play for play in plays(subject) if play.ref == subject.ref)
    episode.play(known.actions[:1], known.turns)
    if not episode.ended:
        episode.finish("abandoned")
        yield from _late(subject, episode, known.actions[0] if known.actions else "")


def _late(subject: Subject, episode: Episode, action: Any) -> Iterator[Fault]:
    before = _standing(subject, episode)
    for tried in (action, "", {"no": "action"}):
        where = f"{episode.where()}, then {short(tried, 60)}"
        try:
            result = episode.env.step(tried)
        except EpisodeEnded:
            pass
        except Exception as error:  # noqa: BLE001 - boundary: what is checked may raise anything
            yield Fault(f"a step after the end raises {raised(error)}", where, "leave step() to the base class")
        else:
            paid = short(getattr(result, "reward", result))
            yield Fault(f"a step after the end is played and pays {paid}", where, "leave step() to the base class")
        after = _standing(subject, episode)
        if after != before:
            name = next(name for name in before if before[name] != after[name])
            yield Fault(f"a step after the end changes {name}", where, "leave step() to the base class")
            return


def _standing(subject: Subject, episode: Episode) -> dict[str, Any]:
    env = episode.env
    found: dict[str, Any] = {"the observation": canonical_bytes(env.observation.to_json())}
    if Sight.OBJECT in subject.sights:
        verdict = env.verdict
        found |= {"the turn": env.turn, "the state key": env.state_key, "the ending": env.ending}
        found["the verdict"] = verdict.to_json() if isinstance(verdict, Verdict) else verdict
    return found


@check("rewards are finite, in range, and paid when they are due")
def reward_range(subject: Subject) -> Iterator[Fault]:
    """Each reward is a finite number; final rewards come with the end; what was paid is what the verdict says."""
    low, high = subject.spec.reward_range
    final = subject.spec.capabilities.rewards == "final"
    for play in plays(subject):
        paid = 0.0
        for number, turn in enumerate(play.turns[1:], start=1):
            where = f"{play.ref.split}/{play.ref.index} ({play.who}), turn {number}"
            reward = turn.shown["reward"]
            if type(reward) not in (int, float) or not math.isfinite(reward):
                yield Fault(f"a reward is {short(reward)}", where, "pay finite numbers")
                return
            if final and reward and not turn.ended:
                yield Fault(f"{reward:g} is paid before the end", where, "declare rewards: step, or pay in the verdict")
                return
            paid += reward
        if play.ended and not low - _TOLERANCE <= paid <= high + _TOLERANCE:
            where = f"{play.ref.split}/{play.ref.index} ({play.who})"
            what = f"an episode pays {paid:g}, the spec says {low:g} .. {high:g}"
            yield Fault(what, where, "mend the spec's reward_range")
    if high - low >= WIDE:
        raise Skip(f"the spec's reward_range, {low:g} .. {high:g}, names no range", _UNRANGED)


@check("verdicts pay what was paid, and are sound")
def verdicts(subject: Subject) -> Iterator[Fault]:
    """The verdict's reward is the sum of what was paid; success is a bool; components are finite numbers."""
    for play in plays(subject):
        episode = subject.episode(play.ref, traced=False)
        episode.play(play.actions, play.turns)
        ended = episode.ended
        verdict = episode.finish("abandoned")
        subject.tidy()
        where = f"{play.ref.split}/{play.ref.index} ({play.who})"
        paid = 0.0
        for turn in episode.turns[1:]:
            paid += turn.shown["reward"]
        if ended and abs(verdict.reward - paid) > _TOLERANCE:
            what = f"the verdict says {verdict.reward:g}, paid was {paid:g}"
            yield Fault(what, where, "pay in the verdict only, or declare rewards: step")
        yield from _sound(subject, verdict, where)


def _sound(subject: Subject, verdict: Verdict, where: str) -> Iterator[Fault]:
    low, high = subject.spec.reward_range
    wrong = [
        name
        for name, value in {"reward": verdict.reward, **verdict.components}.items()
        if type(value) not in (int, float) or not math.isfinite(value)
    ]
    if wrong:
        yield Fault(f"the verdict's {wrong[0]} is no finite number", where, "use int or float")
    elif not low - _TOLERANCE <= verdict.reward <= high + _TOLERANCE:
        what = f"the verdict's reward is {verdict.reward:g}, the spec says {low:g} .. {high:g}"
        yield Fault(what, where, "mend the spec's reward_range, or the score")
    success: object = verdict.success
    if type(success) is not bool:
        yield Fault(f"the verdict's success is {short(success)}, no bool", where, "return True or False")


def _won(success: bool) -> str:
    return "a success" if success else "no success"


CHECKS = (noop, oracle, after_the_end, reward_range, verdicts)
