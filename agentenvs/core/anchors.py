"""Players that are the same in every world: one draws among what is admissible, one says the same for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import Task


class Random:
    """Draws among the admissible commands, all equally likely, from a stream of the task's own."""

    wants: ClassVar[Mapping[str, Any]] = {"admissible": True}

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Seed the draw, so that a run can be made again."""
        self._stream = Stream(scenario_key(spec.slug, task.ref.split, task.ref.index), "player.random")

    def act(self, observation: Observation) -> str:
        """Return one of the admissible commands.

        Raises:
            PolicyError: They are not listed.
        """
        if not observation.admissible:
            raise PolicyError(
                "the random player needs the admissible commands",
                why="it draws among them, and the environment does not list them",
                fix="make the environment with the option admissible=true",
            )
        return self._stream.choice(observation.admissible)


class Idle:
    """Says the same for ever.

    Args:
        action: What does nothing in this world, said in its most well-formed way.
    """

    def __init__(self, action: Any) -> None:
        self._action = action

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Do nothing."""

    def act(self, observation: Observation) -> Any:
        """Return the action."""
        return self._action
