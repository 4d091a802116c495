"""No secret is told before a rule reveals it.

Scenarios that differ only in fields marked ``SECRET`` are served side by side (see
:mod:`agentenvs.harness.check.altering`). Their first observations and tasks must be equal to the byte, and all they
show stays so until an observation differs: then a rule has told them apart, which is how a secret is lawfully seen, and
the comparison ends. It is a leak nevertheless where nothing was done (an action that is none), where ``info``
differs and the observation does not, or where the traces say that the same was observed. Lists of legal actions may
differ only in what is legal in one of the two worlds and not in the other. Altered strings are canaries: they are
looked for everywhere else, too: representations, error messages, logs, warnings, output.

The task sentence is not hidden, and nothing is after the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from agentenvs.core.actions import parse_action
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.task import TaskRef
from agentenvs.harness.check import altering, nonsense
from agentenvs.harness.check.episodes import Difference, Episode, Raised, Turn, difference
from agentenvs.harness.check.findings import Fault, Sight, Skip, check
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.plays import Play, plays, strolls
from agentenvs.harness.check.subject import Subject

_FIX = "keep secrets in the scenario and the world; build what is shown from what a rule has revealed"
_LOST = "nobody knows whether the goal is hidden: a policy may learn to read it"
_MOST_TURNS = 24
_MOST_LEGAL = 6
_CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda env: env.finish("won"),
    lambda env: env.restore(b"{}"),
    lambda env: env.fork().close(),
    lambda env: env.check_ref(TaskRef("no such split", 0)),
    lambda env: env.effect(None, None),
    lambda env: env.step(),
)


@check("scenarios that differ only in secrets look the same", Sight.SCENARIO, lost=_LOST)
def twins(subject: Subject) -> Iterator[Fault]:
    """Serve pairs side by side, through nonsense and through play, until a rule tells them apart."""
    tried = 0
    for ref, alteration in _alterations(subject):
        fault, served = _compared(subject, ref, alteration)
        subject.tidy()
        tried += served
        if fault is not None:
            yield fault
    if not tried:
        raise Skip("no pair of scenarios that differ only in secrets could be made: define secret_twins()", _LOST)


@check("no canary in a secret field gets out", Sight.SCENARIO, lost=_LOST)
def canaries(subject: Subject) -> Iterator[Fault]:
    """Plant texts in secret strings; look for them in representations, messages, logs, warnings and output."""
    tried = 0
    for ref, alteration in _alterations(subject):
        if alteration.get("way") != "canary":
            continue
        with _overheard() as heard:
            env = subject_local(subject).altered(alteration, **subject.listing())
            try:
                found, where = _searched(subject, subject.watch(env, ref), heard)
                tried += 1
            except Raised:  # the world cannot be begun with such a text; pairs of other kinds test this field
                continue
            finally:
                subject.tidy()
        if found:
            yield Fault(f"the secret field {alteration['field']!r} is told in {found}", where, _FIX)
    if not tried:
        raise Skip("no secret field holds a text that could be replaced by another: the pairs tell", "")


def subject_local(subject: Subject) -> Local:
    """Return a subject whose scenarios can be altered.

    Raises:
        Skip: It is not in this process.
    """
    if not isinstance(subject, Local):
        raise Skip("its scenarios cannot be altered from here")
    return subject


def _alterations(subject: Subject) -> list[tuple[TaskRef, JSON]]:
    """Return what can be altered in the secrets of the first tasks.

    Raises:
        Skip: No field is marked.
    """
    local = subject_local(subject)
    env = local.inside()
    found = []
    for ref in subject.refs[: subject.effort.twins]:
        scenario: Any = env.scenario(ref.split, ref.index)
        if not (dataclasses.is_dataclass(scenario) or callable(getattr(env, "secret_twins", None))):
            raise Skip("its scenarios are no dataclasses, so no field can be marked SECRET", _LOST)
        found += [(ref, alteration) for alteration in altering.alterations(env, scenario)]
    if not found:
        raise Skip("no field of its scenarios is marked with metadata=SECRET", _LOST)
    return found


# ---- pairs ---------------------------------------------------------------------------------------------------------


class _Pair:
    """A task and its altered twin, played side by side.

    Args:
        subject: What is checked.
        ref: The task.
        alteration: What is other in the twin; nothing where None.

    Raises:
        Raised: One of them cannot be begun.
    """

    def __init__(self, subject: Subject, ref: TaskRef, alteration: JSON) -> None:
        self.subject, self.ref, self.alteration = subject, ref, alteration
        self.twin = subject.watch(subject_local(subject).altered(alteration, **subject.listing()), ref)
        self.twin.begin()
        self.plain = subject.episode(ref, **subject.listing())
        self.plain.begin()

    def leak(self, actions: list[Any]) -> str | None:
        """Return the first difference that no rule has made; None where there is none."""
        found = difference([_told(self.plain)], [_told(self.twin)])
        if found is not None or (found := self._legal()) is not None:
            return f"at the start, {found.words()}"
        for action in actions:
            if self.plain.ended or self.twin.ended:
                return None
            try:
                one, other = self.plain.step(action), self.twin.step(action)
            except Raised:  # the altered world is not sound, or a check of its own tells
                return None
            found, over = self._difference(
                one, other, nonsense.must_be_refused(self.subject.spec, parse_action(action))
            )
            if found is not None:
                return f"{self.plain.where()}: {found.words()}"
            if over:
                return None
        return None

    def _difference(self, one: Turn, other: Turn, nothing_done: bool) -> tuple[Difference | None, bool]:
        """Return a difference that cannot be a rule's doing, and whether a rule has told the twins apart."""
        found = difference([_without_legal(one)], [_without_legal(other)])
        if found is None:
            return self._legal(), False
        if nothing_done or (one.shown["info"] != other.shown["info"] and _blocks(one) == _blocks(other)):
            return found, True
        same = _traced(self.subject) and one.valid and other.valid and _facts(one) == _facts(other)
        return (found if same and _blocks(one) != _blocks(other) else None), True

    def _legal(self) -> Difference | None:
        """Return how the lists of legal actions differ, unless by rule: what only one lists is legal only there."""
        first, second = (_listed(one.turns[-1]) for one in (self.plain, self.twin))
        if first == second:
            return None
        found = Difference(len(self.plain.turns) - 1, "observation.admissible", first, second)
        if [action for action in first if action in second] != [action for action in second if action in first]:
            return found
        apart = [action for action in (*first, *second) if (action in first) != (action in second)]
        for action in apart[:_MOST_LEGAL]:
            if self._is_legal(action, None) == self._is_legal(action, self.alteration):
                return Difference(found.turn, f"observation.admissible, {action!r}", action in first, action in second)
        return None

    def _is_legal(self, action: str, alteration: JSON) -> bool:
        if alteration is None:
            episode = self.subject.episode(self.ref, traced=False)
        else:
            episode = self.subject.watch(subject_local(self.subject).altered(alteration), self.ref, traced=False)
        episode.play(self.plain.actions, self.plain.turns)
        return episode.step(action).valid


