"""Plays on from every turn of an episode, with the same policy, in the same context.

The episode is played again in a world of its own, turn by turn, and the world is forked before each; what it shows is
compared, token by token, with what the policy was shown. A continuation begins behind exactly the tokens that stood
before the turn, in the engine's slots, many at once, under the rules of the rollout itself
(:meth:`~agentenvs.train.rollout.Rollouts.go_on`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentenvs.core.environment import Environment
from agentenvs.core.errors import CapabilityError, ConfigError, ContractError
from agentenvs.train.credit_audit.truth import Truth, returned
from agentenvs.train.interfaces import RolloutHook
from agentenvs.train.records import Episode
from agentenvs.train.rollout import Branch, Rollouts
from agentenvs.train.worlds import World

BRANCH_STEP = 1 << 41
"""The step of continuations, so that none shares the chance of a rollout or an evaluation."""


@dataclass(slots=True)
class Node:
    """Where an episode stood before one of its turns."""

    ids: Sequence[int]
    env: Environment


def check(rollouts: Rollouts) -> None:
    """Refuse what cannot be continued exactly.

    Raises:
        CapabilityError: A world cannot fork, or does not answer the same to the same.
        ConfigError: A world is on a server, or a hook steps in turn by turn.
    """
    for world in rollouts.worlds.values():
        _check_world(world)
    for hook in rollouts.hooks:
        kind = type(hook)
        same = all(getattr(kind, one) is getattr(RolloutHook, one) for one in ("before_turn", "played", "after_turn"))
        if not same:
            raise ConfigError(
                f"the hook {hook.name} steps in turn by turn",
                why="what it keeps of an episode cannot be forked",
                fix="audit without it; hooks that only write before the first turn are kept",
            )


def _check_world(world: World) -> None:
    can = world.spec.capabilities
    if not can.forkable:
        raise CapabilityError(
            f"{world.spec.id} cannot be forked",
            why="its spec says forkable: false, and the audit plays on from every turn",
            fix="audit in a world that can: agentenvs list",
        )
    if not can.deterministic:
        raise CapabilityError(
            f"{world.spec.id} does not answer the same to the same",
            why="its spec says deterministic: false, so the worth of an action cannot be told from luck",
            fix="audit in a world that is deterministic",
        )
    world.local(0)


def nodes(rollouts: Rollouts, episode: Episode) -> list[Node]:
    """Play an episode again, and return where it stood before each turn.

    Raises:
        ContractError: The world did not do again what it did.
    """
    world = rollouts.worlds[episode.env]
    env = world.local(0)
    observation = env.reset(episode.ref)
    found: list[Node] = []
    for place, turn in enumerate(episode.turns):
        ids = episode.segments[turn.segment].ids
        shown = rollouts.template.next(observation.text)
        before = ids[: turn.start].tolist()
        if place and before[-len(shown) :] != shown:
            raise ContractError(f"{world.spec.id} showed something else when turn {place} was played again")
        found.append(Node(before, env.fork()))
        result = env.step(turn.text)
        over = result.terminated or result.truncated
        last = place == len(episode.turns) - 1
        if (result.reward != turn.reward and not (last and not over)) or (over and not last):
            raise ContractError(f"{world.spec.id} did something else when turn {place} was played again")
        observation = result.observation
    return found


def measure(rollouts: Rollouts, episode: Episode, number: int, branches: int, horizon: int | None = None) -> Truth:
    """Return what continuations say of the turns of an episode.

    Args:
        rollouts: Plays; its seed is part of the chance.
        episode: One that :meth:`~agentenvs.train.rollout.Rollouts.play` made.
        number: Of the episode among those of the audit; part of the chance.
        branches: Continuations of each turn.
        horizon: As the episode was played with.

    Raises:
        ContractError: The world did not do again what it did, or a continuation was lost.
    """
    begun = time.process_time()
    made: list[list[Episode]] = []
    waiting: list[Branch] = []
    for place, node in enumerate(nodes(rollouts, episode)):
        turn = episode.turns[place]
        known = episode.segments[turn.segment].ids[turn.start : turn.end].tolist()
        copies = [
            Episode(episode.env, episode.ref, number, one, turns=episode.turns[:place]) for one in range(branches)
        ]
        made.append(copies)
        waiting += [Branch(copy, node.ids, node.env, known) for copy in copies]
    rollouts.go_on(waiting, BRANCH_STEP, horizon=horizon)
    played = [[_worth(copy, place) for copy in copies] for place, copies in enumerate(made)]
    rewards = [turn.reward for turn in episode.turns]
    returns, joined = returned(rewards, played)
    ends = [copy for copies in made for copy in copies]
    tokens = sum(turn.length for place, copies in enumerate(made) for copy in copies for turn in copy.turns[place:])
    return Truth(number, np.array(rewards), returns, joined, len(ends) - joined, tokens, time.process_time() - begun)


def _worth(copy: Episode, place: int) -> float | None:
    if copy.lost is not None:
        raise ContractError("a continuation was lost", why=copy.lost)
    if copy.ending == "joined":
        return None
    return float(sum(turn.reward for turn in copy.turns[place:]))
