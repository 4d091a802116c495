"""The short way to an environment: a plain class with ``task``, ``reset``, ``step`` and ``score``.

    @world("me/Guess-v0", steps=10, players={"oracle": "Oracle"})
    class Guess:
        "Guess a number."

        def task(rng): return {"number": rng.between(1, 9)}       # what is hidden
        def reset(self, task): self.number, self.right = task["number"], False; return "Which number?"
        def step(self, text): ...                                  # words, Invalid("…") or Ended("…")
        def score(self): return float(self.right)

What an episode changes are the attributes of the object, and these are JSON values: from that follow forks, snapshots,
records, replays and scores that can be computed again. The decorated name is an ordinary environment class. A world
that needs tools, budgets of its own or traces is a subclass of :class:`~agentenvs.core.environment.Environment`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from agentenvs.core.actions import Action
from agentenvs.core.canon import JSON, canonical_bytes, digest
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ContractError
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, parse_id
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import SECRET, Task
from agentenvs.core.turn import Outcome
from agentenvs.core.verdict import Ending, Verdict

SPLITS: tuple[SplitSpec, ...] = (
    SplitSpec("train", None, "every seed is a task"),
    SplitSpec("dev", 100, "for choosing"),
    SplitSpec("test", 100, "for reporting"),
)
"""The splits of a world that names none; no task of one is in another."""

_NEEDED = ("task", "reset", "step", "score")


class Invalid(str):
    """Words to a player whose action was none, or cannot be done now; the world is as it was."""

    __slots__ = ()


class Ended(str):
    """The last words of an episode."""

    __slots__ = ()


class Plain(Protocol):
    """What :func:`world` is put on; ``legal(self) -> list[str]`` may be there too, and lists what can be said now."""

    @staticmethod
    def task(rng: Stream) -> dict[str, JSON]:
        """Draw a task: what the player is not told, and under the names of ``shown`` what it is."""

    def reset(self, task: dict[str, JSON]) -> str:
        """Set the attributes to what they are at the start; return the first observation."""

    def step(self, action: str) -> str:
        """Do an action; return what the player sees, as :class:`Invalid` or :class:`Ended` where it is that."""

    def score(self) -> float | Verdict:
        """Return the worth of the world as it is, from 0 to 1; at any turn."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A scenario: what ``task`` drew at an address."""

    name: str
    hidden: dict[str, JSON] = field(metadata=SECRET)
    shown: dict[str, JSON] = field(default_factory=dict)
    """What the player may see from the start."""

    @property
    def digest(self) -> str:
        """SHA-256 of it."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"name": self.name, "hidden": self.hidden, **({"shown": self.shown} if self.shown else {})}


class Simple(Environment):
    """An environment around a plain object; :func:`world` makes the subclasses."""

    plain: ClassVar[type[Any]]
    shown: ClassVar[tuple[str, ...]] = ()

    def scenario(self, split: str, index: int) -> Drawn:
        """Draw the task of an address."""
        drawn = self.plain.task(Stream(scenario_key(self.spec.slug, split, index), "task"))
        form = _as_json(drawn, f"what {self.plain.__name__}.task returns")
        if missing := [name for name in self.shown if name not in form]:
            raise ContractError(f"{self.plain.__name__}.task draws no {missing[0]!r}", why="it is said to be shown")
        hidden = {name: value for name, value in form.items() if name not in self.shown}
        return Drawn(f"{split}/{index}", hidden, {name: form[name] for name in self.shown})

    def _begin(self, scenario: Any) -> str:
        self.world = self.plain()
        return str(self.world.reset(_drawn(scenario)))

    def _act(self, action: Action) -> Outcome:
        said = self.world.step(action)
        if not isinstance(said, str):
            raise ContractError(f"{self.plain.__name__}.step returned a {type(said).__name__}", fix="return words")
        valid = not isinstance(said, Invalid)
        blocks = (TextBlock(str.__str__(said)),)
        return Outcome(blocks, valid=valid, error=None if valid else "refused", ended=isinstance(said, Ended))

    def _judge(self, ending: Ending) -> Verdict:
        return self._scored(self.world, self._save())

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute the score of recorded attributes."""
        return cls._scored(cls._revived(facts), dict(facts))

    def _key(self) -> str:
        return digest(self._save())[:32]

    def _save(self) -> JSON:
        return _as_json(vars(self.world), f"the attributes of {self.plain.__name__}")

    def _load(self, scenario: Any, saved: JSON) -> None:
        self.world = self.plain()
        self.world.reset(_drawn(scenario))
        if not isinstance(saved, dict) or saved.keys() != vars(self.world).keys():
            raise ValueError("not the attributes of this world")
        self.world = self._revived(saved)

    def _admissible(self) -> tuple[str, ...] | None:
        legal = getattr(self.world, "legal", None)
        return None if legal is None else tuple(legal())

    def _instruction(self) -> str:
        return self.spec.description

    @classmethod
    def _revived(cls, saved: Mapping[str, JSON]) -> Any:
        revived = cls.plain()
        vars(revived).clear()
        vars(revived).update(copy.deepcopy(dict(saved)))
        return revived

    @classmethod
    def _scored(cls, world: Any, facts: dict[str, JSON]) -> Verdict:
        worth = world.score()
        if isinstance(worth, Verdict):
            return Verdict(worth.reward, worth.success, worth.components, worth.reasons, facts)
        return Verdict(float(worth), worth >= cls.spec.reward_range[1], facts=facts)