def _compared(subject: Subject, ref: TaskRef, alteration: JSON) -> tuple[Fault | None, bool]:
    """Return the leak that a pair shows, if it shows one, and whether the altered scenario could be served."""
    told = f"twin {alteration['twin']}" if "twin" in alteration else f"{alteration['field']} ({alteration['way']})"
    served = False
    for actions in _scripts(subject, ref):
        try:
            leak = _Pair(subject, ref, alteration).leak(actions)
        except Raised:
            return None, served
        served = True
        if leak is not None:
            if _Pair(subject, ref, None).leak(actions) is not None:
                raise Skip("two runs of one scenario differ already", "")
            where = f"{ref.split}/{ref.index}, secret {told}: {leak}"
            return Fault("two scenarios that differ only in a secret can be told apart", where, _FIX), True
    return None, served


def _scripts(subject: Subject, ref: TaskRef) -> Iterator[list[Any]]:
    """Yield what is played: nonsense, what was played before on the same task, and strolls."""
    yield [{"no": "action"}, {"tool": "no_such_tool", "arguments": {}}, "", 7]
    for play in plays(subject):
        if play.ref == ref:
            yield list(play.actions[:_MOST_TURNS])
    for play in strolls(subject, ref, subject.effort.strolls):
        yield list(play.actions[:_MOST_TURNS])


