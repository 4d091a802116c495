"""Plays that the checks share: what the oracle does, and what players do that wander about.

A wanderer draws among the legal actions where the environment lists them, and among calls of its tools with arguments
as in their examples, with values of the same name that it has seen, or with numbers a little off; now and then it does
what the oracle has done, or says nonsense. Its draws come from a named stream, so every run of a check plays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.policy import Policy
from agentenvs.core.record import parse_records
from agentenvs.core.spec import ToolSpec
from agentenvs.core.streams import Stream
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.episodes import Episode, Raised, Turn
from agentenvs.harness.check.findings import UNDONE, Sight, Skip, short
from agentenvs.harness.check.subject import Subject
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs.harness.rollout import Episode as Rolled
from agentenvs.harness.rollout import play as roll

ORACLE = "oracle"
MOST_TURNS = 5_000
"""Turns after which an episode is stopped."""

LONGEST = 400
"""Turns of an oracle's play that are kept."""

_NONSENSE: tuple[Any, ...] = ("", "nonsense", {"no": "action"}, {"tool": "no_such_tool", "arguments": {}}, None)


@dataclass(frozen=True, slots=True)
class Play:
    """Actions, and what came of them."""

    who: str
    ref: TaskRef
    actions: tuple[JSON, ...]
    turns: tuple[Turn, ...]
    broken: Raised | None = None
    """What the environment raised after the last turn, where it did."""

    @property
    def ended(self) -> bool:
        """Whether the episode came to its end."""
        return self.turns[-1].ended


def plays(subject: Subject) -> list[Play]:
    """Return the plays of a subject; each has at least its reset.

    Raises:
        Skip: No task could be begun.
    """
    begun = [play for play in played(subject) if play.turns]
    if not begun:
        raise Skip("no task can be begun", "")
    return begun


def played(subject: Subject) -> list[Play]:
    """Return the plays of a subject, also those of tasks that could not be begun."""
    return subject.once("plays", lambda: list(_plays(subject)))


def first_failure(subject: Subject) -> Iterator[Play]:
    """Yield the plays in which the environment raised."""
    yield from (play for play in played(subject) if play.broken is not None)


def where_of(play: Play, number: int) -> str:
    """Return task, player, turn and action of a turn, for a message."""
    return f"{play.ref.split}/{play.ref.index} ({play.who}), turn {number}: {short(play.actions[number - 1], 80)}"


def rolled(subject: Subject, name: str, ref: TaskRef) -> Rolled:
    """Return a whole episode of one of the environment's players.

    Raises:
        UserError: There is no such player, or it cannot be made.
    """

    def made() -> Rolled:
        policy = resolve(name, subject.spec)()
        return rolled_by(subject, policy, ref)

    return subject.once(("rolled", name, ref), made)


def rolled_by(subject: Subject, policy: Policy, ref: TaskRef) -> Rolled:
    """Return a whole episode of a policy; one that does not end by itself is abandoned."""
    turns = iter(range(MOST_TURNS))
    env = subject.make(**wanted_options(policy, subject.spec))
    undone: list[str] = []

    def enough() -> bool:
        code = getattr(env, "last_valid", (True, None))[1]  # one behind a wire does not say
        undone.extend([code] if code in UNDONE else [])
        return len(undone) >= subject.patience or next(turns, None) is None

    return roll(env, policy, ref, stop=enough)


def worn(subject: Subject) -> bool:
    """Whether turns had to be undone again and again, so that it is no use to try more."""
    return sum(_undone(play) for play in played(subject)) >= subject.patience


def _undone(play: Play) -> int:
    return sum(turn.error in UNDONE for turn in play.turns)


def _plays(subject: Subject) -> Iterator[Play]:
    known: list[JSON] = []
    undone = 0
    for ref in subject.refs:
        for play in _of_task(subject, ref, known):
            undone += _undone(play)
            yield play
            if undone >= subject.patience:
                return
        subject.tidy()


def _of_task(subject: Subject, ref: TaskRef, known: list[JSON]) -> Iterator[Play]:
    if ORACLE in subject.spec.players and Sight.RECORD in subject.sights:
        for play in _oracles(subject, ref):
            known += play.actions
            yield play
    for number in range(subject.effort.walks):
        yield _wandered(subject, ref, number, known)


def _oracles(subject: Subject, ref: TaskRef) -> Iterator[Play]:
    """Yield the oracle's play, done again and watched; nothing where it cannot play, which a check of its own says."""
    try:
        records = parse_records(rolled(subject, ORACLE, ref).record)
    except AgentEnvsError:
        return
    played = records[0].turns[:LONGEST]
    undone = next((number for number, turn in enumerate(played) if turn["error"] in UNDONE), len(played))
    actions = [turn["action"] for turn in played[: undone + 1]]  # one that is undone is enough to see that it is
    yield _watched(subject, ORACLE, ref, lambda episode: iter(actions))


