"""Two very small environments: a counter that takes text and tools, and a dialogue with a tool and an end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenvs.core.actions import Action, End, Message, ToolCall
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.observation import DataBlock, TextBlock
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.turn import Outcome
from agentenvs.core.verdict import Ending, Verdict

ADD = ToolSpec(
    "add",
    "Adds to the count.",
    {"type": "object", "properties": {"by": {"type": "integer"}}, "required": []},
    ({"by": 1},),
)


@dataclass(frozen=True)
class Target:
    name: str
    goal: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "goal": self.goal}

    @property
    def digest(self) -> str:
        return digest(self.to_json())


class Counter(Environment):
    """Count to the goal with the command ``add`` or the tool."""

    spec = EnvSpec(
        "toys/Counter-v0",
        "counter",
        "1",
        "tests.harness.toys:Counter",
        "Counter",
        "Count to three.",
        ("text", "tool"),
        tools=(ADD,),
        max_calls=2,
        splits=(SplitSpec("train", None),),
        default_split="train",
        budgets={"steps": 8},
        options=(OptionSpec("admissible", "bool", False, "list the commands"),),
    )

    def scenario(self, split: str, index: int) -> Target:
        return Target(f"{split}-{index}", 3)

    def _begin(self, scenario: Target) -> str:
        self.world = [0, scenario.goal]
        return "Banner.\n\nThe count is 0.\n\nYour task is to: count to 3."

    def _act(self, action: Action) -> Outcome:
        if isinstance(action, ToolCall) and action.tool == "add":
            self.world[0] += int(action.arguments.get("by", 1))
        elif action == "add":
            self.world[0] += 1
        else:
            return Outcome((TextBlock("Nothing happens."),), False, "unknown")
        return Outcome((TextBlock(f"The count is {self.world[0]}."),), ended=self.world[0] >= self.world[1])

    def _admissible(self) -> tuple[str, ...]:
        return ("add", "help")

    def _judge(self, ending: Ending) -> Verdict:
        won = self.world[0] >= self.world[1]
        return Verdict(float(won), won)

    def _key(self) -> int:
        return int(self.world[0])


class Desk(Environment):
    """Say something, ask the tool for the hours, and end."""

    spec = EnvSpec(
        "toys/Desk-v0",
        "desk",
        "1",
        "tests.harness.toys:Desk",
        "Desk",
        "Answer a question.",
        ("message", "tool", "end"),
        tools=(ToolSpec("hours", "Opening hours.", {"type": "object", "properties": {}}),),
        splits=(SplitSpec("train", None),),
        default_split="train",
        budgets={"steps": 6},
    )

    def scenario(self, split: str, index: int) -> Target:
        return Target(f"{split}-{index}", 0)

    def _begin(self, scenario: Target) -> str:
        self.world = []
        return "When do you open?"

    def _act(self, action: Action) -> Outcome:
        self.world.append(type(action).__name__)
        if isinstance(action, End):
            return Outcome((TextBlock("Bye."),), ended=True)
        if isinstance(action, Message):
            return Outcome((TextBlock("I see."),))
        return Outcome((DataBlock({"open": 9}, "hours"),))

    def _judge(self, ending: Ending) -> Verdict:
        return Verdict(1.0, True) if self.world == ["ToolCall", "Message", "End"] else Verdict(0.0, False)

    def _key(self) -> int:
        return len(self.world)
