"""The web shop behind the contract: binds shops, rules, words, traces and the score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentenvs.core.actions import Action, calls_of
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, SplitError
from agentenvs.core.observation import TextBlock
from agentenvs.core.prepared import Item
from agentenvs.core.sealed import sealed_secret
from agentenvs.core.spec import SplitSpec
from agentenvs.core.streams import Stream, derive
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.core.webpage import WebPage
from agentenvs.envs.webshop import native, page, prove, saving, shops, trace, view
from agentenvs.envs.webshop.actions import NO_SUCH_LABEL, SEARCH, Command, parse_call, parse_text
from agentenvs.envs.webshop.foreign import crashes, hidden_results
from agentenvs.envs.webshop.propose import proposal
from agentenvs.envs.webshop.rules import PAGE_SIZE, START, Results, State
from agentenvs.envs.webshop.spec import SPEC
from agentenvs_scenarios.webshop.generate import SEALED
from agentenvs_scenarios.webshop.generate import SPLITS as GENERATED
from agentenvs_scenarios.webshop.goals import GoalSplit
from agentenvs_scenarios.webshop.model import Scenario
from agentenvs_scoring.webshop import judge

EFFECT = "webshop.results"
"""In ``original``: how many products a search found, and the ids of the page's."""


class WebShopEnv(Environment):
    """A web shop; see :data:`agentenvs.envs.webshop.spec.SPEC` for its options."""

    spec = SPEC
    world: State

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._profile = self.options["profile"]
        self._native = self._profile == "native"
        self._words: Callable[[State, float | None], str] = (
            view.page_rich if self.options["observation"] == "text_rich" else view.page_text
        )
        shops.bare_shop(self.options["shop"], self.options["products"])
        self._useless: DataError | None = None
        self._folder = shops.data_folder(self.options["data"])
        self._goals = self._list_goals()
        self._history: list[trace.Shown] = []
        self._command: Command | None = None

    # ---- scenarios ---------------------------------------------------------------------------------------------------

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits of the spec and one for each list of goals in the data folder."""
        found = {
            name: SplitSpec(name, len(split.goals), split.description, panel=split.panel)
            for name, split in self._goals.items()
        }
        return {**super().splits(), **found}

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario; see :meth:`Environment.check_ref`.

        Raises:
            DataError: It may be in the folder ``$WEBSHOP_DATA``, which is of no use; or ``original`` lacks the table
                of title nouns.
            ConfigError: It is sealed, and the operator's secret cannot be used.
        """
        if self._useless is not None and ref.split not in self.splits():
            raise self._useless
        super().check_ref(ref)
        if ref.split == SEALED:
            sealed_secret()
        if self._profile == "original" and ref.split in self._goals and self._folder is not None:
            shops.table_of(shops.loaded_shop(self._folder, self.options["rows"])[0], self.options["prepared"])

    def scenario(self, split: str, index: int) -> Scenario:
        """Return a generated or a loaded scenario; see :meth:`Environment.scenario`.

        Raises:
            ConfigError: The split is sealed, and the operator's secret cannot be used.
            DataError: The profile ``original`` has no table of title nouns for the loaded data.
        """
        options = self.options
        if split in GENERATED:
            shop = shops.generated_shop(options["shop"], options["products"], options["prepared"])
            made = proposal(shop, split, index, options["difficulty"]).scenario
            if self._profile != "original":
                return made
            return Scenario(made.name, made.shop, made.goal, "formula", made.nouns)
        if split not in self._goals or self._folder is None:
            raise SplitError(f"{SPEC.id} has no split {split!r}", fix="hand the data files over: -o data=DIR")
        loaded, _ = shops.loaded_shop(self._folder, options["rows"])
        return shops.loaded_scenario(loaded, self._goals[split], index, self._profile, options["prepared"])

    def labels(self) -> Mapping[str, JSON]:
        """Return the kind of goal, and the turns the oracle needs."""
        scenario = self.current
        if not isinstance(scenario, Scenario):
            return {}
        return {"kind": scenario.goal.kind, "par": prove.par(scenario, self._search)}

    @classmethod
    def preparations(cls, options: Mapping[str, Any], splits: Sequence[str]) -> Iterable[Item]:
        """Return the search of the shop, and the table of nouns where ``original`` plays loaded data."""
        return shops.items(options)

    def warm(self) -> None:
        """Open the search of the generated shop."""
        options = self.options
        shop = shops.generated_shop(options["shop"], options["products"], options["prepared"])
        shops.search_of(shop, options["prepared"])

    def _list_goals(self) -> Mapping[str, GoalSplit]:
        """Return the splits of the data folder; a variable that points nowhere matters to nobody who needs no data."""
        try:
            return shops.loaded_shop(self._folder, self.options["rows"])[1] if self._folder is not None else {}
        except DataError as error:
            if self.options["data"]:
                raise
            self._useless = error
            return {}

    # ---- play --------------------------------------------------------------------------------------------------------

    def _begin(self, scenario: Scenario) -> str:
        self.world = State(scenario, self._profile, attributes_page=self.options["attributes_page"])
        self._history = [trace.shown(self.world)]
        self._command = None
        return self._page()

    def _act(self, action: Action) -> Outcome:
        world = self.world
        if isinstance(action, str):
            command = parse_text(action)
        else:
            call = calls_of(action)[0]
            command = parse_call(call.tool, call.arguments, native=self._native)
        error: str | None
        if isinstance(command, str):
            error, self._command = command, None
        else:
            error, self._command = self._do(command), command
        self._note()
        if error is not None:
            return Outcome((TextBlock(self._refused_page(error)),), False, error)
        return Outcome((TextBlock(self._shown()),), ended=world.ended)

    def _do(self, command: Command) -> str | None:
        if self._profile == "original" and command[0] == SEARCH and crashes(command[1]):
            return NO_SUCH_LABEL
        return self.world.act(command, self._find)

    def _note(self) -> None:
        missing = self.turn + 1 - len(self._history)
        if missing > 0:  # turns that never reached the world showed the page again
            self._history += [self._history[-1]] * missing
        self._history.append(trace.shown(self.world))

    def _shown(self) -> str:
        """Return the page; the last one of ``original`` prints the reward, which the verdict tells anyway."""
        if self.world.ended and self._profile == "original":
            return self._page(self._judge("terminated").reward)
        return self._page()

    def _page(self, score: float | None = None) -> str:
        return native.page(self.world) if self._native else self._words(self.world, score)

    def _refused_page(self, error: str) -> str:
        words = self._page()
        return f"{native.REFUSALS[error]}\n{words}" if self._native else words

    def _search(self, query: str) -> tuple[int, ...]:
        return shops.search_of(self._scenario().shop, self.options["prepared"])(query)

    def _find(self, query: str, number: int) -> Results:
        """Return a page of results."""
        if self._profile != "original":
            found = self._search(query)
            return len(found), found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        shop = self._scenario().shop
        total, listed = self.effect(EFFECT, lambda: self._original_results(query, number))
        indices = (shop.index(str(name)) for name in listed)
        return int(total), tuple(index for index in indices if index >= 0)

    def _original_results(self, query: str, number: int) -> JSON:
        """Return what the original's search would find, the words that mean something else there included."""
        shop = self._scenario().shop
        drawn = Stream(derive(shop.digest.encode()[:64], f"random/{self._scenario().digest}"), f"turn/{self.turn}")
        hidden = hidden_results(shop, query, drawn)
        found = self._search(query) if hidden is None else hidden
        page = found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        return [len(found), [shop.product(index).id for index in page]]

    def webpage(self) -> WebPage:
        """Return the page as a website shows it; see :meth:`Environment.webpage`."""
        _, error = self.last_valid
        return page.webpage(self.world, native.REFUSALS.get(error, native.REFUSALS["unknown_command"]) if error else "")

    # ---- the rest of the contract ------------------------------------------------------------------------------------

    def _judge(self, ending: Ending) -> Verdict:
        product = self._scenario().shop.product
        bought = [{"product": product(index).id, "options": dict(chosen)} for index, chosen in self.world.bought]
        return judge(self._scenario(), {"turns": self.turn, "bought": bought}, ending)

    @classmethod
    def rejudge(cls, scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute a verdict again; see :meth:`Environment.rejudge`."""
        return judge(scenario, facts, ending)

    def _key(self) -> int:
        return self.world.key()

    def _save(self) -> JSON:
        return {"state": saving.save(self.world), "history": trace.to_json(self._history)}

    def _load(self, scenario: Scenario, saved: JSON) -> None:
        world = State(scenario, self._profile, attributes_page=self.options["attributes_page"])
        saving.load(world, saved["state"])
        self.world = world
        self._history = trace.from_json(saved["history"], len(scenario.shop))
        if not 0 < len(self._history) <= self.turn + 1 or self._history[-1] != trace.shown(world):
            raise ValueError("what was shown does not fit the turns")
        self._command = None

    def _own(self) -> None:
        self.world = self.world.copy()
        self._history = list(self._history)

    def _admissible(self) -> tuple[str, ...]:
        world = self.world
        if world.page == START:
            return (f"search[{prove.title_query(world.scenario.goal.sentence)}]",)
        return tuple(f"click[{label}]" for label in world.labels() if label != SEARCH and "[" not in label)

    def _trace(self) -> TraceParts:
        return trace.parts(self._scenario().shop, self._history, self._command, self.world)

    def _instruction(self) -> str:
        return self._scenario().goal.sentence

    def _refusal(self, action: Action, why: str) -> str:
        return self._refused_page("unknown_command")

    def _scenario(self) -> Scenario:
        return self.world.scenario
