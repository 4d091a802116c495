"""A guest for the hosting tests: one environment that misbehaves in every way a tool call asks it to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from agentenvs.core.actions import Action, Message, ToolCall
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, SplitError
from agentenvs.core.observation import TextBlock
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Verdict
from tests.envs.fixtures.common import Plain

TOOLS = (
    "add", "draw", "sleep", "exit", "segfault", "raise", "leave", "refuse", "child", "daemon", "print", "junk", "none",
    "nan", "half", "huge", "unjudge", "unsave", "stdin", "grow", "spin", "stray",
)  # fmt: skip

SPEC = EnvSpec(
    id="guests/Guest-v0",
    slug="guest",
    release="0",
    entry_point="tests.core.guests:Guest",
    title="Guest",
    description="Misbehaves when told to.",
    accepts=("tool", "message"),
    tools=tuple(ToolSpec(name, name, {"type": "object"}) for name in TOOLS),
    max_calls=3,
    splits=(SplitSpec("train", None),),
    default_split="train",
    budgets={"steps": 40, "draws": 9},
    options=(
        OptionSpec("admissible", "bool", False, "list the actions"),
        OptionSpec("shaping", "bool", False, "pay the potential difference"),
        OptionSpec("folder", "str", None, "a folder that must exist", secret=True),
    ),
    capabilities=Capabilities(execution="process", step_seconds=10.0),
)


def spec(**capabilities: Any) -> EnvSpec:
    """Return the spec with other capabilities."""
    return replace(SPEC, capabilities=replace(SPEC.capabilities, **capabilities))


HASTY = spec(step_seconds=0.4)


def nobody(**options: Any) -> int:
    """Make something that is no environment."""
    return len(options)


class Guest(Environment):
    spec = SPEC

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options["folder"] == "absent":
            raise DataError("there is no folder 'absent'", fix="give one that exists")
        if self.options["folder"] == "broken":
            raise RuntimeError("secret words")

    def scenario(self, split: str, index: int) -> Plain:
        if index == 404:
            raise SplitError("no such seed")
        return Plain(f"{split}/{index}", {"index": index})

    def _begin(self, scenario: Plain) -> str:
        if scenario.hidden["index"] == 13:
            raise RuntimeError("secret words")
        self.world = {"count": 0, "drawn": [self.effect("first", os.getpid) and 0]}
        return "Begin."

    def _act(self, action: Action) -> Outcome:
        if isinstance(action, Message):
            return Outcome((TextBlock("What?"),), valid=False, error="refused")
        assert isinstance(action, ToolCall)
        if action.tool not in TOOLS:
            return Outcome((TextBlock("No such tool."),), valid=False, error="refused")
        done: Outcome | None = getattr(self, f"_do_{action.tool}")(**action.arguments)
        return done or Outcome((TextBlock(f"{action.tool}: {self.world['count']}"),), ended=self.world["count"] >= 10)

    def _do_add(self, by: int = 1) -> None:
        self.world["count"] += by

    def _do_draw(self) -> None:
        self.world["drawn"].append(self.effect("draw", time.monotonic_ns))

    def _do_sleep(self, seconds: float = 5.0) -> None:
        self._do_add()
        self._do_draw()
        time.sleep(seconds)

    def _do_exit(self) -> None:
        self._do_add()
        os._exit(7)

    def _do_segfault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _do_raise(self) -> None:
        self._do_add()
        raise RuntimeError("secret words")

    def _do_leave(self) -> None:
        sys.exit(0)

    def _do_refuse(self) -> None:
        raise SplitError("secret words")

    def _do_child(self, path: str) -> None:
        child = subprocess.Popen(["sleep", "60"])
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(child.pid))
        time.sleep(5)

    def _do_daemon(self, path: str) -> None:
        if os.fork() == 0:  # leaves the group, and holds the pipe to the host
            os.setsid()
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            with contextlib.suppress(BaseException):
                time.sleep(3)
            os._exit(0)
        os._exit(0)

    def _do_print(self) -> None:
        sys.stdout.write("noise" * 100_000)
        sys.stdout.flush()
        os.write(1, b"\x00" * 10_000)

    def _do_stdin(self) -> None:
        assert sys.stdin.read() == ""

    def _do_junk(self) -> Outcome:
        return Outcome((TextBlock("junk"),), data={"x": {1, 2}})  # type: ignore[dict-item]

    def _do_nan(self) -> Outcome:
        return Outcome((TextBlock("nan"),), data={"x": float("nan")})

    def _do_half(self) -> Outcome:
        return Outcome((TextBlock("half a pair: \ud800"),))

    def _do_huge(self) -> Outcome:
        return Outcome((TextBlock("x" * (17 * 2**20)),))

    def _do_stray(self, path: str) -> None:
        child = f"echo $$ > {path}; exec sleep 60"  # in a session of its own, and without a parent
        subprocess.run(["sh", "-c", f"setsid sh -c '{child}' &"], check=True)

    def _do_none(self) -> Outcome:
        return 7  # type: ignore[return-value]

    def _do_unjudge(self) -> None:
        self.world["unjudge"] = True

    def _do_unsave(self) -> None:
        self.world["unsave"] = True

    def _judge(self, ending) -> Verdict:
        if self.world.get("unjudge"):
            raise RuntimeError("secret words")
        return self.rejudge(self.current, {"count": self.world["count"]}, ending)

    @classmethod
    def rejudge(cls, scenario, facts, ending) -> Verdict:
        won = ending == "terminated" and facts["count"] == 10
        return Verdict(float(won), won, facts=facts)

    def _key(self) -> str:
        return f"{self.world['count']}:{len(self.world['drawn'])}"

    def _admissible(self) -> tuple[str, ...]:
        return ("add", str(self.world["count"]))

    def _budgets(self) -> dict[str, int]:
        return {"draws": 9 - len(self.world["drawn"])}

    def _potential(self) -> float:
        return self.world["count"] / 10

    def _trace(self) -> TraceParts:
        return TraceParts(
            written=(Fact("count", "is", str(self.world["count"]), self.turn),), canonical=ToolCall("add", {"by": 1})
        )

    def _instruction(self) -> str:
        return "Count to ten."

    def labels(self) -> dict[str, Any]:
        return {"kind": "count", "par": 10}

    def _save(self) -> Any:
        if self.world.get("unsave"):
            raise RuntimeError("secret words")
        return self.world

    def _load(self, scenario: Plain, saved: Any) -> None:
        self.world = {**saved, "drawn": list(saved["drawn"])}

    def _do_grow(self) -> None:
        self.world["ballast"] = "x" * (1 << 30)

    def _do_spin(self) -> None:
        while True:
            pass
