"""Environments of other makers: served, evaluated and recorded as they are, and honest about what they cannot do.

An :class:`Engine` is the other side: something with ``reset(seed)`` and ``step(action)`` that answers with a
:class:`Reply`. :class:`Foreign` puts one behind the contract. A reply that scenario and actions do not determine to the
byte is an *effect*: it stands in the record and is fed back at replay. The engine is then left alone, and is brought to
where the episode stands only when a new turn is played: reset with the same seed, given the same actions, its replies
compared. From this follow forks and snapshots of every engine that heeds its seed. The records of one that does not
replay all the same, from their effects; what is lost with it is the episode, where the engine goes away in the middle.

``agentenvs wrap`` writes the subclasses. What it found out about the other side stands in the file as data, so that
importing it starts nothing and asks nobody.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from agentenvs.core.actions import Action, End, ToolCall, to_json
from agentenvs.core.canon import JSON, canonical, clean_text, digest
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.core.observation import TextBlock
from agentenvs.core.spec import (
    Capabilities,
    EnvSpec,
    Execution,
    Kind,
    OptionSpec,
    Rewards,
    SplitSpec,
    ToolSpec,
    parse_id,
)
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.turn import Outcome
from agentenvs.core.verdict import Ending, Verdict

SPLITS: tuple[SplitSpec, ...] = (
    SplitSpec("train", None, "every seed"),
    SplitSpec("dev", 100, "seeds for choosing"),
    SplitSpec("test", 100, "seeds for reporting"),
)
"""Splits by seed: no seed of one is likely in another, since each is drawn from 2**31."""

ANY_REWARD = (-1e6, 1e6)
"""The reward range of what names none."""

REPLY = "foreign.reply"
"""Kind of the effects."""


class Reply(NamedTuple):
    """What an engine answers."""

    shown: JSON
    """What the player sees: words, or a JSON value."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    refused: str = ""
    """Why the action was none; nothing has changed then."""


class EngineError(Exception):
    """An engine failed, or went away: the episode ends as ``aborted``."""


class Engine(Protocol):
    """The other side."""

    def reset(self, seed: int) -> Reply:
        """Begin an episode; 0 <= seed < 2**31. One that knows no seeds takes no notice."""

    def step(self, action: JSON) -> Reply:
        """Play an action."""

    def close(self) -> None:
        """Give up what it holds; may be called twice."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """A scenario: a seed for the other side."""

    name: str
    seed: int

    @property
    def digest(self) -> str:
        """SHA-256 of it."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"name": self.name, "seed": self.seed}


class Refused(str):
    """Why an action is none of this environment's."""

    __slots__ = ()


@dataclass
class Visit:
    """The world: what was said to the engine in this episode, and what it answered."""

    played: list[JSON]
    total: float = 0.0
    key: str = ""


