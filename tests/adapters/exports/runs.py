"""Runs of every kind of player and of every kind of end, and what is read of their exports."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenvs.adapters.exports import writing
from agentenvs.core.actions import Calls, End, Message, ToolCall
from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.run import RunConfig, evaluate
from tests.harness import playroom
from tests.harness.toys import Counter, Desk

HERE = "tests.adapters.exports.runs"
HOSTILE = "go \x00\x07\x1b[31m\x7f\x9b2J\u2028\u202e </script> \U0001f600"
"""Controls, a line separator, a mark that turns the text round, and what a page would run."""


class Climber(playroom.Climber):
    """Goes up until there."""


class Talker(playroom.Talker):
    """Says what no terminal may believe."""

    def act(self, observation: Any) -> Any:
        return HOSTILE


class Faller(playroom.Faller):
    """Fails on the first step."""


class Quitter(playroom.Quitter):
    """Goes away on the first step."""

    ending = "abandoned"


class Caller(Climber):
    """Climbs by calling a tool."""

    def act(self, observation: Any) -> Any:
        return ToolCall("up", {})


class Adder(Climber):
    """Calls twice a turn, and says something beside it."""

    def act(self, observation: Any) -> Any:
        return Calls((ToolCall("add", {"by": 1}), ToolCall("add", {"by": 1})), "two")


class Clerk(Climber):
    """Asks for the hours, tells them, and ends."""

    def reset(self, spec: Any, task: Any) -> None:
        self.script = [ToolCall("hours", {}), Message("At nine."), End("done")]

    def act(self, observation: Any) -> Any:
        return self.script.pop(0)


class Junker(Climber):
    """Says what is no action."""

    def act(self, observation: Any) -> Any:
        return {"neither": "this", "nor": ["that", 1]}


PLAYERS = ("Climber", "Talker", "Faller", "Quitter", "Caller", "Junker")


def run(folder: Path, player: str, env: str = "stairs", **more: Any) -> Path:
    name = player if player.islower() else f"{HERE}:{player}"
    return evaluate(RunConfig(**{"env": env, "policy": name, "out": folder, **more})).folder


def with_model(folder: Path, endpoint: Any, env: str = f"{Counter.__module__}:Counter", **given: Any) -> Path:
    settings = OpenAISettings(
        **{
            "model": "m",
            "base_url": endpoint.url,
            "backoff": 0.0,
            "timeout": 5.0,
            "price_in": Decimal(1),
            "price_out": Decimal(2),
            **given,
        }
    )
    return evaluate(RunConfig(env=env, policy="openai", out=folder, episodes=1, settings=settings)).folder


DESK = f"{Desk.__module__}:Desk"
COUNTER = f"{Counter.__module__}:Counter"


def rows(runs: list[Path], to: Any, out: Path, **more: Any) -> list[dict[str, Any]]:
    """Return what an export of a line or a document an episode says."""
    writing.export(runs, to, out, **more)
    if out.is_dir():
        return [json.loads(path.read_text()) for path in sorted(out.rglob("*.json"))]
    return [json.loads(line) for line in out.read_bytes().split(b"\n")[:-1]]


def samples(run: Path, out: Path, **more: Any) -> list[dict[str, Any]]:
    """Return the samples of a log of Inspect that is one document."""
    writing.export([run], "inspect", out, **more)
    found: list[dict[str, Any]] = json.loads(out.read_text())["samples"]
    return found


def stretched(run: Path, count: int) -> None:
    """Make a run one of many episodes: the first one again and again, as its files would stand."""
    lines = [json.loads(line) for line in (run / "episodes.jsonl").read_bytes().splitlines()]
    first = next(line for line in lines if line["number"] == 0)
    found = [{**first, "number": number} for number in range(count)]
    for number in range(1, count):
        for name in ("records/{:06d}.jsonl", "sidecars/{:06d}.json"):
            (run / name.format(number)).unlink(missing_ok=True)
            (run / name.format(number)).hardlink_to(run / name.format(0))
    (run / "episodes.jsonl").write_bytes(b"".join(canonical_bytes(line) + b"\n" for line in reversed(found)))
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["episode_table_digest"] = digest(found)
    (run / "manifest.json").write_bytes(canonical_bytes(manifest) + b"\n")
