"""Lets a policy wrapper act in a rollout: each episode's turns, as they are sampled, are what the wrapped policy says.

The rollout samples many conversations at once, and a wrapper wraps one policy; so a wrapper here may ask its policy
once a turn, and what it returns is played.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.train.interfaces import PolicyWrapper, RolloutHook
from agentenvs.train.records import Episode, Turn
from agentenvs.train.worlds import World


class Through(RolloutHook):
    """A hook that plays what a wrapper makes of each turn.

    Args:
        wrapper: Wraps.
        worlds: The mixture, by name.
    """

    name = "through-wrapper"

    def __init__(self, wrapper: PolicyWrapper, worlds: Mapping[str, World]) -> None:
        super().__init__()
        self._wrapper, self._worlds = wrapper, worlds
        self._seats: dict[tuple[str, int, int], tuple[_Said, Policy]] = {}

    def begin(self, episode: Episode, observation: Observation) -> str:
        """See :class:`RolloutHook`: wrap a policy for the episode."""
        said = _Said()
        policy = self._wrapper.wrap(said)
        spec = self._worlds[episode.env].spec
        policy.reset(spec, Task(spec.id, episode.ref))
        self._seats[_address(episode)] = said, policy
        return ""

    def before_turn(self, episode: Episode, observation: Observation) -> str:
        """See :class:`RolloutHook`: take note of what is seen."""
        self._seats[_address(episode)][0].seen = observation
        return ""

    def played(self, episode: Episode, turn: Turn, said: str) -> str:
        """See :class:`RolloutHook`: ask the wrapped policy."""
        inner, policy = self._seats[_address(episode)]
        inner.words = said
        if inner.seen is None:
            return said
        found: Any = policy.act(replace(inner.seen, admissible=turn.admissible))
        if not isinstance(found, str):
            raise PolicyError(f"{self._wrapper.name} made {type(found).__name__} of a turn", fix="return the words")
        return found

    def end(self, episode: Episode) -> None:
        """See :class:`RolloutHook`."""
        self._seats.pop(_address(episode), None)


class _Said:
    """The policy of an episode, whose turn was sampled already."""

    def __init__(self) -> None:
        self.seen: Observation | None = None
        self.words: str | None = None

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Nothing to get ready."""

    def act(self, observation: Observation) -> str:
        """Return what was sampled.

        Raises:
            PolicyError: It is asked again.
        """
        words, self.words = self.words, None
        if words is None:
            raise PolicyError(
                "a wrapper asked its policy twice in a turn",
                why="in an evaluation during training each turn is sampled once",
                fix="evaluate it with agentenvs eval --policy hf:PATH --wrapper NAME",
            )
        return words


def _address(episode: Episode) -> tuple[str, int, int]:
    return episode.env, episode.group, episode.sample
