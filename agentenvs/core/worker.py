"""The worker process of a hosted environment: ``python -m agentenvs.core.worker``.

It makes one environment and calls its author's hooks as the host asks, one request at a time. The host's pipe is kept
away from the guest: standard input and output are taken over before any of its code is imported. When the host is gone
the pipe ends, and so do this process and its children, even in the middle of a step that never returns.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import traceback
from dataclasses import asdict
from typing import Any, BinaryIO

from agentenvs.core import limits
from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.core.family import adopt_orphans, end_descendants
from agentenvs.core.frames import pack, read_frame
from agentenvs.core.observation import TextBlock, block_to_json
from agentenvs.core.record import effects_of, effects_to_json
from agentenvs.core.registry import load
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Outcome


class Guest:
    """The environment in this process, behind the requests of its host.

    Args:
        spec: JSON form of the spec.
        options: Options of the environment.

    Raises:
        ContractError: The entry point makes no environment.
    """

    def __init__(self, spec: JSON, options: dict[str, Any]) -> None:
        chosen = EnvSpec.from_json(spec)
        limits.bound_memory(chosen.capabilities.memory_mb)
        made: Any = load(chosen.entry_point)(**options)
        if not isinstance(made, Environment):
            raise ContractError(f"{chosen.entry_point} made a {type(made).__name__}", why="an Environment was expected")
        made.spec = chosen
        self.env: Environment = made

    def splits(self) -> JSON:
        """Return the splits."""
        return [asdict(split) for split in self.env.splits().values()]

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
        form = [block_to_json(block) for block in shown]
        return {"blocks": form, "instruction": env._instruction(), **self._report()}

    def play(self, action: JSON, turn: int, effects: JSON, save: bool) -> JSON:
        """Play the actions of one turn; with ``save``, return the world as data after it too."""
        env = self.env
        env.turn = turn
        env._arm(None if effects is None else effects_of(effects))
        parsed = parse_action(action)
        outcome = run_sync(env._aplay(parsed)) if env._asynchronous else env._play(parsed)
        env.turn = turn + 1
        saved = {"saved": env._save()} if save else {}
        return {"outcome": _outcome(outcome), **saved, **self._report(outcome.ended)}

    def skip(self, turn: int) -> JSON:
        """Let a turn pass in which nothing happened."""
        self.env.turn = turn
        self.env._arm(None)
        return self._report()

    def load(self, split: str, index: int, turn: int, saved: JSON) -> JSON:
        """Go to a saved world."""
        self._start(split, index, None)
        self.env.turn = turn
        self.env._load(self.env.current, saved)
        return {"instruction": self.env._instruction(), **self._report()}

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

    def admissible(self) -> JSON:
        """Return the legal text actions."""
        found = self.env._admissible()
        return None if found is None else list(found)

    def potential(self) -> JSON:
        """Return the potential of the world."""
        return self.env._potential()

    def labels(self) -> JSON:
        """Return what a report sorts the episode by."""
        return dict(self.env.labels())

    def trace(self, turn: int) -> JSON:
        """Return the facts of the last turn."""
        self.env.turn = turn
        parts = self.env._trace()
        facts = {
            name: [[fact.entity, fact.relation, fact.value, fact.first_seen] for fact in getattr(parts, name)]
            for name in ("observed", "used", "written")
        }
        canonical = None if parts.canonical is None else to_json(parts.canonical)
        return {**facts, "milestones": list(parts.milestones), "canonical": canonical}

    def close(self) -> JSON:
        """Give up what the environment holds."""
        self.env.close()

    def resident(self) -> JSON:
        """Return the memory of this process in bytes; None where the system does not say."""
        return limits.resident_bytes()

    def _start(self, split: str, index: int, effects: JSON) -> None:
        env = self.env
        env.current, env.ref = env.scenario(split, index), TaskRef(split, index)
        env.turn = 0
        env._arm(None if effects is None else effects_of(effects))

    def _report(self, ended: bool = False) -> dict[str, JSON]:
        """Return all a host asks of the world after a turn, so that a turn is one message."""
        env = self.env
        return {
            "effects": effects_to_json(env.effects),
            "left": 0 if env._fed is None else len(env._fed),
            "key": env._key(),
            "admissible": self.admissible() if env.options.get("admissible") else None,
            "budgets": dict(env._budgets()),
            "potential": None if env._gamma is None or ended else env._potential(),
        }


def _outcome(outcome: Outcome) -> JSON:
    data = None if outcome.data is None else dict(outcome.data)
    return {**outcome._asdict(), "blocks": [block_to_json(block) for block in outcome.blocks], "data": data}


def _answer(guest: Guest | None, request: JSON) -> tuple[Guest | None, JSON]:
    """Return the reply to a request; whatever a guest raises is one."""
    call, arguments = request["call"], request["arguments"]
    try:
        if guest is None:
            return Guest(**arguments), {"value": None}
        limits.allow_seconds(guest.env.spec.capabilities.cpu_seconds)
        return guest, {"value": getattr(guest, call)(**arguments)}
    except AgentEnvsError as error:
        return guest, {"refused": type(error).__name__, **error.to_json()}
    except BaseException as error:  # noqa: BLE001 - boundary: a guest's code may raise anything, or try to exit
        return guest, {"raised": type(error).__name__, "place": _place(error)}


def _place(error: BaseException) -> str:
    """Return the innermost line of the guest's code that raised; where it is, not what it says."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


_OURS = os.path.dirname(__file__)


def _listen(pipe: BinaryIO, requests: queue.SimpleQueue[JSON]) -> None:
    while (request := read_frame(pipe)) is not None:
        requests.put(request)
    end_descendants(os.getpid())
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)  # the host is gone: whatever the guest has started goes as well
    os._exit(0)


def main() -> None:
    """Serve the host until its pipe ends."""
    adopt_orphans()
    requests: queue.SimpleQueue[JSON] = queue.SimpleQueue()
    # Copies that no program the guest starts inherits; what it prints or reads itself goes nowhere.
    from_host, to_host = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    threading.Thread(target=_listen, args=(from_host, requests), daemon=True).start()
    guest: Guest | None = None
    while True:
        guest, reply = _answer(guest, requests.get())
        try:
            frame = pack(reply)
        except ValueError as error:  # the guest's value is no JSON, or endless
            frame = pack({"raised": type(error).__name__})
        to_host.write(frame)
        to_host.flush()


if __name__ == "__main__":
    main()
