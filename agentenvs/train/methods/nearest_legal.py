"""Nearest legal: what is no legal action is played as the legal action most like it.

After Huang et al. 2022 (Language models as zero-shot planners, ICML, section 3.2), who map what a model says to the
admissible action with the nearest sentence embedding, and play nothing below a threshold. Here likeness is that of
letters: ``difflib``'s ratio, twice the matching letters over all letters of both, without regard to case; of equal ones
the first in the environment's order. Below ``least`` the words are played as they are. The context keeps what the
policy said, and the world answers what was played. Where the legal actions are not told, nothing is changed.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.train.interfaces import PolicyWrapper, wrappers
from agentenvs.train.methods import Recipe, recipe


@wrappers.register
class NearestLegal(PolicyWrapper):
    """Acts through a policy whose words are mapped to legal actions."""

    name = "nearest-legal"

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        least: float = 0.6
        """The least likeness, between 0 and 1."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            if not 0 <= self.least <= 1:
                raise ValueError("least is between 0 and 1")

    config: Config

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.turns = self.changed = 0

    def wrap(self, policy: Policy) -> Policy:
        """See :class:`PolicyWrapper`.

        Raises:
            PolicyError: The policy is shown the scenario; what it says is legal.
        """
        if isinstance(policy, Privileged):
            raise PolicyError("a policy that is shown the scenario needs no mapping", fix="leave the wrapper out")
        return cast("Policy", _Mapped(policy, self))

    def metrics(self) -> dict[str, float]:
        """See :class:`PolicyWrapper`: the share of turns whose words were changed."""
        return {"changed": self.changed / max(self.turns, 1)}

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`."""
        return {"turns": self.turns, "changed": self.changed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self.turns, self.changed = int(state["turns"]), int(state["changed"])

    def mapped(self, said: Any, legal: Sequence[str] | None) -> Any:
        """Return what is played, and count."""
        self.turns += 1
        if not isinstance(said, str) or not legal or said in legal:
            return said
        found = nearest(said, legal, self.config.least)
        self.changed += found != said
        return found


def nearest(said: str, legal: Sequence[str], least: float) -> str:
    """Return the legal action most like some words; the words where none is as like as ``least``."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(said.strip().lower())
    best, likeness = said, least
    for action in legal:
        matcher.set_seq1(action.lower())
        if matcher.real_quick_ratio() < likeness or matcher.quick_ratio() < likeness:
            continue  # both are bounds from above
        ratio = matcher.ratio()
        if ratio > likeness or (ratio == likeness and best == said):
            best, likeness = action, ratio
    return best


class _Mapped:
    def __init__(self, policy: Policy, owner: NearestLegal) -> None:
        self._policy, self._owner = policy, owner
        self.wants = {**(getattr(policy, "wants", None) or {}), "admissible": True}

    def reset(self, spec: EnvSpec, task: Task) -> None:
        self._policy.reset(spec, task)

    def act(self, observation: Observation) -> Any | Awaitable[Any]:
        said = self._policy.act(observation)
        if inspect.isawaitable(said):
            return self._later(said, observation)
        return self._owner.mapped(said, observation.admissible)

    async def _later(self, said: Awaitable[Any], observation: Observation) -> Any:
        return self._owner.mapped(await said, observation.admissible)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._policy, name)


recipe(
    Recipe(
        name="grpo-nearest",
        title="GRPO, evaluated through the nearest legal action",
        source="after Huang et al. 2022 (Language models as zero-shot planners), section 3.2; GRPO as in grpo",
        provenance="like",
        credits=(("group-relative", {"deviation": True}),),
        wrapper=("nearest-legal", {}),
        aggregation="sequence-mean",
    )
)
