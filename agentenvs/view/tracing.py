"""Plays a record again in this process, on demand, to show what it does not hold: blocks of observations, the trace.

The replay is compared with the record on the way, so that a page can say whether what it shows is what was played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentenvs.core.canon import canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.observation import DataBlock, ImageBlock, Observation
from agentenvs.core.record import Record, effects_of
from agentenvs.core.replay import env_for
from agentenvs.core.trace import Fact
from agentenvs.view import text
from agentenvs.view.episodes import Block, Seen

Machine = Callable[[Record], dict[str, Any]]
"""Returns the options of this machine for the environment of a record."""

MOST_TURNS = 2_000
_MOST_FACTS = 60


@dataclass(frozen=True, slots=True)
class Played:
    """What a replay showed."""

    first: tuple[Block, ...]
    turns: list[tuple[tuple[Block, ...], Seen]]
    differs: str | None
    """Where it differs from the record first; None where it does not."""
    why_not: str | None = None
    """Why it could not be played, or not to its end."""
    has_potential: bool = False


def play(record: Record, machine: Machine = lambda record: {}) -> Played:
    """Play a record again; never raises for anything a record may hold."""
    try:
        env = env_for(record, **machine(record))
    except AgentEnvsError as error:
        return Played((), [], None, f"{error.what}{f': {error.why}' if error.why else ''}")
    if not env.spec.capabilities.replayable:
        env.close()
        return Played((), [], None, f"{env.spec.id} cannot be replayed")
    player = _Player(env, record)
    try:
        player.go()
    except Exception as error:  # noqa: BLE001 - boundary: a world that is fed forged effects may fail in any way
        what = error.what if isinstance(error, AgentEnvsError) else f"{type(error).__name__}: {error}"
        player.why_not = f"after turn {len(player.turns)}: {what}"
    finally:
        env.close()
    return Played(player.first, player.turns, player.differs, player.why_not, player.potentials > 1)


class _Player:
    def __init__(self, env: Any, record: Record) -> None:
        self.env, self.record = env, record
        self.first: tuple[Block, ...] = ()
        self.turns: list[tuple[tuple[Block, ...], Seen]] = []
        self.differs: str | None = None
        self.why_not: str | None = None
        self._found: set[float] = set()

    @property
    def potentials(self) -> int:
        """How many different potentials there were."""
        return len(self._found)

    def go(self) -> None:
        header, env = self.record.header, self.env
        if header["observation"] is None:
            self.why_not = "the environment had failed before it showed anything"
            return
        seen = env.reset(self.record.ref, effects=effects_of(header["effects"]))
        self._hold(0, "observation", header["observation"], seen.digest())
        self.first = blocks(seen)
        potential = env.potential
        self._found.add(potential)
        for line in self.record.turns[:MOST_TURNS]:
            if env.ending is not None:
                self._hold(line["turn"], "ending", None, env.ending)
                return
            potential = self._turn(line, potential)

    def _turn(self, line: Any, before: float) -> float:
        env = self.env
        result = env.step(line["action"], effects=effects_of(line["effects"]))
        self._hold(line["turn"], "observation", line["observation"], result.observation.digest())
        self._hold(line["turn"], "reward", line["reward"], result.reward)
        self._hold(line["turn"], "state", line["state"], env.state_key)
        trace = env.last_trace
        potential = before if trace is None or trace.potential is None else trace.potential
        self._found.add(potential)
        listed = env.admissible()
        seen = Seen(
            _facts(trace.observed) if trace else (),
            _facts(trace.used) if trace else (),
            _facts(trace.written) if trace else (),
            tuple(map(str, trace.milestones)) if trace else (),
            potential,
            potential - before,
            trace is not None and trace.state_before != trace.state_after,
            None if listed is None else len(listed),
        )
        self.turns.append((blocks(result.observation), seen))
        return potential

    def _hold(self, turn: int, what: str, recorded: Any, replayed: Any) -> None:
        if recorded != replayed and self.differs is None:
            self.differs = f"turn {turn}: {what} is not as recorded"


def blocks(observation: Observation) -> tuple[Block, ...]:
    """Return the blocks of an observation."""
    found = []
    for block in observation.blocks:
        if isinstance(block, DataBlock):
            found.append(Block("data", text.spelled(block.data), block.tool))
        elif isinstance(block, ImageBlock):
            found.append(Block("image", f"image {block.digest}"))
        else:
            found.append(Block("text", block.text))
    return tuple(found)


def _facts(found: tuple[Fact, ...]) -> tuple[str, ...]:
    said = [f"{fact.entity} {fact.relation} {_value(fact.value)}".strip() for fact in found[:_MOST_FACTS]]
    if len(found) > _MOST_FACTS:
        said.append(f"… {len(found) - _MOST_FACTS} more")
    return tuple(said)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
