"""Snapshots, restores and forks are exact, at turns drawn at random; and equal worlds have equal keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import CapabilityError, SnapshotError
from agentenvs.harness.check.episodes import Episode, Raised, difference, refuses, rows
from agentenvs.harness.check.findings import Fault, Sight, Skip, check, raised, short
from agentenvs.harness.check.plays import Play, nonsense, plays
from agentenvs.harness.check.subject import Subject

_SAVE = "write all that changes in an episode in _save(), and read all of it back in _load()"
_OWN = "copy in _own() all that a turn changes; the default copies self.world whole"


@check("snapshots are exact, canonical and disturb nothing", Sight.OBJECT, promise="snapshot")
def snapshot(subject: Subject) -> Iterator[Fault]:
    """Save at some turns, restore into a fresh instance, compare what is there and what comes after."""
    for play, turn in _points(subject):
        episode = subject.episode(play.ref)
        episode.play(play.actions[:turn], play.turns)
        if episode.env.ending == "aborted":  # its world may be lost
            continue
        yield from _saved(subject, play, episode, turn)
        subject.tidy()


def _saved(subject: Subject, play: Play, episode: Episode, turn: int) -> Iterator[Fault]:
    env, where = episode.env, _where(play, turn)
    data: bytes = env.snapshot()
    if env.snapshot() != data:
        yield Fault("two snapshots in a row differ", where, _SAVE)
    if canonical_bytes(json.loads(data)) != data:
        yield Fault("a snapshot is no canonical JSON", where, "leave snapshot() as it is; write _save() and _load()")
    twin = subject.make()
    try:
        observation = twin.restore(data)
    except Exception as error:  # noqa: BLE001 - boundary: what is checked may raise anything
        yield Fault("a snapshot cannot be restored", f"{where}: {raised(error)}", _SAVE)
        return
    if canonical_bytes(observation.to_json()) != canonical_bytes(env.observation.to_json()):
        yield Fault("a restored episode shows another observation", where, _SAVE)
    if twin.snapshot() != data:
        yield Fault(
            "the snapshot of a restored episode has other bytes", f"{where}: {_bytes(data, twin.snapshot())}", _SAVE
        )
    if twin.state_key != env.state_key:
        yield Fault(
            "a restored world has another state key", f"{where}: {env.state_key} against {twin.state_key}", _SAVE
        )
        return
    restored = _continued(subject, play, twin, turn)
    if (found := difference(rows(play.turns), rows(restored.turns))) is not None:
        yield Fault("a restored episode goes on differently", f"{where}, then {found}", _SAVE)
    episode.play(play.actions[turn:], play.turns)
    if (found := difference(rows(play.turns), rows(episode.turns))) is not None:
        yield Fault("taking a snapshot changes the episode", f"{where}, then {found}", "let _save() only read")


@check("bytes that are no snapshot are refused", Sight.OBJECT, promise="snapshot")
def bad_snapshots(subject: Subject) -> Iterator[Fault]:
    """Hand torn, foreign and senseless bytes to restore(): each is a SnapshotError."""
    env = subject.make()
    env.reset(subject.ref)
    data = _snapshot(env)
    if not data:
        raise Skip("no snapshot can be taken", "")
    form = json.loads(data)
    tries: dict[str, bytes] = {
        "no bytes": b"",
        "no JSON": b"\xff",
        "half of a snapshot": data[: len(data) // 2],
        "another environment's": canonical_bytes({**form, "env": "nobody/Else-v0"}),
        "another scenario's": canonical_bytes({**form, "scenario": "0" * 64}),
        "a world of another form": canonical_bytes({**form, "world": {"of": ["somebody", "else"]}}),
        "a world that is null": canonical_bytes({**form, "world": None}),
        "a turn below zero": canonical_bytes({**form, "turn": -1}),
    }
    for what, tried in tries.items():
        wrong = refuses(lambda tried=tried: subject.make().restore(tried), SnapshotError)
        if wrong is not None:
            yield Fault(
                f"a snapshot that is {what} {wrong}",
                f"task {subject.ref}",
                "let _load() raise ValueError for what it cannot read",
            )


@check("a fork and its original do not disturb each other", Sight.OBJECT, promise="forkable")
def fork(subject: Subject) -> Iterator[Fault]:
    """Fork at some turns; play one and see that the other has not moved, then play the other."""
    for play, turn in _points(subject):
        for forks_first in (True, False):
            episode = subject.episode(play.ref)
            episode.play(play.actions[:turn], play.turns)
            if episode.env.ending == "aborted":
                continue
            yield from _forked(subject, play, episode, turn, forks_first)
            subject.tidy()


def _forked(subject: Subject, play: Play, episode: Episode, turn: int, forks_first: bool) -> Iterator[Fault]:
    where = _where(play, turn)
    branch = _continued(subject, play, subject.adopt(episode.env.fork()), turn, play_on=False)
    first, second = (branch, episode) if forks_first else (episode, branch)
    names = ("the fork", "the original") if forks_first else ("the original", "the fork")
    before = _standing(second.env)
    try:
        first.play(play.actions[turn:], play.turns)
        if (changed := _changed(before, _standing(second.env))) is not None:
            yield Fault(f"playing {names[0]} changes {names[1]}", f"{where}: {changed}", _OWN)
            return
        if forks_first:
            first.env.close()
        second.play(play.actions[turn:], play.turns)
    except Raised as error:
        yield Fault(f"after a fork the environment raises {raised(error.error)}", f"{where}, then {error.where}", _OWN)
        return
    for name, one in zip(names, (first, second), strict=True):
        if (found := difference(rows(play.turns), rows(one.turns))) is not None:
            yield Fault(f"{name} goes on differently", f"{where}, then {found}", _OWN)


@check("what is not declared is refused", Sight.OBJECT)
def undeclared(subject: Subject) -> Iterator[Fault]:
    """An environment that declares no forks or no snapshots refuses them with a CapabilityError."""
    env = subject.make()
    env.reset(subject.ref)
    declared = subject.spec.capabilities
    calls = {
        "fork": (declared.forkable, lambda: env.fork()),
        "snapshot": (declared.snapshot, lambda: env.snapshot()),
        "restore": (declared.snapshot, lambda: env.restore(b"{}")),
    }
    for name, (has, call) in calls.items():
        wrong = None if has else refuses(call, CapabilityError)
        if wrong is not None:
            yield Fault(f"{name}() is not declared and {wrong}", f"task {subject.ref}", "leave it to the base class")


@check("the state key tells of the world alone", Sight.STATE, lost="turn-level credit needs keys that know no history")
def state_key(subject: Subject) -> Iterator[Fault]:
    """Turns that cannot touch the world leave its key; that a restored world has its own is seen with snapshots."""
    for ref in subject.refs[:3]:
        episode = subject.episode(ref, traced=False)
        for turn in episode.play(nonsense(subject))[1:]:
            first = episode.turns[0].state
            if not isinstance(turn.state, str):
                yield Fault(
                    f"the state key is {short(turn.state)}", episode.where(), "return an int or a str from _key()"
                )
                return
            if turn.state != first:
                what = f"the state key changes from {short(first)} to {short(turn.state)} where nothing was done at all"
                fix = "build _key() from the world alone: no turn, no budget, no history"
                yield Fault(what, episode.where(episode.turns.index(turn)), fix)
                return


def steady(subject: Subject) -> bool:
    """Whether the key stays where nothing was done; where not, no check can tell by it that the world has moved."""

    def asked() -> bool:
        return not any(True for _ in state_key.run(subject))

    return subject.once("steady", asked)


def _points(subject: Subject) -> Iterator[tuple[Play, int]]:
    """Yield plays and turns at which to branch: the reset, the last turn, and some drawn between."""
    stream = subject.stream("points")
    for play in plays(subject)[: subject.effort.branched]:
        last = len(play.turns) - 1
        drawn = {0, last, *(stream.below(last + 1) for _ in range(subject.effort.points))}
        yield from ((play, turn) for turn in sorted(drawn))


def _continued(subject: Subject, play: Play, env: Any, turn: int, play_on: bool = True) -> Episode:
    """Return the episode of an instance that stands at a turn of a play."""
    episode = subject.watch(env, play.ref)
    episode.turns, episode.actions = list(play.turns[: turn + 1]), list(play.actions[:turn])
    if play_on:
        episode.play(play.actions[turn:], play.turns)
    return episode


def _standing(env: Any) -> dict[str, Any]:
    return {
        "state_key": env.state_key,
        "turn": env.turn,
        "ending": env.ending,
        "observation": canonical_bytes(env.observation.to_json()),
        "snapshot": _snapshot(env),
    }


def _snapshot(env: Any) -> bytes:
    """Return a snapshot; empty where there is none, which a check of its own tells."""
    try:
        return bytes(env.snapshot())
    except Exception:  # noqa: BLE001 - boundary: what is checked may raise anything
        return b""


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    for name, value in before.items():
        if after[name] != value:
            if isinstance(value, bytes):
                return f"{name}, {_bytes(value, after[name])}"
            return f"{name} {short(value)} became {short(after[name])}"
    return None


def _bytes(one: bytes, other: bytes) -> str:
    apart = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    at = next(apart, min(len(one), len(other)))
    shown = [short(data[max(at - 20, 0) : at + 40].decode(errors="replace")) for data in (one, other)]
    return f"from byte {at}: {shown[0]} against {shown[1]}"


def _where(play: Play, turn: int) -> str:
    return f"{play.ref.split}/{play.ref.index} ({play.who}), turn {turn}"


CHECKS = (snapshot, bad_snapshots, fork, undeclared, state_key)
