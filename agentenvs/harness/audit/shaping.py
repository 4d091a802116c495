"""Shaping and step rewards: a potential telescopes, and no loop earns.

Where an environment pays the difference of a potential on request (the option ``shaping``), what it pays beyond the
plain reward must be ``gamma^T Phi(end) - Phi(start)``, whatever the way, Phi being 0 once the episode has terminated
(Ng, Harada and Russell 1999; Grzes 2017). Where it pays by the step, no loop through a state may earn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.canon import canonical
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import Row, opened, skipped
from agentenvs.harness.audit.theatre import Theatre, apart
from agentenvs.harness.check.findings import raised

_TOLERANCE = 1e-7
_TASKS = 6
_WALKS = 3
_TURNS = 60

_TELESCOPES = "what shaping pays is gamma^T Phi(end) - Phi(start), whatever the way"
_BOUNDED = "the potential is at least 0, so that with gamma < 1 idling does not pay"
_LOOPS = "no way back to the same state earns anything"


@dataclass(slots=True)
class Walk:
    """A play with what each turn paid; one more potential and state than turns."""

    ref: TaskRef
    rewards: list[float]
    potentials: list[float]
    states: list[str]
    terminated: bool


def rows(theatre: Theatre) -> Iterator[Row]:
    """Yield the rows on shaping and loops."""
    for row in (_telescopes(theatre), _bounded(theatre), _loops(theatre)):
        yield opened(row, theatre.said.open[row.name]) if row.name in theatre.said.open else row


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return 3


def _has_shaping(theatre: Theatre) -> bool:
    return any(option.name == "shaping" for option in theatre.spec.options)


def _why_not(theatre: Theatre) -> str:
    if not _has_shaping(theatre):
        return "it has no option 'shaping'"
    return "" if theatre.local else "the potential is not on the wire"


def _telescopes(theatre: Theatre) -> Row:
    name = "shaping.telescopes"
    if why := _why_not(theatre):
        return skipped(name, _TELESCOPES, why)
    gamma, tried, worst = theatre.spec.gamma, 0, 0.0
    for ref, actions in _scripts(theatre):
        plain, shaped = _walked(theatre, ref, actions), _walked(theatre, ref, actions, shaping=True)
        if plain is None or shaped is None:
            continue
        tried += 1
        discounted, factor = 0.0, 1.0
        for one, other in zip(shaped.rewards, plain.rewards, strict=True):
            discounted += factor * (one - other)
            factor *= gamma
        end = 0.0 if shaped.terminated else shaped.potentials[-1]
        owed = factor * end - shaped.potentials[0]
        worst = max(worst, abs(discounted - owed))
        if abs(discounted - owed) > _TOLERANCE:
            said = f"pays {discounted:.6g}, owes {owed:.6g}, on {ref.split}/{ref.index}, {len(plain.rewards)} turns"
            return Row(name, _TELESCOPES, "breach", said, owed, discounted, episodes=tried)
    return Row(name, _TELESCOPES, "held", f"{tried} ways, none off by more than {worst:.2g}", episodes=tried)


def _bounded(theatre: Theatre) -> Row:
    name = "shaping.bounded"
    if why := _why_not(theatre):
        return skipped(name, _BOUNDED, why)
    walks = [walk for ref, actions in _scripts(theatre) if (walk := _walked(theatre, ref, actions)) is not None]
    least = min((value for walk in walks for value in walk.potentials), default=0.0)
    most = max((value for walk in walks for value in walk.potentials), default=0.0)
    verdict = "breach" if least < 0.0 and theatre.spec.gamma < 1.0 else "held"
    said = f"Phi is {least:.3g} to {most:.3g}, gamma = {theatre.spec.gamma:g}"
    return Row(name, _BOUNDED, verdict, said, 0.0, -least if least < 0 else 0.0, episodes=len(walks))  # type: ignore[arg-type]


def _loops(theatre: Theatre) -> Row:
    """See what is paid between two visits to a state, shaping included where there is some."""
    name = "shaping.loops"
    if theatre.spec.capabilities.rewards != "step" and not _has_shaping(theatre):
        return skipped(name, _LOOPS, "nothing is paid before the end")
    if not theatre.local:
        return skipped(name, _LOOPS, "states are not on the wire as they are here")
    loops, most = 0, 0.0
    for ref, actions in _scripts(theatre):
        walk = _walked(theatre, ref, actions, shaping=True)
        for first, second in _returns(walk.states) if walk is not None else ():
            loops += 1
            paid = sum(walk.rewards[first:second]) if walk is not None else 0.0
            most = max(most, paid)
            if paid > _TOLERANCE:
                said = f"turns {first + 1} to {second} of {ref.split}/{ref.index} come back and earn {paid:g}"
                return Row(name, _LOOPS, "breach", said, 0.0, paid, episodes=loops)
    return Row(name, _LOOPS, "held", f"{loops} loops", 0.0, most, episodes=loops)


def _returns(states: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of turns between which a state comes back."""
    last: dict[str, int] = {}
    for turn, state in enumerate(states):
        if state in last:
            yield last[state], turn
        last[state] = turn


