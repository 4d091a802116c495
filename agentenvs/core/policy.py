"""Players: what a policy is, and the one thing that sets a privileged one apart.

A policy is anything with ``reset`` and ``act``; it never sees more than observations. One that needs the scenario (an
oracle) says so by subclassing :class:`Privileged`, and every record it makes says so too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any, Protocol, runtime_checkable

from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task


@runtime_checkable
class Policy(Protocol):
    """Who acts. ``act`` may be a coroutine function."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Get ready for an episode."""

    def act(self, observation: Observation) -> Any | Awaitable[Any]:
        """Return an action (see :mod:`agentenvs.core.actions`) for what is seen."""


class Privileged(Policy):
    """A policy that is shown the hidden scenario: oracles and other yardsticks."""

    @abstractmethod
    def reveal(self, scenario: Any) -> None:
        """Take the scenario; called after ``reset`` and before the first ``act``."""


@runtime_checkable
class Learner(Protocol):
    """A policy that keeps something from one episode to the next (in-context learning, skill libraries)."""

    def episode_ended(self, record: bytes, reward: float | None) -> None:
        """Take an ended episode: its record, and the reward as far as the run lets the policy see it.

        Where the run does not show the true reward, the record comes without rewards, verdict and chain.
        """

    def library_digest(self) -> str:
        """Return the SHA-256 of what the policy carries over; stands in the header of the next record."""
