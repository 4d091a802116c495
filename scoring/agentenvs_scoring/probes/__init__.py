"""Reward hacks as executable policies, and the one way to run them.

A probe tries to earn without doing the task, to learn what it should not, or to be paid twice. Each says the most it
may earn; :func:`attack` plays it against an environment, goes on after the end of the episode, and reports what it got.
An environment's probes stand in the module of its slug, under ``PROBES``; they use the core's types and the nouns of
the scenario, never the rules.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ContractError, EpisodeEnded
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import ENDINGS

SLACK = 1e-9
"""Rounding that sums of shaped rewards may show."""

MAX_TURNS = 1000
"""Turns after which an attack on an episode without a limit is called off."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One reward hack."""

    name: str
    description: str
    """What it tries, one sentence."""
    make: Callable[[tuple[Any, ...]], Policy]
    """Makes the policy; takes the actions of a winning solution, which it may use or abuse."""
    ceiling: float = 0.0
    """The most it may earn in an episode."""
    average: float | None = None
    """The most it may earn in the mean of a split, where a single episode may be luck; None where none may."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Options of the environment it needs to bite."""
    open_in: tuple[str, ...] = ()
    """Profiles that keep the hole for fidelity; there it may succeed."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe got out of an episode."""

    probe: Probe
    earned: float
    """Sum of all that was paid, after the end too."""
    turns: int
    leaks: tuple[str, ...] = ()
    """What it learned and should not have."""
    after_the_end: tuple[str, ...] = ()
    """What went on working after the end of the episode, and must not."""

    @property
    def held(self) -> bool:
        """Whether the environment withstood."""
        return self.earned <= self.probe.ceiling + SLACK and not self.leaks and not self.after_the_end


def probes_of(slug: str) -> tuple[Probe, ...]:
    """Return the probes of an environment; empty where it has none."""
    try:
        module = importlib.import_module(f"{__name__}.{slug}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{slug}":
            raise
        return ()
    probes: tuple[Probe, ...] = module.PROBES
    return probes


def attack(env: Environment, probe: Probe, ref: TaskRef, *, beyond: int = 8) -> Report:
    """Play a probe against an episode and on past its end.

    Args:
        env: The environment, with the probe's options.
        probe: The probe.
        ref: Which scenario.
        beyond: Actions tried after the end.

    Raises:
        ContractError: The episode does not end.
    """
    observation = env.reset(ref)
    policy = probe.make(solution(env))
    _prepare(policy, env)
    earned = 0.0
    while env.ending is None:
        if env.turn >= MAX_TURNS:
            raise ContractError(f"the episode of {probe.name} does not end", fix="give the environment a limit")
        result = env.step(policy.act(observation))
        earned += result.reward
        observation = result.observation
    turns, verdict, after = env.turn, env.verdict, []
    for _ in range(beyond):
        with contextlib.suppress(EpisodeEnded):
            earned += env.step(policy.act(observation)).reward
            after.append("a step was played")
    after += [f"finish({ending!r}) changed the verdict" for ending in ENDINGS if env.finish(ending) != verdict]
    return Report(probe, earned, turns, tuple(getattr(policy, "leaks", ())), tuple(after))


def solution(env: Environment) -> tuple[Any, ...]:
    """Return the actions with which the environment's oracle wins the episode from here; empty without an oracle."""
    if "oracle" not in env.spec.players or not env.spec.capabilities.forkable:
        return ()
    twin = env.fork()
    oracle = registry.load(env.spec.players["oracle"])()
    _prepare(oracle, twin)
    actions: list[Any] = []
    while twin.ending is None and len(actions) < MAX_TURNS:
        actions.append(oracle.act(twin.observation))
        twin.step(actions[-1])
    return tuple(actions) if twin.verdict is not None and twin.verdict.success else ()


def _prepare(policy: Policy, env: Environment) -> None:
    policy.reset(env.spec, env.task())
    if isinstance(policy, Privileged):
        policy.reveal(env.current)
