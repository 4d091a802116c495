"""What an episode of the household came to: the facts a verdict is computed from, read off the last state."""

from __future__ import annotations

from agentenvs.core.canon import JSON
from agentenvs.envs.household.layout import STATE_BITS
from agentenvs.envs.household.rules import State


def outcome(state: State, turns: int) -> dict[str, JSON]:
    """Return the outcome facts of a state.

    Args:
        state: The last state.
        turns: Turns played.

    Returns:
        ``turns``, and ``evidence``: every fact ``[entity, relation, value]`` about goal objects, lamps that count, and
        the player's place and hand, in id order. No judgement is in it.
    """
    layout = state.layout
    things = [*layout.wanted, *(layout.targets if layout.look else ())]
    evidence = [["player", "at", layout.receptacles[receptacle]] for receptacle in layout.here[state.place]]
    if state.held >= 0:
        evidence.append(["player", "holds", layout.things[state.held]])
    for thing in things:
        name = layout.things[thing]
        evidence += [[name, "in", layout.receptacles[receptacle]] for receptacle in state.within[thing]]
        evidence += [[name, "is", word] for word, bit in STATE_BITS.items() if state.states[thing] & bit]
    return {"turns": turns, "evidence": evidence}
