"""Yardsticks: who plays the household so that a model's score means something.

``oracle`` sees the scenario and plays a shortest solution; ``expert`` and ``prior`` see what every player sees
(:mod:`agentenvs.envs.household.seeker`); ``random`` draws among the admissible commands; ``noop`` looks around for
ever, the most well-formed way of doing nothing, and earns exactly 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenvs.core.anchors import Idle, Random
from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.envs.household.actions import command_text
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.prove import shortest
from agentenvs.envs.household.seeker import Expert, Prior
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.model import Scenario

_IDLE = "look"


class Oracle(Privileged):
    """Plays a shortest solution, worked out again each turn on a twin of the world.

    The twin does what the oracle says; where the observation is not the twin's reply, somebody else has acted too, and
    the oracle refuses to guess.
    """

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Note the rules and words that are played."""
        self._options: Mapping[str, Any] = spec.resolve({}) | dict(task.options)

    def reveal(self, scenario: Scenario) -> None:
        """Build the twin."""
        text = self._options["text"]
        self._twin = World(Layout(scenario, self._options["profile"], None if text == "auto" else text))
        self._expected = self._twin.opening()

    def act(self, observation: Observation) -> str:
        """Return the next command of a shortest solution; looks around where there is none.

        Raises:
            PolicyError: The world is not where its own commands have led.
        """
        twin = self._twin
        if observation.text != self._expected:
            raise PolicyError(
                "the oracle has lost its place",
                why=f"it expected {self._expected[:80]!r} and read {observation.text[:80]!r}",
                fix="let it play an episode from the start, alone",
            )
        plan = shortest(twin)
        command = command_text(twin.layout, plan[0]) if plan else _IDLE
        self._expected, _ = twin.step(command)
        return command


def oracle() -> Policy:
    """Return a player that sees the scenario and plays a shortest solution."""
    return Oracle()


def expert() -> Policy:
    """Return the hand-coded rule agent."""
    return Expert()


def prior() -> Policy:
    """Return the player that knows only where things usually lie."""
    return Prior()


def random() -> Policy:
    """Return the player that draws among the admissible commands."""
    return Random()


def noop() -> Policy:
    """Return the player that does nothing."""
    return Idle(_IDLE)