def _told(episode: Episode) -> dict[str, JSON]:
    """Return all that is told before the first action, but the legal actions."""
    env = episode.env
    task, spec = env.task(), env.spec.to_json()
    return {
        **_without_legal(episode.turns[0]),
        "spec": {name: spec[name] for name in ("title", "description", "tools")},
        "task": {"instruction": task.instruction, "options": dict(task.options)},
        "options": env.public_options(),
    }


def _without_legal(turn: Turn) -> dict[str, JSON]:
    shown = turn.shown["observation"]
    return {**turn.shown, "observation": {name: shown[name] for name in shown if name != "admissible"}}


def _listed(turn: Turn) -> list[str]:
    return list(turn.shown["observation"].get("admissible") or ())


def _blocks(turn: Turn) -> JSON:
    return turn.shown["observation"]["blocks"]


def _traced(subject: Subject) -> bool:
    """Whether the environment tells in traces what was observed."""

    def asked() -> bool:
        return any(turn.trace and turn.trace["observed"] for play in plays(subject) for turn in play.turns)

    return subject.once("traced", asked)


def _facts(turn: Turn) -> JSON:
    return {name: turn.trace[name] for name in ("observed", "used", "written", "milestones")}


# ---- canaries ------------------------------------------------------------------------------------------------------


def _searched(subject: Subject, episode: Episode, heard: Callable[[], str]) -> tuple[str, str]:
    """Return where a canary was found that no observation has shown, and at which turn; empty where none was."""
    episode.begin()
    if found := _where_told(episode, heard, ""):
        return found, episode.where()
    seen = ""
    for action in _script(subject, episode.ref):
        if episode.ended:
            return "", ""
        turn = episode.step(action)
        if turn.ended:
            return "", ""
        if turn.valid:
            seen += _text(turn) + _legal(turn)
        if found := _where_told(episode, heard, seen):
            return found, episode.where()
    return "", ""


def _script(subject: Subject, ref: TaskRef) -> list[Any]:
    known: list[Play] = [play for play in plays(subject) if play.ref == ref]
    return [{"no": "action"}, *(action for play in known[-1:] for action in play.actions[:_MOST_TURNS])]


def _where_told(episode: Episode, heard: Callable[[], str], seen: str) -> str:
    """Return the first place where a canary stands that nothing valid has shown; empty for none."""
    env, last = episode.env, episode.turns[-1]
    observation = last.shown["observation"]
    places: dict[str, Callable[[], str]] = {
        "an observation": lambda: _text(last),
        "the task": lambda: repr(env.task()),
        "the legal actions": lambda: _legal(last),
        "info": lambda: json.dumps(last.shown.get("info")),
        "the budgets": lambda: json.dumps(observation.get("budgets")),
        "its options": lambda: repr(env.public_options()),
        "its spec": lambda: repr(env.spec),
        "its representation": lambda: f"{env!r} {env!s}",
        "an error": lambda: " ".join(_complaint(call, env) for call in _CALLS),
        "a log, a warning or its output": heard,
    }
    for place, text in places.items():
        hidden = [word for word in altering.CANARY.findall(text()) if word not in seen]
        if hidden:
            return place
    return ""


def _complaint(call: Callable[[Any], Any], env: Any) -> str:
    try:
        call(env)
    except Exception as error:  # noqa: BLE001 - boundary: it is the words of any error that are looked at
        return f"{error!r} {error}"
    return ""


def _legal(turn: Turn) -> str:
    return json.dumps(_listed(turn), ensure_ascii=False)


def _text(turn: Turn) -> str:
    return canonical_bytes(_blocks(turn)).decode()


@contextlib.contextmanager
def _overheard() -> Iterator[Callable[[], str]]:
    """Listen to logs, warnings and output."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(record=True) as told,
        ):
            warnings.simplefilter("always")
            yield lambda: said.getvalue() + " ".join(str(warning.message) for warning in told)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


CHECKS = (twins, canaries)
