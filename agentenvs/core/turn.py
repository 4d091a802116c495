"""The small records a turn is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentenvs.core.actions import Action
from agentenvs.core.canon import JSON
from agentenvs.core.observation import Block, Observation
from agentenvs.core.trace import Fact
from agentenvs.core.verdict import Ending

FAILURES = frozenset(
    ("step_timeout", "step_crashed", "step_raised", "step_memory", "step_cpu", "step_size", "engine_failed")
)
"""Error codes of turns in which the environment failed, and not the player."""


class Outcome(NamedTuple):
    """What an author's ``_act`` says of one action."""

    blocks: tuple[Block, ...]
    """What the player sees of it."""
    valid: bool = True
    error: str | None = None
    """A stable code of why it was invalid; for traces and records, not for the player."""
    ended: bool = False
    """The episode is over."""
    ending: Ending = "terminated"
    """How, where it is over: ``aborted`` where the environment failed."""
    reward: float = 0.0
    """Paid now; only where the spec says ``rewards: step``."""
    data: Mapping[str, JSON] | None = None
    """Structured extras for ``info["data"]``."""
    actor: str = "player"


class StepResult(NamedTuple):
    """The five-tuple of a step, as in Gymnasium."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, JSON]
    """``invalid``: the action could not be parsed or done; ``data`` where there is some."""


class TraceParts(NamedTuple):
    """The author's share of a :class:`~agentenvs.core.trace.StepTrace`."""

    observed: tuple[Fact, ...] = ()
    used: tuple[Fact, ...] = ()
    written: tuple[Fact, ...] = ()
    milestones: tuple[str, ...] = ()
    canonical: Action | None = None
    """The one spelling of the action; what was played where None."""


class Effect(NamedTuple):
    """What the actions did not determine: journalled with its turn and fed back at replay."""

    kind: str
    value: JSON
