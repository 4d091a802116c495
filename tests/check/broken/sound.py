"""A small sound environment, from which each of the broken ones differs in one thing.

A note lies in one of some boxes; open boxes until the note is read, then say the word on it. Words and tools, two
budgets, snapshots, forks, traces, an oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentenvs.core.actions import Action, ToolCall
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.observation import TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import SECRET
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Verdict

_WORDS = ("apple", "birch", "cedar", "daisy", "elder", "fennel")

OPEN = ToolSpec(
    "open_box",
    "Open a box.",
    {"type": "object", "properties": {"box": {"type": "integer"}}, "required": ["box"], "additionalProperties": False},
    ({"box": 1},),
)

SPEC = EnvSpec(
    id="broken/Boxes-v0",
    slug="boxes",
    release="0",
    entry_point="tests.check.broken.sound:Boxes",
    title="Boxes",
    description="Find the note in one of the boxes and say its word.",
    accepts=("text", "tool"),
    tools=(OPEN,),
    splits=(SplitSpec("train", None, "every seed"), SplitSpec("test", 4, "four rooms")),
    default_split="train",
    budgets={"steps": 30, "tries": 3},
    options=(
        OptionSpec("limit", "int", 30, "steps after which an episode is truncated", minimum=0),
        OptionSpec("admissible", "bool", False, "list the legal commands"),
    ),
    max_observation_bytes=300,
    players={"oracle": "tests.check.broken.sound:Oracle"},
)


def spec_of(module: str, cls: str, **changes: Any) -> EnvSpec:
    """Return the spec of a broken environment, in a module beside this one."""
    slug = module.rpartition(".")[2]
    return replace(
        SPEC,
        id=f"broken/{cls}-v0",
        slug=slug,
        entry_point=f"{module}:{cls}",
        **{"capabilities": Capabilities(), **changes},
    )


@dataclass(frozen=True)
class Room:
    """A scenario."""

    name: str
    boxes: int
    treasure: int = field(metadata=SECRET)
    word: str = field(metadata=SECRET)

    @property
    def digest(self) -> str:
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "boxes": self.boxes, "treasure": self.treasure, "word": self.word}


class Boxes(Environment):
    """Sound."""

    spec = SPEC

    def scenario(self, split: str, index: int) -> Room:
        stream = Stream(scenario_key("boxes", split, index), "room")
        boxes = stream.between(4, 6)
        return Room(f"{split} {index}", boxes, stream.between(1, boxes), stream.choice(_WORDS))

    def _begin(self, scenario: Room) -> str:
        self.world = {"open": [], "tries": 3, "said": "", "word": scenario.word, "last": 0}
        return f"There are {scenario.boxes} boxes. Say the word."

    def _act(self, action: Action) -> Outcome:
        if isinstance(action, ToolCall):
            box = action.arguments.get("box")
            known = action.tool == "open_box" and list(action.arguments) == ["box"]
            return self._open(box) if known else self._no()
        verb, _, rest = str(action).partition(" ")
        if verb == "open" and rest.isascii() and rest.isdecimal() and len(rest) < 3:
            return self._open(int(rest))
        return self._say(rest) if verb == "say" and rest.isascii() and rest.isalpha() else self._no()

    def _no(self) -> Outcome:
        return Outcome((TextBlock("You cannot do that."),), valid=False, error="refused")

    def _open(self, box: Any) -> Outcome:
        if type(box) is not int or not 1 <= box <= self.current.boxes or box in self.world["open"]:
            return self._no()
        self.world["open"].append(box)
        self.world["last"] = box
        found = f"There is a note: {self.world['word']}." if box == self.current.treasure else "It is empty."
        return Outcome((TextBlock(f"You open box {box}. {found}"),))

    def _say(self, word: str) -> Outcome:
        self.world["tries"] -= 1
        self.world["said"] = word
        over = word == self.world["word"] or not self.world["tries"]
        return Outcome((TextBlock(f"You say {word}."),), ended=over)

    def _judge(self, ending) -> Verdict:
        return self.rejudge(self.current, {"said": self.world["said"]}, ending)

    @classmethod
    def rejudge(cls, scenario, facts, ending) -> Verdict:
        won = ending == "terminated" and facts["said"] == scenario.word
        return Verdict(float(won), won, {"said": float(won)}, facts=facts)

    def _key(self) -> str:
        return f"{sorted(self.world['open'])} {self.world['tries']} {self.world['said']}"

    def _budgets(self) -> dict[str, int]:
        return {"tries": self.world["tries"]}

    def _admissible(self) -> tuple[str, ...]:
        return tuple(f"open {box}" for box in range(1, self.current.boxes + 1) if box not in self.world["open"])

    def _trace(self) -> TraceParts:
        box, note = self.world["last"], self.world["word"] if self.world["last"] == self.current.treasure else "nothing"
        return TraceParts(observed=(Fact(f"box {box}", "holds", note, self.turn),) if box else ())

    def _instruction(self) -> str:
        return "Say the word."

    def _save(self) -> Any:
        return {**self.world, "word": ""}

    def _load(self, scenario: Room, saved: Mapping[str, Any]) -> None:
        numbers = [int(saved["tries"]), int(saved["last"])]
        self.world = {
            "open": [int(box) for box in saved["open"]],
            "tries": numbers[0],
            "said": str(saved["said"]),
            "word": scenario.word,
            "last": numbers[1],
        }


class Oracle(Privileged):
    """Opens the right box and says the word."""

    def reset(self, spec, task) -> None: ...

    def reveal(self, scenario) -> None:
        form = scenario.to_json()
        self._script = iter([f"open {form['treasure']}", f"say {form['word']}"])

    def act(self, observation) -> str:
        return next(self._script, "")