def _scripts(theatre: Theatre) -> list[tuple[TaskRef, tuple[Any, ...]]]:
    """Return what is played: solutions, their beginnings there and back, and walks at random."""

    def made() -> list[tuple[TaskRef, tuple[Any, ...]]]:
        found: list[tuple[TaskRef, tuple[Any, ...]]] = []
        for ref in apart(theatre.refs, _TASKS):
            solution = theatre.solution(ref)
            if solution:
                found += [(ref, solution), (ref, solution[:-1]), (ref, (*solution[:-1], *reversed(solution[:-1])))]
            found += [(ref, _wandered(theatre, ref, number)) for number in range(_WALKS)]
        return found

    return theatre.subject.once("shaping scripts", made)


def _wandered(theatre: Theatre, ref: TaskRef, number: int) -> tuple[Any, ...]:
    """Return a walk at random among what may be done; there and back again half of the time."""
    stream = theatre.stream(f"walk/{ref.split}/{ref.index}/{number}")
    env = theatre.env()
    spec = theatre.spec
    calls = [{"tool": tool.name, "arguments": dict(given)} for tool in spec.tools for given in tool.examples]
    actions: list[Any] = []
    try:
        env.reset(ref)
        while env.ending is None and len(actions) < _TURNS:
            listed = [*(env.admissible() or ()), *actions[-2:]] or [*calls, *theatre.solution(ref)] or [""]
            actions.append(stream.choice(listed))
            env.step(actions[-1])
    except Exception:  # noqa: BLE001 - boundary: what is audited may raise anything, and other rows tell
        return tuple(actions[:-1])
    return tuple(actions)


def _walked(theatre: Theatre, ref: TaskRef, actions: Sequence[Any], *, shaping: bool = False) -> Walk | None:
    """Play actions and note what each turn paid; None where it cannot be played."""
    env = theatre.env(**({"shaping": True} if shaping else {}))
    try:
        env.reset(ref)
        walk = Walk(ref, [], [_potential(env)], [_state(env)], False)
        for action in actions:
            if env.ending is not None:
                break
            result = env.step(action)
            walk.rewards.append(result.reward)
            walk.potentials.append(_potential(env))
            walk.states.append(_state(env))
            walk.terminated = result.terminated
    except Exception as error:  # noqa: BLE001 - boundary: what is audited may raise anything, and other rows tell
        raised(error)
        return None
    return walk


def _potential(env: Any) -> float:
    return float(env._potential())


def _state(env: Any) -> str:
    """Return the state with all budgets but the turns, so that what was spent is no loop."""
    budgets = {name: left for name, left in env.observation.budgets.items() if name != "steps"}
    return canonical([env.state_key, budgets])
