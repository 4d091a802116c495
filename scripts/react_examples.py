"""Writes the example episodes of the protocol ``react``: our own rooms, played by the household's own rules.

The rooms and what the player thinks and does stand in ``react_examples.toml``; the words of the world are computed. An
episode whose last line does not win, or that wins before it, is an error.

    python scripts/react_examples.py [--check]
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from agentenvs.core.observation import Observation, TextBlock
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.world import World
from agentenvs.harness.history import show
from agentenvs.harness.protocol import Protocol, load
from agentenvs_scenarios.household.builtin import make

SOURCE = Path(__file__).with_suffix(".toml")
TARGET = Path(__file__).parents[1] / "agentenvs" / "harness" / "protocols" / "react.examples.json"


def main() -> int:
    """Write the examples, or with ``--check`` say whether they are up to date."""
    text = json.dumps(examples(), indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv:
        same = TARGET.read_text(encoding="utf-8") == text
        print("up to date" if same else f"{TARGET} is stale: run {Path(__file__).name}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def examples() -> dict[str, list[str]]:
    """Return the texts of the example episodes by kind."""
    form = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    protocol = load("react")
    texts: dict[str, list[str]] = {}
    for number, episode in enumerate(form["episodes"]):
        room = {**form["rooms"][episode["room"]], "goal": episode["goal"]}
        texts.setdefault(episode["kind"], []).append(_play(protocol, f"example/{number}", room, episode["says"]))
    return texts


def _play(protocol: Protocol, name: str, room: dict[str, Any], says: list[str]) -> str:
    world = World(Layout(make(name, room), "original", "0.3"))
    lines = [_seen(protocol, world.opening(), first=True)]
    for line in says:
        if world.won:
            raise SystemExit(f"{name} is won before {line!r}")
        reply, event = world.step(line)
        thought = line.startswith(protocol.replies.thought)
        if event[3] is not None and not thought:
            raise SystemExit(f"{name}: {line!r} cannot be done: {event[3]}")
        lines += [f"> {line}", protocol.replies.thought_answer if thought else _seen(protocol, reply, first=False)]
    if not world.won:
        raise SystemExit(f"{name} is not won")
    return "\n".join(lines) + "\n"


def _seen(protocol: Protocol, text: str, *, first: bool) -> str:
    return show(protocol, Observation((TextBlock(text),)), first=first).seen


if __name__ == "__main__":
    raise SystemExit(main())
