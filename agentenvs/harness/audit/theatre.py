"""Where an audit plays: the environment, the tasks it is tried on, what solves them, and what came of every play.

An environment in this process keeps one instance for each set of options; one behind a wire a session. Outcomes that
were judged here are kept for the audit of the score.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, EpisodeEnded
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.record import parse_records
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import ENDINGS, Ending, Verdict
from agentenvs.harness.check.findings import raised
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.plays import ORACLE, rolled
from agentenvs.harness.check.subject import Subject
from agentenvs_scoring.audits import Audit
from agentenvs_scoring.probes.generic import Known, Opening

MOST_TURNS = 400
"""Turns after which a play is stopped where the environment sets no limit, or a longer one."""

BEYOND = 3
"""Actions tried after the end of an episode."""


class Judged(NamedTuple):
    """An outcome that was judged."""

    who: str
    """Who played: ``oracle``, or the name of a hack."""
    scenario: Any
    facts: Mapping[str, JSON]
    ending: Ending
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Take:
    """One play."""

    ref: TaskRef
    earned: float
    """All that was paid, after the end too."""
    success: bool
    turns: int
    ended: bool
    """Whether it ended by itself."""
    leaks: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    """What went on working after the end."""
    raised: str = ""
    """What the environment raised; nothing was earned then."""

    @property
    def where(self) -> str:
        """Task and turns, for a message."""
        return f"{self.ref.split}/{self.ref.index}, {self.turns} turns"


class Theatre:
    """Where an audit plays.

    Args:
        subject: The environment.
        said: What it says of its audit.
        seed: Seed of the hacks' draws.
    """

    def __init__(self, subject: Subject, said: Audit, seed: int) -> None:
        self.subject = subject
        self.spec = subject.spec
        self.said = said
        self.seed = seed
        self.judged: dict[str, Judged] = {}
        self._envs: dict[str, Any] = {}

    @property
    def local(self) -> bool:
        """Whether the environment is in this process, or in a worker of it."""
        return isinstance(self.subject, Local)

    @property
    def refs(self) -> list[TaskRef]:
        """The tasks that are tried."""
        return self.subject.refs

    def stream(self, name: str) -> Stream:
        """Return a stream of random bits for a purpose, the same in each run with this seed."""
        return Stream(scenario_key(self.spec.slug, "audit", self.seed), name)

    def env(self, **options: Any) -> Any:
        """Return the instance with these options beyond the audit's own."""
        known = {option.name for option in self.spec.options}
        options = {name: value for name, value in options.items() if name in known}
        key = canonical(options)
        if key not in self._envs:
            self._envs[key] = self.subject.keep(self.subject.make(**options))
        return self._envs[key]

    def solution(self, ref: TaskRef) -> tuple[Any, ...]:
        """Return the actions with which the oracle wins a task; empty where there is none, or it does not."""
        return self.subject.once(("solution", ref), lambda: self._solved(ref))

    def _solved(self, ref: TaskRef) -> tuple[Any, ...]:
        if ORACLE not in self.spec.players:
            return ()
        try:
            episode = rolled(self.subject, ORACLE, ref)
            (record,) = parse_records(episode.record)
        except AgentEnvsError:
            return ()
        finally:
            self.subject.tidy()
        actions = tuple(turn["action"] for turn in record.turns)
        return actions if episode.summary.success and len(actions) <= MOST_TURNS else ()

    def openings(self) -> list[tuple[TaskRef, Opening]]:
        """Return all tasks with the words they begin with and what solves them; those nobody can solve are left out."""

        def made() -> list[tuple[TaskRef, Opening]]:
            solved = [(ref, self.solution(ref)) for ref in self.refs]
            return [(ref, Opening(self.env().reset(ref).text, actions)) for ref, actions in solved if actions]

        return self.subject.once("openings", made)

    def known(self, ref: TaskRef, nth: int, purpose: str) -> Known:
        """Return what an attacker knows of a task."""
        solution = self.solution(ref)
        elsewhere = [opening for other, opening in self.openings() if other != ref]
        others = tuple(opening for opening in elsewhere if opening.solution != solution)
        solutions = tuple(opening.solution for opening in elsewhere)
        stream = self.stream(f"{purpose}/{ref.split}/{ref.index}")
        return Known(self.spec, stream, nth, solution, others, solutions, meaning=self.said.meaning)

    def play(self, policy: Policy, ref: TaskRef, *, who: str = "", **options: Any) -> Take:
        """Play an episode and on past its end; whatever the environment raises ends it."""
        env = self.env(**options)
        try:
            take = self._played(env, policy, ref)
        except AgentEnvsError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - boundary: what is audited may raise anything
            self._envs = {key: made for key, made in self._envs.items() if made is not env}
            return Take(ref, 0.0, False, 0, False, raised=raised(error))
        self._keep(env, who)
        return take

    def act(self, actions: Iterable[Any], ref: TaskRef, *, who: str = "", **options: Any) -> Take:
        """Play actions, then let the episode be cut off."""
        return self.play(Acting(actions), ref, who=who, **options)

    def _played(self, env: Any, policy: Policy, ref: TaskRef) -> Take:
        observation = env.reset(ref)
        policy.reset(self.spec, env.task())
        if isinstance(policy, Privileged):
            policy.reveal(env.current)
        earned, turns, over = 0.0, 0, False
        while not over and turns < MOST_TURNS:
            action = policy.act(observation)
            if getattr(policy, "done", False):
                break
            result = env.step(action)
            observation, over = result.observation, result.terminated or result.truncated
            earned += result.reward
            turns += 1
        verdict = env.finish("truncated")
        if not over and self.spec.capabilities.rewards == "final":
            earned += verdict.reward
        more, late = _beyond(env, policy, observation, verdict)
        return Take(ref, earned + more, verdict.success, turns, over, tuple(getattr(policy, "leaks", ())), late)

    def _keep(self, env: Any, who: str) -> None:
        """Keep a judged outcome, once."""
        verdict = getattr(env, "verdict", None)
        if not isinstance(env, Environment) or verdict is None or env.ending is None:
            return
        current: Any = env.current
        key = canonical([current.digest, env.ending, dict(verdict.facts)])
        self.judged.setdefault(key, Judged(who, current, dict(verdict.facts), env.ending, verdict))

    def close(self) -> None:
        """Close every instance."""
        self._envs.clear()
        self.subject.end()


