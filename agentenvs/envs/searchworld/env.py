"""The search worlds behind the contract: binds scenarios, libraries, rules, words, traces and the score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentenvs.core.actions import Action, calls_of
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, OptionError, SplitError
from agentenvs.core.observation import TextBlock
from agentenvs.core.prepared import Item
from agentenvs.core.sealed import sealed_secret
from agentenvs.core.spec import SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.envs.searchworld import corpora, prove, view
from agentenvs.envs.searchworld.actions import MOST_RESULTS, UNKNOWN_COMMAND, parse_call, parse_text
from agentenvs.envs.searchworld.describe import describe
from agentenvs.envs.searchworld.holdings import SEALED, Holding, Place, item, universe
from agentenvs.envs.searchworld.library import Library
from agentenvs.envs.searchworld.outcome import outcome
from agentenvs.envs.searchworld.propose import Proposal, place_of, proposal
from agentenvs.envs.searchworld.rules import Event, World
from agentenvs.envs.searchworld.spec import SPEC
from agentenvs.envs.searchworld.trace import parts
from agentenvs_scenarios.searchworld.ladder import catalogue
from agentenvs_scenarios.searchworld.model import Scenario
from agentenvs_scoring.searchworld import judge

_PREPARED_OF_TRAIN = 4
"""Universes of an endless split that are prepared where it is asked for."""


class SearchWorldEnv(Environment):
    """Questions over articles; see :data:`agentenvs.envs.searchworld.spec.SPEC` for its options."""

    spec = SPEC
    world: World
    _event: Event
    _playing: Holding

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, most in (("noise", 99), ("results", MOST_RESULTS)):
            if self.options[name] > most:
                raise OptionError(f"option {name!r} does not take {self.options[name]}", fix=f"the most is {most}")
        folder = self.options["data"]
        if self.options["engine"] == corpora.SQLITE and not folder:
            why = "the questions of generated universes are proved with the own engine"
            raise OptionError("option 'engine' is for a corpus", why=why, fix="hand a corpus over: --data DIR")
        self._corpora = corpora.listed(folder) if folder else {}
        self._held: Holding | None = None

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits of the spec and one for each corpus in the data folder."""
        found = {
            name: SplitSpec(name, len(corpus.questions), f"questions of the corpus {name}", panel=corpus.panel)
            for name, corpus in self._corpora.items()
        }
        return {**super().splits(), **found}

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario; see :meth:`Environment.check_ref`.

        Raises:
            ConfigError: It is sealed, and the operator's secret cannot be used.
        """
        super().check_ref(ref)
        if ref.split == SEALED:
            sealed_secret()

    def scenario(self, split: str, index: int) -> Scenario:
        """Return a generated or a loaded scenario; see :meth:`Environment.scenario`.

        Raises:
            ConfigError: The split is sealed, and the operator's secret cannot be used.
        """
        if split in catalogue().splits:
            made = self._proposal(split, index)
            place, _ = place_of(split, index, int(self.options["people"]))
            self._held = universe(SPEC, place, self.options["prepared"])
            return made.scenario
        corpus = self._corpora.get(split)
        if corpus is None:
            raise SplitError(f"{SPEC.id} has no split {split!r}", fix="hand the corpus over: --data DIR")
        self._held = corpora.holding(corpus, self.options["engine"])
        return corpora.scenario(corpus, index, self.options["engine"])

    def labels(self) -> Mapping[str, JSON]:
        """Return kind, hops and par, and the rung and gates of a generated question."""
        current = self.current
        if not isinstance(current, Scenario):
            return {}
        asked = current.question
        found: dict[str, JSON] = {"kind": asked.kind, "hops": asked.hops, "par": prove.par(len(asked.supports))}
        if self.ref is not None and self.ref.split in catalogue().splits:
            made = self._proposal(self.ref.split, self.ref.index)
            if made.scenario == current:
                found |= {"difficulty": made.card.rung, "gates": made.proof.to_json()}
        return found

    def describe(self, ref: TaskRef) -> str:
        """Return a readable map of a scenario's library and its question with the proof.

        Raises:
            SplitError: No such scenario.
        """
        self.check_ref(ref)
        scenario = self.scenario(ref.split, ref.index)
        return describe(scenario, self._holding(scenario))

    # ---- what episodes share ---------------------------------------------------------------------------------------

    @classmethod
    def preparations(cls, options: Mapping[str, Any], splits: Sequence[str]) -> Iterable[Item]:
        """Return the universes of some splits; see :meth:`Environment.preparations`."""
        known = catalogue().splits
        for name in splits or [name for name, split in known.items() if split.size and not split.sealed]:
            split = known.get(name)
            if split is not None and not split.sealed:
                count = split.size // split.questions if split.size else _PREPARED_OF_TRAIN
                yield from (item(Place(name, number, int(options["people"]))) for number in range(count))

    def warm(self) -> None:
        """Open the first universe of the default split, or of what was handed over."""
        self.library(next(iter(self._corpora), f"{SPEC.default_split}/0"))

    def libraries(self) -> tuple[str, ...]:
        """Return the names of the universes and corpora that may be searched without an episode."""
        open_splits = {name: split for name, split in catalogue().splits.items() if not split.sealed}
        universes = [
            f"{name}/{number}"
            for name, split in open_splits.items()
            for number in range(split.size // split.questions if split.size else _PREPARED_OF_TRAIN)
        ]
        return (*universes, *self._corpora)

    def library(self, name: str) -> Library | None:
        """Return the library of a name: ``train/7``, any number of an endless split, or a corpus."""
        if name in self._corpora:
            return corpora.holding(self._corpora[name], self.options["engine"]).library
        split, _, digits = name.partition("/")
        known = catalogue().splits.get(split)
        if known is None or known.sealed or not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
            return None
        number = int(digits)
        if known.size is not None and number >= known.size // known.questions:
            return None
        return universe(SPEC, Place(split, number, int(self.options["people"])), self.options["prepared"]).library

    # ---- an episode ------------------------------------------------------------------------------------------------

    def _begin(self, scenario: Scenario) -> str:
        held = self._playing = self._holding(scenario)
        self.world = World(held.library, self.options["searches"], self.options["noise"])
        self._event = Event(None)
        return view.opening(scenario.question.sentence, self.options["dialect"], held.shelf is not None)

    def _act(self, action: Action) -> Outcome:
        if isinstance(action, str):
            command = parse_text(action, self.options["results"], self._playing.comma)
        else:
            call = calls_of(action)[0]
            command = parse_call(call.tool, call.arguments)
        event = self._event = self.world.apply(command, self.turn + 1)
        reply = view.reply(self.world, event, self.options["dialect"])
        return Outcome((TextBlock(reply),), event.error is None, event.error, ended=self.world.answer is not None)

    def _judge(self, ending: Ending) -> Verdict:
        facts = outcome(self.world, self.turn, self.options["reward"], self.options["evidence"])
        return judge(self._scenario(), facts, ending)

    @classmethod
    def rejudge(cls, scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute a verdict again; see :meth:`Environment.rejudge`."""
        return judge(scenario, facts, ending)

    def _key(self) -> int:
        return self.world.key

    def _save(self) -> JSON:
        return self.world.snapshot()

    def _load(self, scenario: Scenario, saved: JSON) -> None:
        self._begin(scenario)
        self.world.restore(saved)

    def _own(self) -> None:
        self.world = self.world.fork()

    def _budgets(self) -> Mapping[str, int]:
        return {"searches": self.world.searches}

    def declared_budgets(self) -> dict[str, int]:
        """Return every budget with what an episode starts with."""
        return {**super().declared_budgets(), "searches": self.options["searches"]}

    def _trace(self) -> TraceParts:
        return parts(self.world, self._event, self._playing, self._scenario())

    def _instruction(self) -> str:
        return self._scenario().question.sentence

    def _refusal(self, action: Action, why: str) -> str:
        return view.refusal(UNKNOWN_COMMAND, self.options["dialect"])

    def _scenario(self) -> Scenario:
        if not isinstance(self.current, Scenario):
            self._refuse_step()
        return self.current

    def _holding(self, scenario: Scenario) -> Holding:
        """Return the library of a scenario that was asked for last.

        Raises:
            DataError: It is of another library.
        """
        held = self._held
        if held is None or held.library.digest != scenario.library:
            raise DataError("a search scenario's library is not at hand", why="its digest is that of no library here")
        return held

    def _proposal(self, split: str, index: int) -> Proposal:
        options = self.options
        return proposal(SPEC, split, index, int(options["people"]), options["difficulty"], options["prepared"])
