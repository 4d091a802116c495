"""Experience: what worked is written down, and shown before the next episode that asks for something alike.

The library keeps the actions of episodes that succeeded, by the environment's own verdict: one entry a scenario, the
shortest. Actions that were invalid changed nothing and are left out. Before an episode the hook ``recall`` shows the
entries that fit best: those of the same environment that share words with its first observation, each word counted by
the inverse of the number of entries that have it; not the scenario's own, which would be its solution. All episodes of
a step see the same version. What is shown are tokens of role ``INJECTED``; they are not trained on.

Every change is a line of a journal, and the version is the number of its lines, so that :meth:`Experience.as_of` gives
the library an episode saw (``extras["recalled"]``). Journal and entries are part of the checkpoint.

Source: ExpeL's recall of successful trajectories (Zhao et al. 2024, AAAI, section 4.2) and SkillRL's bank, which is
kept by kind of task and asked by words; both write entries with a language model, this one writes down what was done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentenvs.core.observation import Observation
from agentenvs.train.interfaces import Assignment, Library, RolloutHook, hooks, libraries
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode


@dataclass(frozen=True, slots=True)
class Entry:
    """How a scenario was solved."""

    env: str
    task: str
    """Its address, ``SPLIT/INDEX``."""
    asked: str
    """Its first observation."""
    actions: tuple[str, ...]


@libraries.register
class Experience(Library):
    """Keeps the actions of episodes that succeeded."""

    name = "experience"
    provides = frozenset(("library.texts",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        most: int = 256
        """Entries that are kept; the oldest goes first."""
        characters: int = 600
        """Of a text that is shown; longer ones are not."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            if min(self.most, self.characters) < 1:
                raise ValueError("most and characters are 1 or more")

    config: Config

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._entries: dict[tuple[str, str], Entry] = {}
        self._journal: list[dict[str, Any]] = []

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return len(self._journal)

    @property
    def entries(self) -> list[Entry]:
        """What is kept, the oldest first."""
        return list(self._entries.values())

    def retrieve(self, task: Assignment, observation: Observation, count: int) -> list[str]:
        """See :class:`Library`: texts of the entries that share the rarest words, of equal ones the shorter."""
        mine = f"{task.ref.split}/{task.ref.index}"
        fit = [one for one in self.entries if one.env == task.env and one.task != mine]
        words = [_words(one.asked) for one in fit]
        often: dict[str, int] = {}
        for some in words:
            for word in some:
                often[word] = often.get(word, 0) + 1
        wanted = _words(observation.text)
        worth = [sum(1 / often[word] for word in sorted(wanted & some)) for some in words]
        order = sorted(range(len(fit)), key=lambda place: (-worth[place], len(fit[place].actions), place))
        texts = [text for place in order if len(text := shown(fit[place])) <= self.config.characters]
        return texts[:count]

    def learn(self, episodes: Sequence[Episode]) -> int:
        """See :class:`Library`: take in what succeeded, where the hook noted what was asked."""
        for episode in episodes:
            actions = tuple(turn.text for turn in episode.turns if turn.valid)
            asked = episode.extras.get("asked")
            if not episode.success or asked is None or not actions:
                continue
            entry = Entry(episode.env, f"{episode.ref.split}/{episode.ref.index}", str(asked), actions)
            known = self._entries.get((entry.env, entry.task))
            if known is None or len(actions) < len(known.actions):
                self._change({"put": {**asdict(entry), "actions": list(actions)}})
            while len(self._entries) > self.config.most:
                env, task = next(iter(self._entries))
                self._change({"drop": [env, task]})
        return self.version

    def as_of(self, version: int) -> Experience:
        """Return the library as it was at a version."""
        found = Experience(self.config)
        for change in self._journal[:version]:
            found._change(change)
        return found

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`: the journal, which everything follows from."""
        return {"journal": [dict(change) for change in self._journal]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self._entries, self._journal = {}, []
        for change in state["journal"]:
            self._change(change)

    def _change(self, change: Mapping[str, Any]) -> None:
        """Do what a line of the journal says, and write it down."""
        self._journal.append(dict(change))
        if "drop" in change:
            env, task = change["drop"]
            del self._entries[env, task]
            return
        entry = Entry(**{**change["put"], "actions": tuple(change["put"]["actions"])})
        self._entries.pop((entry.env, entry.task), None)
        self._entries[entry.env, entry.task] = entry


@hooks.register
class Recall(RolloutHook):
    """Shows before an episode what the library has for it."""

    name = "recall"
    needs = frozenset(("library.texts",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        count: int = 1
        """The most entries that are shown."""
        title: str = "What worked before:"

    config: Config

    def begin(self, episode: Episode, observation: Observation) -> str:
        """See :class:`RolloutHook`; notes what was asked, and which version answered."""
        episode.extras["asked"] = observation.text
        if self.library is None:
            return ""
        task = Assignment(episode.env, episode.ref)
        texts = self.library.retrieve(task, observation, self.config.count)
        episode.extras["recalled"] = {"version": self.library.version, "texts": len(texts)}
        return "\n\n".join([self.config.title, *texts]) if texts else ""


def shown(entry: Entry) -> str:
    """Return an entry as it is shown: the last line of what was asked, and a line an action."""
    asked = [line for line in entry.asked.splitlines() if line.strip()]
    return "\n".join([*asked[-1:], *(f"> {action}" for action in entry.actions)])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


recipe(
    Recipe(
        name="grpo-recall",
        title="GRPO with recall of what worked",
        source="after Zhao et al. 2024 (ExpeL), section 4.2, and SkillRL's bank of skills; GRPO as in grpo",
        provenance="like",
        hooks=(("recall", {}),),
        library=("experience", {}),
        credits=(("group-relative", {"deviation": True}),),
        aggregation="sequence-mean",
    )
)
