"""What an environment does to the process it runs in: turns that had to be undone, memory that is never given back.

Neither harms anybody else where it lives in a worker process: that is killed, or held at its limit. It costs players
turns, and machines memory, all the same.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

from agentenvs.core.canon import canonical
from agentenvs.core.environment import Environment
from agentenvs.core.hosting import Hosted
from agentenvs.core.limits import resident_bytes
from agentenvs.harness.check.findings import UNDONE, Fault, Sight, Skip, check
from agentenvs.harness.check.plays import Play, plays, where_of
from agentenvs.harness.check.subject import Subject

WINDOW = 4
"""Episodes between two looks at the memory."""

MOST_GROWTH = 2**20
"""Bytes that an episode may leave behind, on average over two windows."""


@check("no turn has to be undone")
def undone(subject: Subject) -> Iterator[Fault]:
    """In none of the plays does the environment hang, crash, raise, or outgrow its limits."""
    seen: Counter[str] = Counter()
    where: dict[str, str] = {}
    why: dict[str, str] = {}
    for play in plays(subject):
        for number, turn in enumerate(play.turns[1:], start=1):
            if turn.error in UNDONE:
                seen[turn.error] += 1
                why.setdefault(turn.error, turn.failure)
                where.setdefault(turn.error, where_of(play, number))
    for code, count in sorted(seen.items()):
        times = "once" if count == 1 else f"{count} times"
        yield Fault(
            f"{times} a turn {UNDONE[code]} ({code})" + (f": {why[code]}" if why[code] else ""),
            where[code],
            "mend it, or raise the limit its spec declares",
        )


@check("memory is given back from episode to episode", Sight.PROCESS, lost="a long run may need more and more memory")
def memory(subject: Subject) -> Iterator[Fault]:
    """Play one episode again and again with one instance, and look twice at what it has left behind."""
    play = max(plays(subject), key=lambda found: (found.broken is None, _done(found)))
    actions, where = play.actions[: subject.effort.turns], f"{play.ref.split}/{play.ref.index} ({play.who})"
    env: Environment = subject.make()
    failed: list[str] = []

    def rested() -> int:
        for _ in range(WINDOW):
            turns = subject.watch(env, play.ref, traced=False).play(actions, play.turns)
            failed.extend(turn.error for turn in turns if turn.error in UNDONE)
        found = _resident(env)
        if found is None:
            raise Skip("this system does not say how much memory a process has in use")
        return found

    _, first, second, third = rested(), rested(), rested(), rested()
    grown = min(second - first, third - second) / WINDOW
    if failed and not any(turn.error in UNDONE for turn in play.turns):
        yield Fault(f"played again and again, a turn {UNDONE[failed[0]]} ({failed[0]})", where, _GROWS)
    elif grown > MOST_GROWTH:
        yield Fault(f"each episode leaves about {grown / 2**20:.0f} MB behind", f"{where}, {4 * WINDOW} times", _GROWS)


_GROWS = "look for lists and caches outside self.world that only grow"


def _done(play: Play) -> int:
    """Return how many different things were done in a play."""
    done = zip(play.actions, play.turns[1:], strict=False)
    return len({canonical(action) for action, turn in done if turn.valid})


def _resident(env: Environment) -> int | None:
    if isinstance(env, Hosted):
        return env.resident_bytes()
    gc.collect()
    return resident_bytes()


CHECKS = (undone, memory)
