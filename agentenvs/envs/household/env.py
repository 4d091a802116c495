"""The household behind the contract: binds scenarios, rules, words, traces and the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenvs.core.actions import Action, calls_of
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, SplitError
from agentenvs.core.observation import TextBlock
from agentenvs.core.sealed import sealed_secret
from agentenvs.core.spec import SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.envs.household import data, propose, prove, view
from agentenvs.envs.household.actions import NONE, OPERATIONS, UNKNOWN_COMMAND, command_text
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.outcome import outcome
from agentenvs.envs.household.rules import Event
from agentenvs.envs.household.spec import SPEC
from agentenvs.envs.household.trace import Seen, observed, used, written
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import builtin
from agentenvs_scenarios.household.discover import GameSplit
from agentenvs_scenarios.household.generate import SEALED
from agentenvs_scenarios.household.generate import SPLITS as GENERATED
from agentenvs_scenarios.household.model import Scenario
from agentenvs_scoring.household import judge


class HouseholdEnv(Environment):
    """A text household; see :data:`agentenvs.envs.household.spec.SPEC` for its options."""

    spec = SPEC
    world: World
    _seen: Seen

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._useless: DataError | None = None
        self._games = self._list_games()
        text = self.options["text"]
        self._text = None if text == "auto" else text

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits of the spec and one for each folder of games in the data folder."""
        found = {
            name: SplitSpec(name, len(games.games), f"real games of {name}", panel=games.panel)
            for name, games in self._games.items()
        }
        return {**super().splits(), **found}

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario; see :meth:`Environment.check_ref`.

        Raises:
            DataError: It may be in the folder ``$ALFWORLD_DATA``, which is of no use.
            ConfigError: It is sealed, and the operator's secret cannot be used.
        """
        if self._useless is not None and ref.split not in self.splits():
            raise self._useless
        super().check_ref(ref)
        if ref.split == SEALED:
            sealed_secret()

    def scenario(self, split: str, index: int) -> Scenario:
        """Return a generated, a built-in or a loaded scenario; see :meth:`Environment.scenario`.

        Raises:
            ConfigError: The split is sealed, and the operator's secret cannot be used.
        """
        if split in GENERATED:
            return propose.proposal(split, index, self.options["difficulty"]).scenario
        if split == "builtin":
            return builtin(index)
        games = self._games.get(split)
        if games is None:
            raise SplitError(f"{SPEC.id} has no split {split!r}", fix="hand the game files over: --data DIR")
        return data.load_scenario(games.games[index])

    def labels(self) -> Mapping[str, JSON]:
        """Return the task type, the length of the shortest solution, and the rung of a generated room."""
        if not isinstance(self.current, Scenario):
            return {}
        return {"kind": self.current.goal.task, "par": prove.par(self._layout(self.current)), **self._rung()}

    def _rung(self) -> Mapping[str, JSON]:
        if self.ref is None or self.ref.split not in GENERATED:
            return {}
        made = propose.proposal(self.ref.split, self.ref.index, self.options["difficulty"])
        return {"difficulty": made.rung} if made.scenario == self.current else {}

    def _list_games(self) -> Mapping[str, GameSplit]:
        """Return the splits of the data folder; a variable that points nowhere matters to nobody who needs no game."""
        folder = data.data_folder(self.options["data"])
        try:
            return data.list_games(folder) if folder is not None else {}
        except DataError as error:
            if self.options["data"]:
                raise
            self._useless = error
            return {}

    def _begin(self, scenario: Scenario) -> str:
        layout = self._layout(scenario)
        self.world = World(layout)
        self._seen = Seen(layout)
        return self.world.opening()

    def _act(self, action: Action) -> Outcome:
        world = self.world
        if isinstance(action, str):
            reply, event = world.step(action)
        else:
            call = calls_of(action)[0]
            reply, event = world.call(call.tool, call.arguments)
        events = self._seen.events
        if len(events) != self.turn:
            self._pad(self.turn)
        events.append(event)
        if event[3] is not None:
            return Outcome((TextBlock(reply),), False, event[3])
        return Outcome((TextBlock(reply),), ended=world.won)

    def _pad(self, turns: int) -> None:
        """Stand in for turns that never reached the world, so that events are counted by turn."""
        events = self._seen.events
        events += [(NONE, -1, -1, UNKNOWN_COMMAND, None)] * (turns - len(events))

    def _judge(self, ending: Ending) -> Verdict:
        return judge(self._scenario(), outcome(self.world, self.turn), ending)

    @classmethod
    def rejudge(cls, scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute a verdict again; see :meth:`Environment.rejudge`."""
        return judge(scenario, facts, ending)

    def _key(self) -> int:
        return self.world.key

    def _save(self) -> JSON:
        return {"world": self.world.snapshot(), "events": [list(event) for event in self._seen.events]}

    def _load(self, scenario: Scenario, saved: JSON) -> None:
        layout = self._layout(scenario)
        self.world = World.restore(layout, saved["world"])
        self._seen = Seen(layout)
        self._seen.events = [_event(layout, form) for form in saved["events"]]
        if len(self._seen.events) > self.turn:
            raise ValueError("more happened than there were turns")

    def _own(self) -> None:
        self.world = self.world.fork()
        self._seen = self._seen.fork()

    def _admissible(self) -> tuple[str, ...]:
        return self.world.admissible()

    def _potential(self) -> float:
        return prove.potential(self.world)

    def _trace(self) -> TraceParts:
        self._pad(self.turn)
        return self._seen.last()

    def _instruction(self) -> str:
        return self._scenario().goal.sentence

    def _refusal(self, action: Action, why: str) -> str:
        return view.NOTHING

    def _scenario(self) -> Scenario:
        return self.world.layout.scenario

    def _layout(self, scenario: Scenario) -> Layout:
        return data.layout_of(scenario, self.options["profile"], self._text, self.options["aliases"])


def _event(layout: Layout, form: JSON) -> Event:
    """Return a saved event.

    Raises:
        IndexError: It names what is not in this layout.
        ValueError: It is no event.
    """
    operation, first, second, error, shown = form
    event = operation, first, second, error, None if shown is None else tuple(shown)
    numbers = (first, second, *(event[4] or ()))
    fits = type(operation) is int and 0 <= operation < len(OPERATIONS) and (error is None or isinstance(error, str))
    if not fits or not all(type(number) is int and number >= -1 for number in numbers):
        raise ValueError(f"{form!r:.80} is no event")
    if error is None:
        command_text(layout, event[:3])
    for facts in (observed, used, written):
        facts(layout, event)
    return event