class Foreign(Environment):
    """An engine behind the contract. A subclass has a spec, :meth:`engine`, and hooks where it wants others."""

    actions: tuple[str, ...] = ()
    """What a player may say; where empty, words go to the engine as they are."""
    numbered = True
    """Whether the engine takes the place of what was said in :attr:`actions`, and not the words."""
    first_action = 0
    """The engine's first number."""
    success_at: float | None = None
    """The return from which an episode is a success; where None, one that ends with more than 0."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._engine: Engine | None = None
        self._stands_at = -1

    # ---- what a subclass writes ------------------------------------------------------------------------------------

    @abstractmethod
    def engine(self) -> Engine:
        """Make an engine."""

    def words(self, shown: JSON) -> str:
        """Return how what the engine shows reads."""
        return shown if isinstance(shown, str) else canonical(shown)

    def read(self, action: Action) -> JSON | Refused:
        """Return what an action is to the engine, or why it is none."""
        if isinstance(action, ToolCall):
            known = [tool.name for tool in self.spec.tools]
            return to_json(action) if action.tool in known else Refused(f"The tools are: {', '.join(known)}.")
        text = str(action).strip()
        if not self.actions:
            return text or Refused("Say something.")
        if text in self.actions:
            return self.first_action + self.actions.index(text) if self.numbered else text
        return Refused(f"Say one of: {', '.join(self.actions)}.")

    @classmethod
    def score(cls, played: Sequence[Mapping[str, JSON]]) -> float:
        """Return what an episode is worth, where the engine pays nothing.

        Args:
            played: ``{"action": …, "reply": …}`` a turn.
        """
        del played
        return 0.0

    # ---- the contract ----------------------------------------------------------------------------------------------

    def scenario(self, split: str, index: int) -> Seeded:
        """Return the seed of an address."""
        return Seeded(f"{split}/{index}", Stream(scenario_key(self.spec.slug, split, index), "seed").bits(31))

    def close(self) -> None:
        """Close the engine too."""
        engine, self._engine, self._stands_at = self._engine, None, -1
        if engine is not None:
            engine.close()
        super().close()

    def _begin(self, scenario: Any) -> str:
        self._stands_at = -1
        self.world = Visit([])
        form = self._replied(lambda: self._began())
        if "failed" in form:
            fix = "see to the other side: the environment that is wrapped, or its server"
            raise ContractError(f"{self.spec.id} cannot begin an episode", why=form["failed"], fix=fix)
        self.world.key = digest(["begin", form])[:32]
        return self.words(form["shown"])

    def _act(self, action: Action) -> Outcome:
        if isinstance(action, End):
            return Outcome((TextBlock("You end the episode."),), ended=True)
        said = self.read(action)
        if isinstance(said, Refused):
            return Outcome((TextBlock(str.__str__(said)),), valid=False, error="refused")
        form = self._replied(lambda: self._stepped(said))
        if "failed" in form:
            gone = (TextBlock("The environment failed. The episode ends here."),)
            return Outcome(gone, valid=False, error="engine_failed", ended=True, ending="aborted")
        if form["refused"]:
            return Outcome((TextBlock(form["refused"]),), valid=False, error="refused")
        return self._settled(said, form)

    def _settled(self, said: JSON, form: dict[str, JSON]) -> Outcome:
        visit: Visit = self.world
        visit.played.append({"action": said, "reply": form})
        visit.total += form["reward"]
        visit.key = digest([visit.key, said, form])[:32]
        pays = self.spec.capabilities.rewards == "step"
        return Outcome(
            (TextBlock(self.words(form["shown"])),),
            ended=form["terminated"] or form["truncated"],
            ending="terminated" if form["terminated"] else "truncated",
            reward=form["reward"] if pays else 0.0,
        )

    def _judge(self, ending: Ending) -> Verdict:
        if self.spec.capabilities.rewards == "step":
            facts: dict[str, JSON] = {"return": self.world.total, "turns": len(self.world.played)}
        else:
            facts = {"played": list(self.world.played)}
        return self.rejudge(self.current, facts, ending)

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute the verdict again from what was paid, or from what was played."""
        del scenario
        if "played" in facts:
            worth = float(cls.score(facts["played"]))
            return Verdict(worth, worth >= cls.spec.reward_range[1], facts=facts)
        paid = float(facts["return"])
        won = paid > 0 and ending == "terminated" if cls.success_at is None else paid >= cls.success_at
        return Verdict(paid, won, facts=facts)

    def _key(self) -> str:
        return self.world.key  # type: ignore[no-any-return]

    def _save(self) -> JSON:
        return {"played": list(self.world.played), "total": self.world.total, "key": self.world.key}

    def _load(self, scenario: Any, saved: JSON) -> None:
        played = [{"action": turn["action"], "reply": _form(Reply(**turn["reply"]))} for turn in saved["played"]]
        self._stands_at = -1
        self.world = Visit(played, float(saved["total"]), str(saved["key"]))

    def _own(self) -> None:
        self.world = replace(self.world, played=list(self.world.played))
        self._engine, self._stands_at = None, -1  # the original's; the twin starts its own when it needs one

    def _admissible(self) -> tuple[str, ...] | None:
        return self.actions or None

    # ---- the engine ------------------------------------------------------------------------------------------------

    def _replied(self, ask: Any) -> dict[str, JSON]:
        """Return a reply as data: asked for now, or fed back where it was an effect."""

        def asked() -> dict[str, JSON]:
            try:
                return _form(ask())
            except EngineError as error:
                return {"failed": clean_text(str(error))[:500]}

        if self.spec.capabilities.deterministic:
            return asked()
        return self.effect(REPLY, asked)  # type: ignore[no-any-return]

    def _began(self) -> Reply:
        if self._engine is None:
            self._engine = self.engine()
        reply = self._engine.reset(self.current.to_json()["seed"])  # type: ignore[union-attr]
        self._stands_at = 0
        return reply

    def _stepped(self, said: JSON) -> Reply:
        played = self.world.played
        if self._stands_at != len(played):
            self._catch_up(played)
        if self._engine is None:
            raise EngineError("it was closed")
        reply = self._engine.step(said)
        if not reply.refused:
            self._stands_at += 1
        return reply

    def _catch_up(self, played: Sequence[Mapping[str, JSON]]) -> None:
        """Bring the engine to where the episode stands.

        Raises:
            EngineError: It does not heed its seed.
        """
        if not self.spec.capabilities.resumable:
            raise EngineError("it cannot be brought back to where the episode stood")
        self._began()
        for turn in played:
            if self._engine is None or _form(self._engine.step(turn["action"])) != turn["reply"]:
                raise EngineError("it went another way when the same actions were played again")
        self._stands_at = len(played)


