"""Episodes as checks see them: what came of each turn as data, so that two of them can be compared to the byte.

The same code plays an environment in this process, one in a worker process and one behind a wire: all have ``reset``
and ``step``. Whatever an environment raises becomes :class:`Raised`, which says at which turn and after which action.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agentenvs
from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.core.record import effects_to_json
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Effect, StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.harness.check.findings import UNDONE, raised, short


class Raised(Exception):
    """An environment raised where it must not.

    Args:
        where: Task, turn, action.
        error: What it raised.
    """

    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__(f"{where}: {raised(error)}")
        self.where = where
        self.error = error

    @property
    def place(self) -> str:
        """The innermost line of the author's code that raised, as ``file:line``; empty where it was ours."""
        frames = [frame for frame in traceback.extract_tb(self.error.__traceback__) if not _is_ours(frame.filename)]
        return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


_OURS = tuple(str(Path(agentenvs.__file__).parent / room) for room in ("core", "harness", "adapters", "client"))


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS)


@dataclass(slots=True)
class Turn:
    """One turn, the reset being turn 0."""

    shown: dict[str, JSON]
    """All a player sees: observation, reward, terminated, truncated, info."""
    state: str | None = None
    trace: JSON = None
    effects: list[JSON] = field(default_factory=list)
    valid: bool = True
    error: str | None = None
    failure: str = ""
    """Why it was undone, where it was."""

    @property
    def ended(self) -> bool:
        """Whether the episode is over after it."""
        return bool(self.shown.get("terminated") or self.shown.get("truncated"))

    @property
    def text(self) -> str:
        """The observation's words, for messages."""
        return " ".join(str(block.get("text", block.get("data"))) for block in self.shown["observation"]["blocks"])

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form, without effects."""
        return {**self.shown, "state_key": self.state, "trace": self.trace}


class Episode:
    """One episode of one instance.

    Args:
        env: An environment, here or behind a wire.
        ref: The task.
        inside: Whether it is in this process, so that effects can be fed back.
        traced: Whether traces are kept.
    """

    def __init__(self, env: Any, ref: TaskRef, *, inside: bool = True, traced: bool = True) -> None:
        self.env = env
        self.ref = ref
        self.inside = inside
        self.traced = traced
        self.turns: list[Turn] = []
        self.actions: list[JSON] = []

    def begin(self, effects: Sequence[JSON] | None = None) -> Turn:
        """Reset.

        Raises:
            Raised: It raised.
        """
        fed = {"effects": _effects(effects)} if effects and self.inside else {}
        try:
            observation = self.env.reset(self.ref, **fed)
            turn = self._seen({"observation": observation.to_json()})
        except (Exception, SystemExit) as error:
            raise Raised(self._at(0), error) from error
        self.turns = [turn]
        self.actions = []
        return turn

    def step(self, action: Any, effects: Sequence[JSON] | None = None) -> Turn:
        """Play a turn.

        Raises:
            Raised: It raised, or what it returned is no five-tuple of JSON.
        """
        fed = {"effects": _effects(effects)} if effects and self.inside else {}
        try:
            turn = self._seen(_shown(self.env.step(action, **fed)))
        except (Exception, SystemExit) as error:
            raise Raised(self._at(len(self.turns), action), error) from error
        self.turns.append(turn)
        self.actions.append(to_json(parse_action(action)))
        return turn

    def play(self, actions: Sequence[Any], like: Sequence[Turn] | None = None) -> list[Turn]:
        """Play actions until the end.

        Args:
            actions: What is played.
            like: An earlier play of the same actions, whose effects are fed back.

        Returns:
            All turns so far, the reset first.
        """
        fed = list(like or ())
        if not self.turns:
            self.begin(fed[0].effects if fed else None)
        for action in actions:
            if self.turns[-1].ended:
                break
            number = len(self.turns)
            self.step(action, fed[number].effects if number < len(fed) else None)
        return self.turns

    def finish(self, ending: Ending) -> Verdict:
        """End it and return the verdict.

        Raises:
            Raised: It raised, or returned none.
        """
        try:
            verdict = self.env.finish(ending)
            if not isinstance(verdict, Verdict):
                raise ContractError(f"finish() returned a {type(verdict).__name__}, no Verdict")
            canonical_bytes(verdict.to_json())
        except (Exception, SystemExit) as error:
            raise Raised(f"{self._at(len(self.turns) - 1)}, finish({ending!r})", error) from error
        return verdict

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return bool(self.turns) and self.turns[-1].ended

    def where(self, turn: int | None = None) -> str:
        """Return task and turn, for a message."""
        number = len(self.turns) - 1 if turn is None else turn
        return self._at(number, self.actions[number - 1] if 0 < number <= len(self.actions) else None)

    def _at(self, turn: int, action: Any = None) -> str:
        said = "" if action is None else f", action {short(action, 80)}"
        return f"{self.ref.split}/{self.ref.index}, turn {turn}{said}"

    def _seen(self, shown: dict[str, JSON]) -> Turn:
        canonical_bytes(shown)
        env = self.env
        trace = env.last_trace if self.traced and "reward" in shown else None
        valid, error = env.last_valid
        form = None if trace is None else trace.to_json()
        canonical_bytes(form)
        failure = getattr(env, "failure", "") if error in UNDONE else ""
        return Turn(shown, env.state_key, form, effects_to_json(env.effects), valid, error, failure)


def _shown(result: StepResult) -> dict[str, JSON]:
    observation, reward, terminated, truncated, info = result
    return {
        "observation": observation.to_json(),
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
        "info": info,
    }


def _effects(form: Sequence[JSON]) -> list[Effect]:
    return [Effect(item["kind"], item["value"]) for item in form]


def refuses(call: Any, *wanted: type[AgentEnvsError]) -> str | None:
    """Return what is wrong where a call is not refused with one of these errors; None where it is."""
    try:
        call()
    except wanted:
        return None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - boundary: what is checked may raise anything
        return f"raises {raised(error)}"
    return "is accepted"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two plays of the same actions differ."""

    turn: int
    field: str
    first: JSON
    second: JSON

    def words(self) -> str:
        """Return field, byte and excerpts, for a message."""
        at, left, right = _excerpt(self.first, self.second)
        return f"{self.field}{at}: {left} against {right}"

    def __str__(self) -> str:
        """Return it with its turn."""
        return f"turn {self.turn}, {self.words()}"


