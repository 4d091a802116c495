"""What an environment says of itself: data that goes to JSON and back, stored with every result.

A spec is plain frozen data. It names its class by a string, so that a catalogue of specs can be read without importing
a single environment, and it declares what the environment promises; whoever uses an environment reads the promise here
and never guesses from the class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ContractError, OptionError

Kind: TypeAlias = Literal["text", "tool", "message", "end"]
Execution: TypeAlias = Literal["inline", "thread", "process"]
Rewards: TypeAlias = Literal["final", "step"]

RESERVED_TOOLS = frozenset({"reset", "step", "state", "close"})
"""Tool names other protocols keep for themselves."""

_ID = re.compile(r"(?:(?P<namespace>[\w.-]+)/)?(?P<name>[A-Za-z][\w.]*?)-v(?P<version>\d+)")
_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "str": (str,), "float": (int, float)}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    """JSON Schema (2020-12) of the arguments object."""
    examples: tuple[Mapping[str, JSON], ...] = ()
    """Arguments as a player would write them."""


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """One split."""

    name: str
    size: int | None
    """Number of scenarios; None where every integer seed is one."""
    description: str = ""
    sealed: bool = False
    panel: str | None = None
    """Digest of the scenarios of a split that was loaded from files, in order."""


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option a caller may set."""

    name: str
    type: Literal["bool", "int", "str", "float"]
    default: bool | int | float | str | None
    description: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    secret: bool = False
    """True for what belongs to the machine, not to the episode (a folder): it stands in no record."""

    def check(self, value: Any) -> Any:
        """Return the value if the option takes it.

        Raises:
            OptionError: Wrong type, not among the choices, or below the minimum.
        """
        if value is None and self.default is None:
            return None
        if type(value) not in _TYPES[self.type]:
            raise OptionError(
                f"option {self.name!r} does not take {value!r}",
                why=f"it is a {self.type}",
                fix=f"default: {self.default!r}",
            )
        if self.choices and value not in self.choices:
            raise OptionError(
                f"option {self.name!r} does not take {value!r}", fix=f"choose one of: {', '.join(self.choices)}"
            )
        if self.minimum is not None and value < self.minimum:
            raise OptionError(f"option {self.name!r} does not take {value!r}", fix=f"the least is {self.minimum}")
        return value


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an environment promises. One that declares less is served and evaluated all the same."""

    deterministic: bool = True
    """Scenario, actions and effects fix every byte."""
    replayable: bool = True
    """A record can be played again, effects fed back."""
    forkable: bool = True
    """``fork()`` gives an exact copy in process."""
    snapshot: bool = True
    """``snapshot()`` and ``restore()`` are exact and portable."""
    rewards: Rewards = "final"
    """``final``: paid once, on the ending step. ``step``: each step may pay."""
    execution: Execution = "inline"
    """``inline``: bounded by construction. ``thread``: may block. ``process``: may hang; lives in a worker process."""
    step_seconds: float | None = None
    """Wall-clock limit of a step, for ``process``."""
    memory_mb: int | None = None
    """Most memory of the worker, for ``process``; 4096 where None, no limit where 0."""
    cpu_seconds: float | None = None
    """Most processor time of a step, and of the time until the next one, for ``process``; no limit where None."""
    resumable: bool = True
    """A world that was lost can be made again and played on. What another server held of it is gone with the session
    there: its record still replays, from the effects."""

    @property
    def recoverable(self) -> bool:
        """Whether an episode goes on where its world was given up: made again from its record, and played on."""
        return self.replayable and self.resumable


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What an environment says of itself."""

    id: str
    """``namespace/Name-vN``; never changes its meaning once released."""
    slug: str
    """Short lower-case name: folder, command line, file names."""
    release: str
    """Version of rules and words under this id; a record of another release does not replay."""
    entry_point: str
    """``module:Class`` of the :class:`~agentenvs.core.environment.Environment`."""
    title: str
    description: str
    accepts: tuple[Kind, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_calls: int = 1
    splits: tuple[SplitSpec, ...] = ()
    default_split: str = ""
    """Which split a reset takes when none is named."""
    eval_split: str = ""
    """Which split an evaluation takes when none is named; the default split where empty."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Declared budgets and their defaults; ``steps`` counts turns and truncates."""
    options: tuple[OptionSpec, ...] = ()
    capabilities: Capabilities = field(default_factory=Capabilities)
    reward_range: tuple[float, float] = (0.0, 1.0)
    max_observation_bytes: int = 65_536
    gamma: float = 1.0
    """Discount of the shaping potential, where there is one."""
    players: Mapping[str, str] = field(default_factory=dict)
    """Named policies: ``module:factory``."""
    since: str = ""
    """First version with this release of the package that brings it; stands in records, for whoever replays one."""

    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """What :attr:`digest` found: it takes milliseconds, and every record holds it."""

    def __post_init__(self) -> None:
        """Refuse a spec that no protocol could carry.

        Raises:
            ContractError: A malformed id, a reserved or doubled tool name, a default that is not there.
        """
        parse_id(self.id)
        names = [tool.name for tool in self.tools]
        if taken := sorted(RESERVED_TOOLS.intersection(names)):
            raise ContractError(f"{self.id}: the tool name {taken[0]!r} is reserved", fix="choose another name")
        if len(set(names)) != len(names):
            raise ContractError(f"{self.id}: two tools share a name")
        if self.max_calls < 1:
            raise ContractError(f"{self.id}: max_calls must be at least 1")
        if self.splits and self.default_split not in [split.name for split in self.splits]:
            raise ContractError(f"{self.id}: the default split {self.default_split!r} is none of its splits")
        if self.eval_split and self.eval_split not in [split.name for split in self.splits]:
            raise ContractError(f"{self.id}: the split for evaluations {self.eval_split!r} is none of its splits")

    def resolve(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option with its value, defaults filled in.

        Raises:
            OptionError: An unknown option or a refused value.
        """
        known = {option.name: option for option in self.options}
        if unknown := [name for name in options if name not in known]:
            raise OptionError(
                f"{self.id} has no option {unknown[0]!r}", fix=f"its options: {', '.join(known) or 'none'}"
            )
        return {
            name: option.check(options[name]) if name in options else option.default for name, option in known.items()
        }

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        form: dict[str, JSON] = asdict(self)
        del form["_digest"]
        return _listed(form)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> EnvSpec:
        """Read back what :meth:`to_json` wrote.

        Raises:
            ContractError: The form is no spec.
        """
        try:
            return cls(
                **{
                    **form,
                    "accepts": tuple(form["accepts"]),
                    "tools": tuple(
                        ToolSpec(**{**tool, "examples": tuple(tool.get("examples", ()))}) for tool in form["tools"]
                    ),
                    "splits": tuple(SplitSpec(**split) for split in form["splits"]),
                    "options": tuple(
                        OptionSpec(**{**option, "choices": tuple(option.get("choices", ()))})
                        for option in form["options"]
                    ),
                    "capabilities": Capabilities(**form["capabilities"]),
                    "reward_range": tuple(form["reward_range"]),
                }
            )
        except (KeyError, TypeError) as error:
            raise ContractError("this JSON is no environment spec", why=repr(error)) from error

    @property
    def digest(self) -> str:
        """SHA-256 of what the spec says of behaviour.

        All but its class, players, prose, split for evaluations, and what is a machine's: the limits of a worker, and
        whether a lost world can be had back.
        """
        if not self._digest:
            self._digest.append(self._digested())
        return self._digest[0]

    def _digested(self) -> str:
        form = self.to_json()
        for name in ("entry_point", "players", "since", "title", "description", "eval_split"):
            form.pop(name)
        for name in ("memory_mb", "cpu_seconds", "resumable"):
            form["capabilities"].pop(name)
        return digest(form)


def parse_id(env_id: str) -> tuple[str, str, int]:
    """Split an id into namespace, name and version.

    Raises:
        ContractError: It does not look like ``namespace/Name-v0``.
    """
    match = _ID.fullmatch(env_id)
    if match is None:
        raise ContractError(f"{env_id!r} is no environment id", fix="ids look like namespace/Name-v0")
    return match["namespace"] or "", match["name"], int(match["version"])


def _listed(value: Any) -> JSON:
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return value


__all__ = [
    "RESERVED_TOOLS",
    "Capabilities",
    "EnvSpec",
    "Execution",
    "Kind",
    "OptionSpec",
    "Rewards",
    "SplitSpec",
    "ToolSpec",
    "parse_id",
]
