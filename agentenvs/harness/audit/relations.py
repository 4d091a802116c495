"""Metamorphic relations of plays: what a change of a play must not do to what it earns.

Each is tried on a few solved tasks; the reward of the changed play is held against that of the plain one. How two
outcomes must stand to each other, without playing, is said by the environment and tried in
:mod:`agentenvs.harness.audit.grader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentenvs.core.canon import canonical
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import Row, opened, skipped
from agentenvs.harness.audit.theatre import MOST_TURNS, Take, Theatre, apart
from agentenvs_scoring.probes import SLACK
from agentenvs_scoring.probes.generic.known import nothing

TASKS = 4
"""Solved tasks each relation is tried on."""

_UNSOLVED = "no oracle: nobody knows a solution"
_LOST = "nobody knows whether a solution can be stretched, cut or repeated for more"
_USELESS: tuple[Any, ...] = ("", "nonsense", {"no": "action"}, {"tool": "no_such_tool", "arguments": {}})


@dataclass(frozen=True, slots=True)
class Law:
    """A relation of plays."""

    name: str
    says: str
    run: Callable[[Theatre, TaskRef], Iterator[tuple[float, Take]]]
    """Yields plays with the most that each may earn."""
    solved: bool = True
    """Whether it takes a solution. What may be repeated without one is known only where nothing is paid by the step."""


def rows(theatre: Theatre) -> Iterator[Row]:
    """Yield a row a relation."""
    for law in LAWS:
        if law.name == "order" and not theatre.said.ordered:
            continue
        yield _row(theatre, law)


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return len(LAWS) - (not theatre.said.ordered)


def _row(theatre: Theatre, law: Law) -> Row:
    name = f"relation.{law.name}"
    solved = [ref for ref in theatre.refs if theatre.solution(ref)]
    if not solved and not law.solved and (law.run is _bound or theatre.spec.capabilities.rewards == "final"):
        solved = theatre.refs
    if not solved:
        return skipped(name, law.says, _UNSOLVED, _LOST)
    most, tried = 0.0, 0
    for ref in apart(solved, TASKS):
        for allowed, take in law.run(theatre, ref):
            tried += 1
            most = max(most, take.earned)
            if take.earned > allowed + SLACK:
                said = f"earns {take.earned:g}, may earn {allowed:g}, on {take.where}"
                row = Row(name, law.says, "breach", said, allowed, take.earned, episodes=tried)
                return opened(row, theatre.said.open[name]) if name in theatre.said.open else row
    if not tried:
        return skipped(name, law.says, "there is nothing of the kind to try")
    return Row(name, law.says, "held", f"{tried} plays of {min(len(solved), TASKS)} tasks", None, most, episodes=tried)


def _plain(theatre: Theatre, ref: TaskRef) -> float:
    """Return what a task's solution earns."""
    return theatre.subject.once(("plain", ref), lambda: theatre.act(theatre.solution(ref), ref, who="oracle").earned)


