"""The worker process of a hosted environment: ``python -m agentenvs.core.worker``.

It makes one environment and calls its author's hooks as the host asks, one request at a time. The host's pipe is kept
away from the guest: standard input and output are taken over before any of its code is imported. When the host is gone
the pipe ends, and so does this process, even in the middle of a step that never returns.
"""

from __future__ import annotations

import inspect
import os
import queue
import sys
import threading
from typing import Any, BinaryIO

from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.frames import read_frame, write_frame
from agentenvs.core.observation import TextBlock, block_to_json
from agentenvs.core.record import effects_of, effects_to_json
from agentenvs.core.registry import load
from agentenvs.core.turn import Outcome


class Guest:
    """The environment in this process, behind the requests of its host."""

    def __init__(self, entry_point: str, options: dict[str, Any]) -> None:
        self.env: Environment = load(entry_point)(**options)
        self._shaping = bool(options.get("shaping"))

    def splits(self) -> JSON:
        """Return the splits."""
        return [
            {
                "name": split.name,
                "size": split.size,
                "description": split.description,
                "sealed": split.sealed,
                "panel": split.panel,
            }
            for split in self.env.splits().values()
        ]

    def scenario(self, split: str, index: int) -> JSON:
        """Return a scenario as data."""
        found = self.env.scenario(split, index)
        return {"name": found.name, "digest": found.digest, "form": found.to_json()}

    def begin(self, split: str, index: int, effects: JSON) -> JSON:
        """Begin an episode."""
        env = self.env
        self._start(split, index, effects)
        blocks = env._begin(env.current)
        shown = (TextBlock(blocks),) if isinstance(blocks, str) else tuple(blocks)
        return {"blocks": [block_to_json(block) for block in shown], **self._report()}

    def act(self, action: JSON, turn: int, effects: JSON) -> JSON:
        """Do one action."""
        env = self.env
        env._arm(None if effects is None else effects_of(effects))
        env.turn = turn
        made: Any = env._act(parse_action(action))
        outcome: Outcome = run_sync(made) if inspect.iscoroutine(made) else made
        return {"outcome": _outcome(outcome), **self._report()}

    def load(self, split: str, index: int, saved: JSON) -> JSON:
        """Go to a saved world."""
        self._start(split, index, None)
        self.env._load(self.env.current, saved)
        return self._report()

    def save(self) -> JSON:
        """Return the world as data."""
        return self.env._save()

    def judge(self, ending: Any, turn: int) -> JSON:
        """Return the verdict."""
        self.env.turn = turn
        return self.env._judge(ending).to_json()

    def rejudge(self, split: str, index: int, facts: JSON, ending: Any) -> JSON:
        """Return the verdict on recorded facts."""
        return self.env.rejudge(self.env.scenario(split, index), facts, ending).to_json()

    def trace(self, turn: int) -> JSON:
        """Return the facts of the last turn, and the potential."""
        self.env.turn = turn
        parts = self.env._trace()
        facts = {
            name: [[fact.entity, fact.relation, fact.value, fact.first_seen] for fact in getattr(parts, name)]
            for name in ("observed", "used", "written")
        }
        canonical = None if parts.canonical is None else to_json(parts.canonical)
        return {
            **facts,
            "milestones": list(parts.milestones),
            "canonical": canonical,
            "potential": self.env._potential(),
        }

    def _start(self, split: str, index: int, effects: JSON) -> None:
        env = self.env
        env.current = env.scenario(split, index)
        env.turn = 0
        env._arm(None if effects is None else effects_of(effects))

    def _report(self) -> dict[str, JSON]:
        """Return all a host asks of the world between turns, in one message."""
        env = self.env
        admissible = env._admissible() if env.options.get("admissible") else None
        return {
            "effects": effects_to_json(env.effects),
            "left": None if env._fed is None else len(env._fed),
            "key": env._key(),
            "admissible": None if admissible is None else list(admissible),
            "budgets": dict(env._budgets()),
            "potential": env._potential() if self._shaping else 0.0,
            "instruction": env._instruction(),
            "labels": dict(env.labels()),
        }


def _outcome(outcome: Outcome) -> JSON:
    return {
        "blocks": [block_to_json(block) for block in outcome.blocks],
        "valid": outcome.valid,
        "error": outcome.error,
        "ended": outcome.ended,
        "reward": outcome.reward,
        "data": None if outcome.data is None else dict(outcome.data),
        "actor": outcome.actor,
    }


def _answer(guest: Guest | None, request: JSON) -> tuple[Guest | None, JSON]:
    """Return the reply to a request; whatever a guest raises is one."""
    call, arguments = request["call"], request["arguments"]
    try:
        if guest is None:
            return Guest(**arguments), {"value": None}
        return guest, {"value": getattr(guest, call)(**arguments)}
    except AgentEnvsError as error:
        return guest, {"refused": type(error).__name__, **error.to_json()}
    except Exception as error:  # noqa: BLE001 - boundary: a guest's code may raise anything
        return guest, {"raised": type(error).__name__}


def _listen(pipe: BinaryIO, requests: queue.SimpleQueue[JSON]) -> None:
    while (request := read_frame(pipe)) is not None:
        requests.put(request)
    os._exit(0)


def main() -> None:
    """Serve the host until its pipe ends."""
    requests: queue.SimpleQueue[JSON] = queue.SimpleQueue()
    from_host = os.fdopen(os.dup(0), "rb")
    to_host = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    sys.path.insert(0, os.getcwd())
    threading.Thread(target=_listen, args=(from_host, requests), daemon=True).start()
    guest: Guest | None = None
    while True:
        guest, reply = _answer(guest, requests.get())
        try:
            write_frame(to_host, reply)
        except (TypeError, ValueError) as error:  # the guest's value is no JSON
            write_frame(to_host, {"raised": type(error).__name__})


if __name__ == "__main__":
    main()