def world(
    env_id: str,
    *,
    steps: int,
    players: Mapping[str, str] | None = None,
    splits: Sequence[SplitSpec] = SPLITS,
    release: str = "0",
    capabilities: Capabilities | None = None,
    shown: Sequence[str] = (),
) -> Callable[[type[Plain]], type[Simple]]:
    """Make an environment class of a plain class; see the module.

    Args:
        env_id: ``namespace/Name-v0``; its version says when the rules have changed.
        steps: Turns after which an episode is truncated.
        players: Policies by name; each a name in the same module, or ``module:name``.
        splits: The first is the default; ``dev`` is evaluated where there is one.
        release: Version of rules and words under this id.
        capabilities: What it promises, where that is not everything; ``execution="process"`` for what may hang.
        shown: Names of what ``task`` draws that the player may see from the start; all else counts as hidden.

    Raises:
        ContractError: The id is none, or the class lacks a method.
    """
    parse_id(env_id)

    def decorated(plain: type[Plain]) -> type[Simple]:
        if missing := [name for name in _NEEDED if not callable(getattr(plain, name, None))]:
            raise ContractError(f"{plain.__name__} has no {missing[0]}()", fix=f"write {', '.join(_NEEDED)}")
        made: type[Simple] = type(plain.__name__, (Simple,), {"__doc__": plain.__doc__, "__module__": plain.__module__})
        made.__qualname__ = plain.__qualname__
        made.plain, made.shown = plain, tuple(shown)
        if not isinstance(vars(plain).get("task"), staticmethod):
            setattr(plain, "task", staticmethod(plain.task))  # noqa: B010 - mypy takes no assignment to a method
        named = {name: _at(plain.__module__, target) for name, target in (players or {}).items()}
        made.spec = _spec(plain, env_id, steps, named, tuple(splits), release, capabilities or Capabilities())
        return made

    return decorated


def _spec(
    plain: type[Any],
    env_id: str,
    steps: int,
    players: dict[str, str],
    splits: tuple[SplitSpec, ...],
    release: str,
    capabilities: Capabilities,
) -> EnvSpec:
    name = parse_id(env_id)[1]
    options = [OptionSpec("limit", "int", steps, "turns after which an episode is truncated", minimum=0)]
    if hasattr(plain, "legal"):
        options.append(OptionSpec("admissible", "bool", False, "list what can be said"))
    return EnvSpec(
        id=env_id,
        slug=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(),
        release=release,
        entry_point=f"{plain.__module__}:{plain.__qualname__}",
        title=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name),
        description=" ".join((plain.__doc__ or "").split()),
        accepts=("text",),
        splits=splits,
        default_split=splits[0].name,
        eval_split="dev" if any(split.name == "dev" for split in splits) else "",
        budgets={"steps": steps},
        options=tuple(options),
        capabilities=capabilities,
        players=players,
    )


class Script(Privileged):
    """An oracle in a few lines: :meth:`play` yields actions, knowing what is hidden."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Nothing is known yet."""
        self._seen: Observation | None = None

    def reveal(self, scenario: Any) -> None:
        """Take the scenario."""
        self._actions = self.play(_drawn(scenario))

    def act(self, observation: Observation) -> Any:
        """Return the next action, and nothing where there is none."""
        del observation
        return next(self._actions, "")

    def play(self, hidden: dict[str, JSON]) -> Generator[Any, None, None]:
        """Yield the actions that solve a task; written by the subclass."""
        raise ContractError(f"{type(self).__name__} does not play", fix="write play(self, hidden), and yield actions")


def _drawn(scenario: Any) -> dict[str, JSON]:
    """Return a copy of what ``task`` drew; the whole scenario where it is none of :func:`world`'s."""
    form: dict[str, JSON] = copy.deepcopy(scenario.to_json())
    return {**form["hidden"], **form.get("shown", {})} if "hidden" in form else form


def _at(module: str, target: str) -> str:
    return target if ":" in target else f"{module}:{target}"


def _as_json(value: Any, what: str) -> dict[str, JSON]:
    """Return a copy of an object of JSON values.

    Raises:
        ContractError: It holds something else.
    """
    try:
        if not _keyed_by_text(value):
            raise ContractError("a dictionary has a key that is no string")
        return json.loads(canonical_bytes(value))  # type: ignore[no-any-return]
    except ContractError as error:
        raise ContractError(
            f"{what} are no JSON values" if what.startswith("the") else f"{what} is no JSON object",
            why=f"{_culprit(value)}{error.why or error.what}",
            fix="keep to None, bool, int, float, str, lists, and dictionaries with string keys",
        ) from error


def _culprit(value: Any) -> str:
    """Return which part of an object is no JSON, for a message."""
    for name, part in value.items() if isinstance(value, dict) else ():
        try:
            canonical_bytes({name: part})
            sound = _keyed_by_text({name: part})
        except ContractError:
            sound = False
        if not sound:
            return f"{name} is {part!r:.60}: "
    return ""


def _keyed_by_text(value: Any) -> bool:
    """Whether all keys are strings; JSON would make strings of numbers, and a saved world another one."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _keyed_by_text(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_keyed_by_text, value))