def difference(first: Sequence[dict[str, JSON]], second: Sequence[dict[str, JSON]]) -> Difference | None:
    """Return the first difference of two lists of turns as JSON; None where they are equal to the byte."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if canonical_bytes(one) != canonical_bytes(other):
            name, left, right = next(iter(_paths("", one, other)))
            return Difference(number, name, left, right)
    if len(first) != len(second):
        return Difference(min(len(first), len(second)), "number of turns", len(first), len(second))
    return None


def _paths(name: str, one: JSON, other: JSON) -> Iterator[tuple[str, JSON, JSON]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            inside = f"{name}.{key}" if name else str(key)
            yield from _paths(inside, one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _paths(f"{name}[{number}]", left, right)
    elif canonical_bytes(one) != canonical_bytes(other):
        yield name, one, other


def _excerpt(one: JSON, other: JSON) -> tuple[str, str, str]:
    """Return where two texts part, and a little of each; other values whole."""
    if not isinstance(one, str) or not isinstance(other, str):
        return "", short(one), short(other)
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(one), len(other)) if same is None else same
    start = max(at - 20, 0)
    byte = len(one[:at].encode(errors="replace"))
    return f" from byte {byte}", repr(short(one[start:], 60)), repr(short(other[start:], 60))


def rows(turns: Sequence[Turn]) -> list[dict[str, JSON]]:
    """Return turns in the form that :func:`difference` compares."""
    return [turn.to_json() for turn in turns]


__all__ = [
    "Difference",
    "Episode",
    "Raised",
    "Turn",
    "difference",
    "refuses",
    "rows",
]
