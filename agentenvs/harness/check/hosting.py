"""What an environment does to the process it runs in: turns that had to be undone, memory that is never given back.

Neither harms anybody else where it lives in a worker process: that is killed, or held at its limit. It costs players
turns, and machines memory, all the same.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

from agentenvs.core.environment import Environment
from agentenvs.core.hosting import Hosted
from agentenvs.core.limits import resident_bytes
from agentenvs.harness.check.findings import Fault, Sight, Skip, check, short
from agentenvs.harness.check.plays import plays
from agentenvs.harness.check.subject import Subject

UNDONE = {
    "step_timeout": "overran its time",
    "step_crashed": "took its process down",
    "step_raised": "raised",
    "step_memory": "needed more memory than it may",
    "step_cpu": "used more processor time than it may",
    "engine_failed": "found that what is wrapped had failed",
}
"""Codes of turns that the environment failed in, and not the player."""

WINDOW = 4
"""Episodes between two looks at the memory."""

MOST_GROWTH = 2**20
"""Bytes that an episode may leave behind, on average over two windows."""


@check("no turn has to be undone")
def undone(subject: Subject) -> Iterator[Fault]:
    """In none of the plays does the environment hang, crash, raise, or outgrow its limits."""
    seen: Counter[str] = Counter()
    where: dict[str, str] = {}
    for play in plays(subject):
        for number, turn in enumerate(play.turns[1:], start=1):
            if turn.error in UNDONE:
                seen[turn.error] += 1
                said = short(play.actions[number - 1], 80)
                where.setdefault(turn.error, f"{play.ref.split}/{play.ref.index} ({play.who}), turn {number}: {said}")
    for code, count in sorted(seen.items()):
        times = "once" if count == 1 else f"{count} times"
        yield Fault(
            f"{times} a turn {UNDONE[code]} ({code})", where[code], "mend it, or raise the limit its spec declares"
        )


@check("memory is given back from episode to episode", Sight.PROCESS, lost="a long run may need more and more memory")
def memory(subject: Subject) -> Iterator[Fault]:
    """Play one episode again and again with one instance, and look twice at what it has left behind."""
    play = min(plays(subject), key=lambda found: (found.broken is not None, len(found.actions)))
    env: Environment = subject.make()

    def rested() -> int:
        for _ in range(WINDOW):
            subject.watch(env, play.ref, traced=False).play(play.actions, play.turns)
        found = _resident(env)
        if found is None:
            raise Skip("this system does not say how much memory a process has in use")
        return found

    _, first, second, third = rested(), rested(), rested(), rested()
    grown = min(second - first, third - second) / WINDOW
    if grown > MOST_GROWTH:
        yield Fault(
            f"each episode leaves about {grown / 2**20:.0f} MB behind",
            f"{play.ref.split}/{play.ref.index} ({play.who}), {4 * WINDOW} times",
            "look for lists and caches outside self.world that only grow",
        )


def _resident(env: Environment) -> int | None:
    if isinstance(env, Hosted):
        return env.resident_bytes()
    gc.collect()
    return resident_bytes()


CHECKS = (undone, memory)