class Acting:
    """Plays actions it was given.

    Args:
        actions: Read as they are played.
    """

    def __init__(self, actions: Iterable[Any]) -> None:
        self._actions = iter(actions)
        self.done = False

    def reset(self, spec: Any, task: Any) -> None:
        """Do nothing."""

    def act(self, observation: Any) -> Any:
        """Return the next action."""
        for action in self._actions:
            return action
        self.done = True
        return ""


def _beyond(env: Any, policy: Policy, observation: Any, verdict: Verdict) -> tuple[float, tuple[str, ...]]:
    """Return what was paid after the end, and what went on working."""
    earned, late = 0.0, []
    for _ in range(BEYOND):
        with contextlib.suppress(EpisodeEnded):
            earned += env.step(_next(policy, observation)).reward
            late.append("a step after the end was played")
    if isinstance(env, Environment):
        late += [f"finish({ending!r}) changed the verdict" for ending in ENDINGS if env.finish(ending) != verdict]
    return earned, tuple(dict.fromkeys(late))


def _next(policy: Policy, observation: Any) -> Any:
    """Return what a player does after the end; it may not know what to do there."""
    try:
        return policy.act(observation)
    except Exception:  # noqa: BLE001 - boundary: a player is not asked to play on
        return ""


def apart(refs: Sequence[TaskRef], count: int) -> list[TaskRef]:
    """Return some tasks, from all over the list."""
    step = max(len(refs) // count, 1)
    return list(refs[::step])[:count]
