"""The smallest environment that uses all of the contract: steps to a goal by words, by tools, or by a thrown die."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentenvs.core import registry
from agentenvs.core.actions import Action, End, ToolCall
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.observation import Block, TextBlock
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict

WALK = ToolSpec("walk", "Walks.", {"type": "object", "properties": {"by": {"type": "integer"}}}, ({"by": 1},))


@dataclass(frozen=True)
class Road:
    name: str
    goal: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "goal": self.goal}

    @property
    def digest(self) -> str:
        return digest(self.to_json())


class Toy(Environment):
    """Walk to the goal: index 0 lies one step away, index 1 two, and so on up to four."""

    spec = EnvSpec(
        id="toytests/Toy-v0",
        slug="toytoy",
        release="3",
        since="9.9",
        entry_point="tests.core.toy:Toy",
        title="Toy",
        description="Walk to the goal.",
        accepts=("text", "tool", "end"),
        tools=(WALK,),
        max_calls=2,
        splits=(SplitSpec("train", None), SplitSpec("test", 3)),
        default_split="train",
        budgets={"steps": 6, "throws": 2},
        options=(
            OptionSpec("shaping", "bool", False, "Pay the potential's differences."),
            OptionSpec("admissible", "bool", False, "List what may be said."),
            OptionSpec("limit", "int", 6, "Turns; 0 is none.", minimum=0),
            OptionSpec("folder", "str", None, "Belongs to the machine.", secret=True),
        ),
        gamma=0.5,
        max_observation_bytes=200,
    )

    def scenario(self, split: str, index: int) -> Road:
        return Road(f"{split} {index}", index % 4 + 1)

    def _begin(self, scenario: Road) -> tuple[Block, ...] | str:
        self.world = {"at": 0, "goal": scenario.goal, "throws": 2}
        return f"The goal is {scenario.goal} steps away."

    def _act(self, action: Action) -> Any:
        if isinstance(action, End):
            return Outcome((TextBlock("You gave up."),), ended=True)
        if isinstance(action, ToolCall):
            by = action.arguments.get("by", 1)
            return self._walk(by) if type(by) is int else Outcome((TextBlock("How far?"),), False, "how_far")
        if action == "throw":
            self.world["throws"] -= 1
            return self._walk(self.effect("die", lambda: 1))
        if action == "crash":
            return Outcome((TextBlock("It broke."),), False, "broke", ended=True, ending="aborted")
        if action == "story":
            return Outcome((TextBlock("long " * 100),))
        return self._walk(1) if action == "walk" else Outcome((TextBlock("What?"),), False, "unknown")

    def _walk(self, by: int) -> Outcome:
        self.world["at"] += by
        there = self.world["at"] >= self.world["goal"]
        step = by / 4 if self.spec.capabilities.rewards == "step" else 0.0
        return Outcome((TextBlock(f"at {self.world['at']}"),), ended=there, reward=step, data={"by": by})

    def _judge(self, ending: Ending) -> Verdict:
        return self.rejudge(self.current, {"at": self.world["at"]}, ending)

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, Any], ending: Ending) -> Verdict:
        there = facts["at"] >= scenario.goal
        return Verdict(1.0 if there else 0.0, there, {"there": float(there)}, ("arrived",) if there else (), facts)

    def _key(self) -> int:
        return int(self.world["at"])

    def _save(self) -> Any:
        return self.world

    def _load(self, scenario: Road, saved: Any) -> None:
        self.world = {"at": int(saved["at"]), "goal": scenario.goal, "throws": int(saved["throws"])}

    def _budgets(self) -> Mapping[str, int]:
        return {"throws": self.world["throws"]}

    def _admissible(self) -> tuple[str, ...]:
        return ("walk", "throw") if self.world["throws"] else ("walk",)

    def _potential(self) -> float:
        return float(self.world["at"])

    def _instruction(self) -> str:
        return "Walk to the goal."

    def _trace(self) -> TraceParts:
        return TraceParts(written=(Fact("walker", "at", str(self.world["at"]), 0),), milestones=("moved",))


class Paying(Toy):
    """The same, paid by the step."""

    spec = replace(
        Toy.spec, id="toytests/Paying-v0", slug="paying", capabilities=Capabilities(rewards="step"), players={}
    )


class Waiting(Toy):
    """The same, with an ``_act`` that awaits."""

    spec = replace(Toy.spec, id="toytests/Waiting-v0", slug="waiting")

    async def _act(self, action: Action) -> Outcome:
        await asyncio.sleep(0)
        if action == "throw":
            return self._walk(await self.aeffect("die", self._die))
        outcome: Outcome = super()._act(action)
        return outcome

    async def _die(self) -> int:
        return 1


class Bound(Toy):
    """The same, with nothing promised."""

    spec = replace(
        Toy.spec,
        id="toytests/Bound-v0",
        slug="bound",
        capabilities=Capabilities(replayable=False, forkable=False, snapshot=False),
    )


for _spec in (Toy.spec, Paying.spec, Waiting.spec, Bound.spec):
    registry.register(_spec)
