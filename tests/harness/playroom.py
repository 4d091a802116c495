"""Stairs to climb, with faults where a test wants them, and the players who climb them well or badly."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentenvs.core import registry
from agentenvs.core.actions import Action
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.turn import Outcome
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.harness.stopping import PolicyStop

WAIT = threading.Event()
"""Set to let go of every player and staircase that hangs."""


@dataclass(frozen=True)
class Flight:
    name: str
    steps: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "steps": self.steps}

    @property
    def digest(self) -> str:
        return digest(self.to_json())


class Stairs(Environment):
    """Say ``up`` as often as the flight has steps: one to three."""

    spec = EnvSpec(
        "tests/Stairs-v0",
        "stairs",
        "1",
        "tests.harness.playroom:Stairs",
        "Stairs",
        "Climb.",
        ("text", "tool"),
        tools=(ToolSpec("up", "Go up.", {"type": "object"}, ({},)),),
        splits=(SplitSpec("train", None), SplitSpec("few", 6)),
        default_split="few",
        budgets={"steps": 5},
        options=(
            OptionSpec("fault", "str", "", "where it breaks"),
            OptionSpec("at", "int", 1, "the index at which it breaks"),
            OptionSpec("admissible", "bool", False, "list the commands"),
        ),
        players={"oracle": "tests.harness.playroom:Oracle", "gone": "tests.harness.nowhere:Gone"},
    )

    def _breaks(self, place: str) -> None:
        if self.options["fault"] == place and self.ref is not None and self.ref.index == self.options["at"]:
            raise RuntimeError(f"the stairs broke at {place}")

    def scenario(self, split: str, index: int) -> Flight:
        if self.options["fault"] == "scenario" and index == self.options["at"]:
            raise OSError("the drawing is lost")
        return Flight(f"{split}-{index}", index % 3 + 1)

    def labels(self) -> Mapping[str, Any]:
        self._breaks("labels")
        return {"kind": "short" if self.current.steps < 3 else "<long>", "par": self.current.steps}

    def _begin(self, scenario: Flight) -> str:
        self._breaks("begin")
        self.world = [0, scenario.steps]
        return "You are at the foot of the stairs."

    def _act(self, action: Action) -> Outcome:
        self._breaks("act")
        if self.options["fault"] == "hang" and self.ref.index == self.options["at"]:
            WAIT.wait(20)
        if action != "up" and getattr(action, "tool", None) != "up":
            return Outcome((TextBlock("You stumble."),), False, "stumbled")
        self.world[0] += 1
        return Outcome((TextBlock(f"Step {self.world[0]}."),), ended=self.world[0] == self.world[1])

    def _judge(self, ending: Ending) -> Verdict:
        self._breaks("judge")
        height, steps = self.world
        return Verdict(height / steps, height == steps, facts={"height": height})

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, Any], ending: Ending) -> Verdict:
        height = facts["height"]
        return Verdict(height / scenario.steps, height == scenario.steps, facts=dict(facts))

    def _key(self) -> int:
        return int(self.world[0])

    def _admissible(self) -> tuple[str, ...]:
        return ("up", "down", "wait")


class Escalator(Stairs):
    """The same, asynchronous."""

    spec = replace(
        Stairs.spec, id="tests/Escalator-v0", slug="escalator", entry_point="tests.harness.playroom:Escalator"
    )

    async def _act(self, action: Action) -> Outcome:
        await asyncio.sleep(0)
        return Stairs._act(self, action)


registry.register(Stairs.spec)
registry.register(Escalator.spec)


class Climber:
    """Always goes up."""

    def reset(self, spec: Any, task: Any) -> None:
        self.task = task

    def act(self, observation: Observation) -> Any:
        return "up"


class Oracle(Climber, Privileged):
    """Is shown the flight, and needs that."""

    def reveal(self, scenario: Flight) -> None:
        self.left = scenario.steps

    def act(self, observation: Observation) -> Any:
        self.left -= 1
        return "up" if self.left >= 0 else "wait"


class Dreamer(Climber):
    """Climbs, but thinks about it asynchronously."""

    async def act(self, observation: Observation) -> Any:
        await asyncio.sleep(0)
        return {"tool": "up", "arguments": {}}


class Talker(Climber):
    """Says things no page may believe, and counts what it says."""

    def reset(self, spec: Any, task: Any) -> None:
        self.usage = {"tokens_in": 7, "tokens_out": None}

    def act(self, observation: Observation) -> Any:
        return "<script>alert(1)</script>\x1b[31m\u202e"

    def sidecar(self) -> Any:
        return {"raw": "…"}

    def metrics(self, verdict: Verdict) -> Any:
        return {"height": verdict.facts["height"], "said": "much"}


class Quitter(Climber):
    """Goes one step up and stops by its own rules."""

    ending: Ending = "truncated"

    def act(self, observation: Observation) -> Any:
        if observation.text.startswith("Step"):
            raise PolicyStop(self.ending, "tired")
        return "up"


class Faller(Climber):
    """Goes one step up and falls."""

    def act(self, observation: Observation) -> Any:
        if observation.text.startswith("Step"):
            raise ZeroDivisionError("a banana skin")
        return "up"


class Leaver(Climber):
    """Leaves the process, as library code sometimes does."""

    def act(self, observation: Observation) -> Any:
        raise SystemExit(3)


class Unready(Climber):
    def reset(self, spec: Any, task: Any) -> None:
        raise LookupError("no shoes")


class Untidy(Climber):
    """Whatever it is asked beside acting fails."""

    def sidecar(self) -> Any:
        raise ValueError("lost the notes")

    def close(self) -> None:
        raise ValueError("the door is stuck")


class Muddled(Climber):
    """Counts what no table can hold."""

    def __init__(self, usage: Any, metrics: Any, notes: Any) -> None:
        self.usage, self._metrics, self._notes = usage, metrics, notes

    def metrics(self, verdict: Verdict) -> Any:
        return self._metrics

    def sidecar(self) -> Any:
        return self._notes


class Thrower(Climber):
    """Raises what it was given instead of acting."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def act(self, observation: Observation) -> Any:
        raise self._error


