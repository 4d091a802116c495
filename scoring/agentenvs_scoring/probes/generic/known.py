"""What an attacker knows, what a hack is, and the player that plays one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec, ToolSpec
from agentenvs.core.streams import Stream
from agentenvs.core.task import Task
from agentenvs_scoring.probes import Probe

Kind: TypeAlias = Literal["nothing", "guess", "once"]
NOTHING: Kind = "nothing"
GUESS: Kind = "guess"
ONCE: Kind = "once"

LUCK = 0.5
"""Share of the range that a guess may earn in the mean, where the environment does not say less."""


class Opening(NamedTuple):
    """Another task as an attacker knows it."""

    words: str
    """What it begins with."""
    solution: tuple[Any, ...]


@dataclass(slots=True)
class Known:
    """What an attacker knows of an episode."""

    spec: EnvSpec
    stream: Stream
    """Where its draws come from: the same in each run."""
    nth: int = 0
    """Number of the episode among those of the hack, so that variants take turns."""
    solution: tuple[Any, ...] = ()
    """Actions that solve the task; empty where nobody knows any."""
    others: tuple[Opening, ...] = ()
    """Other tasks of the environment, with other solutions."""
    elsewhere: tuple[tuple[Any, ...], ...] = ()
    """The solutions of all other tasks, the same ones too."""
    task: Task | None = None
    meaning: Callable[[Any], Any] = lambda action: action
    """What an action says, where several spellings are declared to be the same."""
    seen: list[Observation] = field(default_factory=list)
    """What was shown so far, the first observation first."""

    @property
    def last(self) -> Observation:
        """What is seen now."""
        return self.seen[-1]

    def turned(self, items: Iterable[Any]) -> list[Any]:
        """Return items in order, begun at another place in each episode."""
        listed = list(items)
        start = self.nth % len(listed) if listed else 0
        return [*listed[start:], *listed[:start]]

    def differs(self, action: Any, other: Any) -> bool:
        """Whether two actions say something else."""
        return bool(self.meaning(action) != self.meaning(other))

    def carried(self, text: str) -> list[Any]:
        """Return a text as every kind of action that carries one: text, message, each tool with texts for arguments."""
        accepts = self.spec.accepts
        said: list[Any] = [text] if "text" in accepts or not {"message", "tool"} & set(accepts) else []
        said += [{"message": text}] if "message" in accepts else []
        said += [_filled(tool, text) for tool in self.spec.tools] if "tool" in accepts else []
        return said


def _filled(tool: ToolSpec, text: str) -> dict[str, JSON]:
    """Return a call of a tool whose texts all are this one; what is no text is as in the first example."""
    example = dict(tool.examples[0]) if tool.examples else {}
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    arguments = {name: _value(form, example.get(name), text) for name, form in properties.items()}
    return {"tool": tool.name, "arguments": {name: value for name, value in arguments.items() if value is not None}}


def _value(form: Any, example: JSON, text: str) -> JSON:
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind == "string" or isinstance(example, str):
        return text
    if kind == "array" or isinstance(example, list):
        return [text]
    return example


Script: TypeAlias = Callable[[Known], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Hack:
    """A generic hack."""

    name: str
    description: str
    """What it tries, one sentence."""
    kind: Kind
    script: Script
    """Yields its actions; read as they are played, so that it may look at what is seen."""
    needs_solution: bool = False
    needs_others: bool = False
    needs_elsewhere: bool = False
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Options it would have; those the environment has are set."""
    to_the_end: bool = False
    """Goes on until the episode ends by itself."""
    plays: int = 0
    """Episodes it wants at least, since it tries another thing in each; tasks are played again for that."""

    def lacks(self, known: Known) -> str:
        """Return what it would have to know and does not; empty where it has all."""
        if self.needs_solution and not known.solution:
            return "no oracle: nobody knows a solution"
        if self.needs_elsewhere and not known.elsewhere:
            return "no solution of another task is known"
        return "no other task with another solution is known" if self.needs_others and not known.others else ""

    def probe(self, known: Known, luck: float = LUCK) -> Probe:
        """Return the hack as a probe.

        Args:
            known: What it knows; of the episode it is played in.
            luck: Share of the range that a guess may earn in the mean.
        """
        low, high = known.spec.reward_range
        floor = max(low, 0.0)
        have = {option.name for option in known.spec.options}
        return Probe(
            name=self.name,
            description=self.description,
            make=lambda _: Player(self, known),
            ceiling=floor if self.kind == NOTHING else high,
            average=floor + luck * (high - floor) if self.kind == GUESS else None,
            options={name: value for name, value in self.options.items() if name in have},
        )


class Player:
    """Plays a hack; then says nothing.

    Args:
        hack: Which.
        known: What it knows.
    """

    def __init__(self, hack: Hack, known: Known) -> None:
        self._hack = hack
        self._known = known
        self.done = False
        """Whether the script is over, and the rest of the episode would be silence."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Note the task."""
        self._known.task = task
        self._known.seen.clear()
        self._actions: Iterator[Any] | None = None

    def act(self, observation: Observation) -> Any:
        """Return the next action of the script."""
        self._known.seen.append(observation)
        if self._actions is None:
            self._actions = iter(self._hack.script(self._known))
        for action in self._actions:
            return action
        self.done = not self._hack.to_the_end
        return nothing(self._known.spec)


def nothing(spec: EnvSpec) -> Any:
    """Return an action that says nothing, of a kind the environment takes where it takes one."""
    if "text" in spec.accepts or "message" not in spec.accepts:
        return ""
    return {"message": ""}
