"""A room with one secret word, which fails in every way a test asks it to; and one that blocks until it is let go."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agentenvs.core import registry
from agentenvs.core.actions import Action, calls_of
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, SplitError
from agentenvs.core.observation import TextBlock
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict
from tests.envs.fixtures.common import Plain

SECRET = "xyzzy-secret-word"
"""Part of goal, name, labels and verdict of every scenario, and of every failure's words."""

SPEC = EnvSpec(
    id="tests/Room-v0",
    slug="room",
    release="0",
    entry_point="tests.servers.rooms:Room",
    title="Room",
    description="Say win.",
    accepts=("text", "tool"),
    tools=(ToolSpec("look", "Look.", {"type": "object"}),),
    splits=(SplitSpec("few", 3), SplitSpec("train", None), SplitSpec("vault", 3, sealed=True)),
    default_split="few",
    budgets={"steps": 5},
    options=(
        OptionSpec("limit", "int", 5, "steps after which an episode is truncated", minimum=0),
        OptionSpec("fault", "str", "", "where it breaks"),
        OptionSpec("at", "int", 0, "the index at which it breaks"),
        OptionSpec("folder", "str", None, "a folder", secret=True),
    ),
)


class Room(Environment):
    """Valid: look, win. Fails: raise, exit, stop, nan, junk, untrace."""

    spec = SPEC

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options["fault"] == "make":
            raise RuntimeError(SECRET)

    def scenario(self, split: str, index: int) -> Plain:
        if index == 404:
            raise SplitError("there is no 404")
        if index == 405:
            raise DataError(f"the folder {SECRET} is gone")
        return Plain(f"{SECRET}/{index}", {"word": f"{SECRET}-{index}"})

    def _breaks(self, fault: str) -> bool:
        return self.options["fault"] == fault and self.ref == TaskRef("few", self.options["at"])

    def _begin(self, scenario: Plain) -> str:
        if self._breaks("begin"):
            raise RuntimeError(SECRET)
        self.world = {"looks": 0, "untrace": False}
        if self._breaks("effects"):
            self.effect("odd", lambda: {1, 2})
        return "A room."

    def _act(self, action: Action) -> Outcome:
        said = action if isinstance(action, str) else calls_of(action)[0].tool
        if said in ("look", "win"):
            self.world["looks"] += said == "look"
            return Outcome((TextBlock(f"You {said}."),), ended=said == "win")
        if not hasattr(self, f"_do_{said}"):
            return Outcome((TextBlock("What?"),), valid=False, error="unknown")
        return getattr(self, f"_do_{said}")()  # type: ignore[no-any-return]

    def _do_raise(self) -> Outcome:
        self.world["looks"] += 1000
        raise RuntimeError(SECRET)

    def _do_exit(self) -> Outcome:
        sys.exit(0)

    def _do_stop(self) -> Outcome:
        raise StopIteration(SECRET)

    def _do_nan(self) -> Outcome:
        return Outcome((TextBlock("nan"),), reward=float("nan"))

    def _do_junk(self) -> Outcome:
        return Outcome((TextBlock("junk"),), data={"x": {1, 2}})  # type: ignore[dict-item]

    def _do_untrace(self) -> Outcome:
        self.world["untrace"] = True
        return Outcome((TextBlock("No trace."),))

    def _trace(self) -> TraceParts:
        if self.world["untrace"]:
            raise RuntimeError(SECRET)
        return TraceParts(written=(Fact("room", "looks", str(self.world["looks"])),))

    def _judge(self, ending: Ending) -> Verdict:
        if self._breaks("judge"):
            raise RuntimeError(SECRET)
        facts: dict[str, Any] = {"looks": {1, 2}} if self._breaks("verdict") else {"looks": self.world["looks"]}
        return self.rejudge(self.current, facts, ending)

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, Any], ending: Ending) -> Verdict:
        won = ending == "terminated"
        return Verdict(float(won), won, {"won": float(won)}, (f"the word was {SECRET}",), facts)

    def _key(self) -> int:
        return int(self.world["looks"])

    def labels(self) -> Mapping[str, Any]:
        if self._breaks("labels"):
            raise RuntimeError(SECRET)
        return {"kind": SECRET}

    def close(self) -> None:
        if self._breaks("close"):
            raise RuntimeError(SECRET)
        super().close()


class Gate:
    """Holds every ``wait`` of a slow room while it is shut."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self.waits = 0

    @contextmanager
    def shut(self) -> Iterator[None]:
        while self.entered.acquire(blocking=False):  # what an earlier test has left
            pass
        self.opened.clear()
        while self.entered.acquire(blocking=False):  # whoever came while the gate was open
            pass
        try:
            yield
        finally:
            self.opened.set()


GATE = Gate()


class SlowRoom(Room):
    """A room in which ``wait`` blocks until the gate is open."""

    spec = replace(
        SPEC,
        id="tests/SlowRoom-v0",
        slug="slow_room",
        entry_point="tests.servers.rooms:SlowRoom",
        capabilities=Capabilities(execution="thread"),
    )

    def _do_wait(self) -> Outcome:
        GATE.waits += 1
        GATE.entered.release()
        GATE.opened.wait(20)
        return Outcome((TextBlock("You wait."),))


def register() -> tuple[str, ...]:
    """Make the rooms known."""
    for spec in (Room.spec, SlowRoom.spec):
        registry.register(spec)
    return Room.spec.id, SlowRoom.spec.id