class Dropout(Climber):
    """Leaves the program as soon as it is to learn something."""

    def episode_ended(self, record: bytes, reward: float | None) -> None:
        raise SystemExit(0)

    def library_digest(self) -> str:
        return "0" * 64


class Scribbler(Dropout):
    """Has a library, and no digest of it."""

    def library_digest(self) -> str:
        return "\ud800"


class Wordy(Climber):
    """Fails with words that are hard to write down."""

    def act(self, observation: Observation) -> Any:
        raise ValueError("one\u2028two\x85three\ud800")


class Sleeper(Climber):
    """Falls asleep at index 1."""

    def act(self, observation: Observation) -> Any:
        if self.task.ref.index == 1:
            WAIT.wait(20)
        return "up"


class Interrupter(Climber):
    """Somebody presses Ctrl-C while it climbs index 2."""

    def act(self, observation: Observation) -> Any:
        if self.task.ref.index == 2:
            os.kill(os.getpid(), signal.SIGINT)
            WAIT.wait(20)
        return "up"


class Pupil(Climber):
    """Keeps what it was told; climbs only from its second episode on."""

    made: list[Pupil] = []  # noqa: RUF012 - a test looks at what the run made

    def __init__(self) -> None:
        self.told: list[float | None] = []
        self.heard: list[float | None] = []
        Pupil.made.append(self)

    def act(self, observation: Observation) -> Any:
        return "up" if self.told else "wait"

    def episode_ended(self, record: bytes, reward: float | None) -> None:
        self.told.append(reward)

    def library_digest(self) -> str:
        return digest(self.told)

    def feedback(self, reward: float | None) -> None:
        self.heard.append(reward)


class Forgetter(Pupil):
    def episode_ended(self, record: bytes, reward: float | None) -> None:
        raise MemoryError("full")


class Handless:
    """No policy at all."""

    def reset(self, spec: Any, task: Any) -> None: ...


def unmakeable() -> None:
    raise FileNotFoundError("weights.bin")


def quits() -> Any:
    raise SystemExit(0)


def needy(weights: str) -> None: ...


NOT_CALLABLE = 3
