"""What an episode of a search world came to: the facts a verdict is computed from, read off the last state."""

from __future__ import annotations

from agentenvs.core.canon import JSON
from agentenvs.envs.searchworld.rules import World
from agentenvs_scenarios.searchworld.answers import normalise, normalised


def outcome(world: World, turns: int, rule: str, gate: bool) -> dict[str, JSON]:
    """Return the outcome facts of a state.

    Args:
        world: The last state.
        turns: Turns played.
        rule: How answers are paid: ``exact`` or ``f1``.
        gate: Whether an answer earns nothing without all of the evidence.

    Returns:
        ``turns``; ``answer``, or null; ``opened``, ids of articles in the order in which they were first opened;
        ``seen``, for each different answer whether it stood in what was shown; ``rule`` and ``gate``.
    """
    library = world.library
    return {
        "turns": turns,
        "answer": None if world.answer is None else list(world.answer),
        "opened": [library.id_of(number) for number in world.opened],
        "seen": _seen(world),
        "rule": rule,
        "gate": gate,
    }


def _seen(world: World) -> list[bool]:
    if not world.answer:
        return []
    library = world.library
    shown = [f"{library.title(number)} {library.text(number)}" for number in world.opened]
    shown += [f"{library.title(number)} {library.snippet(number)}" for number in world.found]
    # A bar between texts, which no answer holds, keeps an answer from reaching from one into the next.
    everything = " | ".join(f" {normalise(text)} " for text in shown)
    return [f" {answer} " in everything for answer in normalised(world.answer)]
