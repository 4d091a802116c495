"""What a check is, and what comes of one.

A check is a generator over a subject: it yields a :class:`Fault` for each thing that is wrong and ends quietly where
nothing is. One that cannot be made raises :class:`Skip`. What it needs to see and which promise it is about stand
beside it as data, so that the runner, not the check, decides whether it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError

if TYPE_CHECKING:
    from agentenvs.harness.check.subject import Subject

Status: TypeAlias = Literal["passed", "failed", "skipped"]
Promise: TypeAlias = Literal["", "deterministic", "replayable", "resumable", "forkable", "snapshot"]

UNDONE = {
    "step_timeout": "overran its time",
    "step_crashed": "took its process down",
    "step_raised": "raised",
    "step_memory": "needed more memory than it may",
    "step_cpu": "used more processor time than it may",
    "step_size": "said or held more than fits between processes",
    "engine_failed": "found that what is wrapped had failed",
}
"""Codes of turns that the environment failed in, and not the player."""

MOST_FAULTS = 3
"""Faults of one check that are shown; the first is what has to be mended."""

_LONGEST = 600


class Sight(StrEnum):
    """Something of an environment that a check has to see; a subject says which it can."""

    STATE = "the key of the world"
    TRACE = "traces"
    OBJECT = "the environment as an object: forks, snapshots, capabilities out of turn"
    SCENARIO = "scenarios and their secrets"
    PROCESS = "the process it runs in: random generators, clocks, logs"
    SOURCE = "its source, to run it again in another process"
    RECORD = "episode records"


LOST: dict[Promise, str] = {
    "deterministic": "no ranked boards: two runs of one player may differ",
    "replayable": "no re-verified leaderboards, no crash-safe training: a record cannot be played again",
    "resumable": "no crash-safe training: an episode whose world is lost ends as aborted",
    "forkable": "no credit audit by branching, and no tree search in process",
    "snapshot": "an episode cannot move to another machine, and a crash replays it from its start",
}
"""What users lose where an environment does not declare a promise."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    what: str
    """What is wrong, one sentence."""
    where: str = ""
    """Task, turn, action, field, bytes."""
    fix: str = ""
    """How to mend it."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"what": self.what, "where": self.where, "fix": self.fix}


class Skip(Exception):
    """A check that cannot be made.

    Args:
        why: The reason.
        lost: What users go without, or what stays unknown; what the check says of itself where None.
    """

    def __init__(self, why: str, lost: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and when it applies."""

    name: str
    theme: str
    title: str
    """What holds where it passes, in words."""
    run: Callable[[Subject], Iterator[Fault]]
    needs: tuple[Sight, ...] = ()
    promise: Promise = ""
    """The capability it tests; it is skipped where the spec does not declare it."""
    lost: str = ""
    """What stays unknown where it cannot be made."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of a check."""

    check: str
    theme: str
    title: str
    status: Status
    faults: tuple[Fault, ...] = ()
    why: str = ""
    """Why it was skipped."""
    lost: str = ""
    """What users lose by that."""
    promise: Promise = ""
    """The capability it is about."""
    seconds: float = 0.0
    """Wall-clock time it took."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "check": self.check,
            "theme": self.theme,
            "title": self.title,
            "status": self.status,
            "faults": [fault.to_json() for fault in self.faults],
            "why": self.why,
            "lost": self.lost,
            "seconds": round(self.seconds, 3),
        }


def check(
    title: str, *needs: Sight, promise: Promise = "", lost: str = ""
) -> Callable[[Callable[[Subject], Iterator[Fault]]], Check]:
    """Make a check of a generator function; its name and its module's name become those of check and theme.

    Args:
        title: What holds where it passes.
        *needs: What it has to see.
        promise: The capability it tests.
        lost: What stays unknown where it cannot be made.
    """

    def made(run: Callable[[Subject], Iterator[Fault]]) -> Check:
        theme = run.__module__.rpartition(".")[2]
        return Check(run.__name__, theme, title, run, needs, promise, lost or LOST.get(promise, ""))

    return made


def short(value: object, longest: int = 120) -> str:
    """Return a value's text for a message, cut and printable."""
    text = value if isinstance(value, str) else repr(value)
    shown = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text[: longest + 1])
    return shown if len(shown) <= longest else shown[:longest] + "…"


def raised(error: BaseException) -> str:
    """Return an exception's kind and words for a message, on one line."""
    said = error.what + (f" ({error.why})" if error.why else "") if isinstance(error, AgentEnvsError) else str(error)
    return short(f"{type(error).__name__}: {said}", _LONGEST)