def _form(reply: Reply) -> dict[str, JSON]:
    """Return a reply as data of known form.

    Raises:
        EngineError: It shows what is no JSON.
    """
    try:
        shown = clean_text(reply.shown) if isinstance(reply.shown, str) else reply.shown
        form = {
            "shown": shown,
            "reward": float(reply.reward),
            "terminated": bool(reply.terminated),
            "truncated": bool(reply.truncated),
            "refused": clean_text(str(reply.refused)),
        }
        canonical(form)
    except AgentEnvsError as error:
        raise EngineError(f"it shows what is no JSON: {error.why}") from error
    return form


def describe(
    env_id: str,
    entry_point: str,
    description: str,
    *,
    steps: int,
    seeded: bool,
    exact: bool,
    accepts: tuple[Kind, ...] = ("text",),
    tools: tuple[ToolSpec, ...] = (),
    lists_actions: bool = False,
    rewards: Rewards = "step",
    reward_range: tuple[float, float] = ANY_REWARD,
    execution: Execution = "thread",
    step_seconds: float | None = None,
    memory_mb: int | None = None,
    splits: tuple[SplitSpec, ...] = SPLITS,
) -> EnvSpec:
    """Return the spec of a foreign environment.

    Args:
        env_id: ``namespace/Name-vN``.
        entry_point: ``module:Class``.
        description: One sentence.
        steps: Turns after which an episode is truncated.
        seeded: The same seed and actions give the same replies: it can be forked, saved, and brought back when lost.
        exact: They do so to the byte on any machine, so that no reply need be recorded. Numbers with a fraction that
            come out of a system's mathematical library do not.
        accepts: Kinds of action.
        tools: Its tools.
        lists_actions: Whether legal actions can be listed.
        rewards: ``step``: what it pays at each turn; ``final``: what the hook ``score`` says.
        reward_range: Least and most that an episode pays.
        execution: Where it runs.
        step_seconds: Wall-clock limit of a step, for ``process``.
        memory_mb: Most memory, for ``process``.
        splits: The first is the default.
    """
    name = parse_id(env_id)[1]
    options = [OptionSpec("limit", "int", steps, "turns after which an episode is truncated", minimum=0)]
    if lists_actions:
        options.append(OptionSpec("admissible", "bool", False, "list what can be said"))
    return EnvSpec(
        id=env_id,
        slug=entry_point.partition(":")[0].rpartition(".")[2],
        release="0",
        entry_point=entry_point,
        title=name,
        description=description,
        accepts=accepts,
        tools=tools,
        splits=splits,
        default_split=splits[0].name,
        eval_split="dev" if any(split.name == "dev" for split in splits) else "",
        budgets={"steps": steps},
        options=tuple(options),
        capabilities=Capabilities(
            deterministic=seeded and exact,
            replayable=True,  # replies that are not determined are effects, and those are fed back
            forkable=seeded,
            snapshot=seeded,
            resumable=seeded,
            rewards=rewards,
            execution=execution,
            step_seconds=step_seconds,
            memory_mb=memory_mb,
        ),
        reward_range=reward_range,
    )