def _padding(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Say something useless before each step, or several times at the start."""
    solution, plain = theatre.solution(ref), _plain(theatre, ref)
    for useless in _USELESS:
        yield plain, theatre.act([part for action in solution for part in (useless, action)], ref)
        yield plain, theatre.act([*[useless] * 5, *solution], ref)


def _prefixes(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Stop before each step of a solution: with silence, and with what may end an episode."""
    solution, plain = theatre.solution(ref), _plain(theatre, ref)
    for cut in apart(range(len(solution)), 8):  # type: ignore[arg-type]
        begun = solution[: int(cut)]  # type: ignore[call-overload]
        yield plain, theatre.act(begun, ref)
        if "end" in theatre.spec.accepts:
            yield plain, theatre.act([*begun, {"end": "done"}], ref)


def _doubled(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Do each step of a solution twice, and all of it again from the start."""
    solution, plain = theatre.solution(ref), _plain(theatre, ref)
    yield plain, theatre.act([action for action in solution for _ in range(2)], ref)
    yield plain, theatre.act([*solution[:-1], *solution], ref)


def _repeated(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Do one thing for ever: it earns no more than done once. A step that a solution repeats is left out."""
    solution = theatre.solution(ref)
    keys = [canonical(action) for action in solution]
    for action in _candidates(theatre, ref)[:8]:
        if keys.count(canonical(action)) < 2:
            once = theatre.act([action], ref)
            yield once.earned, theatre.act([action] * _limit(theatre), ref)


def _undone(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Do one thing and then another that undoes it, for ever: it earns no more than one round.

    That it is undone is told by what may be done then, or by what is seen when the first is done again. A pair that a
    solution repeats is left out.
    """
    solution = [canonical(action) for action in theatre.solution(ref)]
    pairs = list(pairwise(solution))
    candidates = _candidates(theatre, ref)[:8]
    for one in candidates:
        for other in [*_opened(theatre, ref, one), *candidates]:
            if one == other or pairs.count((canonical(one), canonical(other))) > 1:
                continue
            if _undoes(theatre, ref, one, other):
                allowed = max(theatre.act(begun, ref).earned for begun in ([one], [one, other], [one, other, one]))
                yield allowed, theatre.act([one, other] * (_limit(theatre) // 2), ref)


def _opened(theatre: Theatre, ref: TaskRef, action: Any) -> list[Any]:
    """Return what may be done after an action and could not be done before it, as far as legal actions are listed."""
    env = theatre.env()
    legal = getattr(env, "admissible", lambda: None)
    try:
        env.reset(ref)
        before = legal() or ()
        if env.step(action).info.get("invalid"):
            return []
        return [command for command in legal() or () if command not in before][:4]
    except Exception:  # noqa: BLE001 - boundary: what is audited may raise anything, and other rows tell
        return []


def _undoes(theatre: Theatre, ref: TaskRef, one: Any, other: Any) -> bool:
    env = theatre.env()
    legal = getattr(env, "admissible", lambda: None)
    try:
        env.reset(ref)
        before, seen, listed = legal(), [], []
        for action in (one, other, one, other):
            result = env.step(action)
            if result.info.get("invalid") or result.terminated or result.truncated:
                return False
            seen.append(result.observation.text)
            listed.append(legal())
    except Exception:  # noqa: BLE001 - boundary: what is audited may raise anything, and other rows tell
        return False
    if before is not None and before == listed[1] and listed[0] != listed[1]:
        return True
    return bool(seen[0] == seen[2] and seen[1] == seen[3] and seen[0] != seen[1])


def _candidates(theatre: Theatre, ref: TaskRef) -> list[Any]:
    """Return what could be repeated: legal actions at the start, steps of a solution, examples of tools."""
    env = theatre.env()
    env.reset(ref)
    listed = list(getattr(env, "admissible", lambda: None)() or ())
    calls = [{"tool": tool.name, "arguments": dict(given)} for tool in theatre.spec.tools for given in tool.examples]
    solution = theatre.solution(ref)
    mixed = [*solution[:3], *apart(listed, 5), *calls[:3]]
    return [action for number, action in enumerate(mixed) if action not in mixed[:number]]


def _limit(theatre: Theatre) -> int:
    options = theatre.subject.options
    limit = options.get("limit") or theatre.spec.budgets.get("steps") or MOST_TURNS
    return min(int(limit), MOST_TURNS)


def _late(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Have one turn too few: a solution that needs them all does not win; with more turns it earns no more."""
    if not any(option.name == "limit" for option in theatre.spec.options):
        return
    solution, plain = theatre.solution(ref), _plain(theatre, ref)
    yield plain, theatre.act(solution, ref, limit=2 * _limit(theatre))
    for limit in dict.fromkeys((1, len(solution) - 1)):
        if 0 < limit < len(solution):
            within = theatre.act(solution[:limit], ref)
            take = theatre.act(solution, ref, limit=limit)
            yield within.earned, take
            yield float(limit), _counted(take)


def _bound(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Do nothing for longer than the limit: the episode ends there."""
    limit = theatre.subject.options.get("limit", theatre.spec.budgets.get("steps"))
    if limit and limit < MOST_TURNS:
        take = theatre.act([nothing(theatre.spec)] * (int(limit) + 5), ref)
        yield float(limit), _counted(take)


def _counted(take: Take) -> Take:
    """Return a play with its turns for what it earned, so that they can be held against the limit."""
    return Take(take.ref, float(take.turns), take.success, take.turns, take.ended)


def _backwards(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Play a solution of several steps in another order: it does not win."""
    solution = theatre.solution(ref)
    plain = _plain(theatre, ref)
    orders = [list(reversed(solution)), [*solution[1:], solution[0]], [*solution[-1:], *solution[:-1]]]
    for order in orders:
        if [canonical(action) for action in order] != [canonical(action) for action in solution]:
            yield plain - 2 * SLACK, theatre.act(order, ref)


def _superset(theatre: Theatre, ref: TaskRef) -> Iterator[tuple[float, Take]]:
    """Put into each list of a solution also what is wrong, which must cost, or the same again, which earns no more."""
    solution, plain = theatre.solution(ref), _plain(theatre, ref)
    others = [other.solution for place, other in theatre.openings() if place != ref]
    for change, allowed in ((_with_others(others), plain - 2 * SLACK), (_with_itself, plain)):
        changed = [change(action) for action in solution]
        if changed != list(solution):
            yield allowed, theatre.act(changed, ref)


def _with_others(others: Sequence[tuple[Any, ...]]) -> Callable[[Any], Any]:
    lists = [
        value
        for solution in others
        for action in solution
        if isinstance(action, dict)
        for value in action.get("arguments", {}).values()
        if isinstance(value, list)
    ]

    def changed(action: Any) -> Any:
        return _lists(
            action, lambda value: [*value, *[item for listed in lists for item in listed if item not in value]]
        )

    return changed


def _with_itself(action: Any) -> Any:
    return _lists(action, lambda value: [*value, *value])


def _lists(action: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    if not isinstance(action, dict) or "tool" not in action:
        return action
    arguments = {
        name: change(value) if isinstance(value, list) else value for name, value in action["arguments"].items()
    }
    return {**action, "arguments": arguments}


LAWS: tuple[Law, ...] = (
    Law("useless-steps", "a step that does nothing, added to a solution, earns nothing", _padding),
    Law("stopping-early", "a solution that is broken off earns no more than a whole one", _prefixes),
    Law("doubled-steps", "the steps of a solution, done twice, earn no more", _doubled),
    Law("repeating", "one thing done over and over earns no more than once", _repeated, solved=False),
    Law("undo-loop", "a thing done and undone over and over earns no more than one round", _undone, solved=False),
    Law("more-turns", "with one turn too few a solution does not win; with more turns it earns no more", _late),
    Law("limit-binds", "an episode is over at its limit", _bound, solved=False),
    Law(
        "lists", "a list of a solution with wrong things in it earns less; one with everything twice no more", _superset
    ),
    Law("order", "the steps of a solution in another order do not win", _backwards),
)
"""All of them."""
