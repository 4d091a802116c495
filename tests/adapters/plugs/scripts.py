"""What wins an episode: the actions of a world's own player that knows the answer, as a list."""

from __future__ import annotations

import json
import sys
from typing import Any

import agentenvs
from agentenvs.core.policy import Privileged
from agentenvs.core.registry import load
from agentenvs.core.task import TaskRef


def script(env: str, split: str, index: int, player: str = "oracle") -> list[Any]:
    """Return the actions of a winning episode."""
    world = agentenvs.make(env)
    observation = world.reset(TaskRef(split, index))
    policy = load(world.spec.players[player])()
    policy.reset(world.spec, world.task())
    if isinstance(policy, Privileged):
        policy.reveal(world.current)
    actions: list[Any] = []
    while world.ending is None:
        actions.append(policy.act(observation))
        observation = world.step(actions[-1]).observation
    assert world.verdict is not None
    assert world.verdict.success, (env, split, index, world.verdict)
    return actions


def spoken(env: str, split: str, index: int) -> list[str]:
    """Return what a model says to win an episode."""
    words = [action if isinstance(action, str) else json.dumps(action) for action in script(env, split, index)]
    return [f"I think first.\nAction: {said}" for said in words]


if __name__ == "__main__":
    json.dump(script(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdout)