def _watched(subject: Subject, who: str, ref: TaskRef, said: Callable[[Episode], Iterator[Any]]) -> Play:
    episode = subject.episode(ref)
    broken = None
    try:
        episode.begin()
        for action in said(episode):
            episode.step(action)
            undone = sum(turn.error in UNDONE for turn in episode.turns)
            if episode.ended or undone >= subject.patience:
                break
        subject.complete(episode)
    except Raised as error:
        broken = error
    return Play(who, episode.ref, tuple(episode.actions), tuple(episode.turns), broken)


def _wandered(subject: Subject, ref: TaskRef, number: int, known: Sequence[JSON]) -> Play:
    stream = subject.stream(f"walk/{ref.split}/{ref.index}/{number}")
    return _watched(subject, f"walk {number}", ref, lambda episode: _wander(subject, episode, stream, known))


def _wander(subject: Subject, episode: Episode, stream: Stream, known: Sequence[JSON]) -> Iterator[Any]:
    """Yield actions for a begun episode, as long as it goes on."""
    seen: dict[str, list[JSON]] = {}
    for _ in range(subject.effort.turns):
        _remember(episode.turns[-1], seen)
        if stream.chance(1, 8):
            yield stream.choice(_NONSENSE)
        elif known and stream.chance(1, 4):
            yield stream.choice(known)
        else:
            yield _chosen(subject, episode, stream, seen)


def _chosen(subject: Subject, episode: Episode, stream: Stream, seen: Mapping[str, list[JSON]]) -> Any:
    spec = subject.spec
    listed = _listed(episode)
    makers: list[Callable[[], Any]] = []
    if listed and "text" in spec.accepts:
        makers += [lambda: stream.choice(listed)] * 3
    if spec.tools and "tool" in spec.accepts:
        makers += [lambda: _calls(spec.tools, spec.max_calls, stream, seen)] * 2
    if "message" in spec.accepts:
        makers.append(lambda: {"message": stream.choice(("Hello.", "What is it about?", "Which one?", "Yes."))})
    if not makers:
        makers.append(lambda: stream.choice(("look", "help", "go", "take", "yes", "1")))
    return stream.choice(makers)()


def _listed(episode: Episode) -> Sequence[str]:
    """Return the legal actions, where they can be had."""
    admissible = getattr(episode.env, "admissible", None)
    if callable(admissible):
        try:
            return admissible() or ()
        except Exception as error:
            raise Raised(f"{episode.where()}, admissible()", error) from error
    return episode.turns[-1].shown["observation"].get("admissible") or ()


def _calls(tools: Sequence[ToolSpec], most: int, stream: Stream, seen: Mapping[str, list[JSON]]) -> JSON:
    if most > 1 and stream.chance(1, 4):
        return [_call(stream.choice(tools), stream, seen) for _ in range(stream.between(2, most))]
    return _call(stream.choice(tools), stream, seen)


def _call(tool: ToolSpec, stream: Stream, seen: Mapping[str, list[JSON]]) -> JSON:
    example = dict(stream.choice(tool.examples)) if tool.examples else {}
    return {"tool": tool.name, "arguments": {name: _value(name, example[name], stream, seen) for name in example}}


def _value(name: str, value: JSON, stream: Stream, seen: Mapping[str, list[JSON]]) -> JSON:
    if seen.get(name) and stream.chance(1, 2):
        return stream.choice(seen[name])
    if type(value) is int and stream.chance(1, 2):
        return value + stream.between(-2, 2)
    return value


def _remember(turn: Turn, seen: dict[str, list[JSON]]) -> None:
    """Keep values of data blocks by name, so that an argument of that name may take one."""
    for block in turn.shown["observation"]["blocks"]:
        data = block.get("data")
        if isinstance(data, dict):
            for name, value in data.items():
                seen.setdefault(name, []).append(value)


def strolls(subject: Subject, ref: TaskRef, count: int) -> list[Play]:
    """Return plays of wanderers who know nothing of the oracle; each draws from a stream of its own."""
    return subject.once(("strolls", ref, count), lambda: [_wandered(subject, ref, 100 + n, ()) for n in range(count)])


def nonsense(subject: Subject) -> list[Any]:
    """Return actions that no environment can mean anything by."""
    del subject
    return [{"no": "action"}, [], {"tool": ["a", "list"]}, 3.5, {"message": 7}]
