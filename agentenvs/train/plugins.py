"""The seven ways to change training, and how they are checked against each other before anything runs.

A plug-in is a class with a name, the fields it needs and the fields it provides. Fields are words for what is known of
tokens, turns and episodes (:data:`FIELDS`): an environment provides some (``turn.state_key`` where it tells the key of
its states), the rollout some (``token.logp_mu``), each plug-in further ones. :func:`check_needs` walks the pipeline in
its order and refuses one whose plug-in needs a field that nothing before it provides, so that no method runs on a
quantity that silently is zero.

What can be chosen by name is registered by :func:`register`; one file a method, found by its name alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Generic, TypeVar

from agentenvs.core.errors import ConfigError

FIELDS: Mapping[str, str] = {
    "token.logp_mu": "the sampler's log-probability of each sampled token",
    "token.version": "the version of the weights that sampled it",
    "token.logp_ref": "log-probability under frozen weights",
    "token.logp_teacher": "log-probability under a teacher",
    "token.value": "a critic's value before each token",
    "turn.value": "a critic's value before each turn",
    "turn.valid": "whether an action was valid",
    "turn.state_key": "the key of the world before the turn",
    "turn.facts": "facts observed, used and written",
    "turn.potential": "the potential Φ before and after the turn",
    "turn.admissible": "the legal actions before the turn",
    "episode.success": "whether it succeeded",
    "episode.group": "episodes of the same scenario, side by side",
    "episode.baseline": "an expected return, frozen before the episode was sampled",
    "library.texts": "texts that a library keeps from episode to episode",
    "batch.advantage": "an advantage for each trained token",
}
"""What plug-ins may need and provide."""

ROLLOUT: frozenset[str] = frozenset(
    ("token.logp_mu", "token.version", "turn.valid", "episode.success", "episode.group")
)
"""What every rollout provides, whatever the environment."""


class NeedError(ConfigError):
    """A plug-in needs a field that nothing before it provides.

    Args:
        plugin: Its name.
        field: The field.
        providers: Names of what could provide it.
    """

    def __init__(self, plugin: str, field: str, providers: Sequence[str] = ()) -> None:
        self.plugin, self.field = plugin, field
        super().__init__(
            f"{plugin} needs {field}",
            why=f"nothing before it provides {FIELDS.get(field, field)}",
            fix=f"add one of: {', '.join(providers)}" if providers else "choose an environment or a plug-in that does",
        )


class Plugin:
    """What all plug-ins share. Subclasses take one argument, an instance of their ``Config``.

    Attributes:
        name: What it is chosen by.
        needs: Fields (:data:`FIELDS`) that must be there before it.
        provides: Fields that are there after it.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()
    provides: ClassVar[frozenset[str]] = frozenset()

    @dataclass(frozen=True)
    class Config:
        """Settings; a frozen dataclass of numbers, words and truth values."""

    def __init__(self, config: Any = None) -> None:
        self.config = self.Config() if config is None else config

    def required(self) -> frozenset[str]:
        """Return what it needs as it is set; ``needs`` unless settings change that."""
        return self.needs

    def state_dict(self) -> dict[str, Any]:
        """Return what it carries from step to step, as JSON or arrays; empty where it carries nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned."""


P = TypeVar("P", bound=Plugin)


class Registry(Generic[P]):
    """The plug-ins of one kind by name.

    Args:
        kind: What they are called in messages.
        discover: Imports the modules that register, before a name is looked for.
    """

    def __init__(self, kind: str, discover: Callable[[], object] | None = None) -> None:
        self.kind = kind
        self._discover = discover
        self._known: dict[str, type[P]] = {}

    def register(self, cls: type[P]) -> type[P]:
        """Make a class choosable by its name; to be used as a decorator.

        Raises:
            ValueError: It has no name, or one that is taken.
        """
        if not cls.name or self._known.get(cls.name, cls) is not cls:
            raise ValueError(f"{cls.__name__} needs a {self.kind} name of its own, not {cls.name!r}")
        self._known[cls.name] = cls
        return cls

    def names(self) -> list[str]:
        """Return all names."""
        if self._discover is not None:
            self._discover()
        return sorted(self._known)

    def classes(self) -> list[type[P]]:
        """Return all classes, by name."""
        return [self._known[name] for name in self.names()]

    def get(self, name: str) -> type[P]:
        """Return the class of a name.

        Raises:
            ConfigError: There is none.
        """
        names = self.names()
        found = self._known.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"no {self.kind} {name!r}", fix=f"{hint}known: {', '.join(names)}")
        return found

    def make(self, name: str, settings: Mapping[str, Any] | None = None) -> P:
        """Make a plug-in from the settings of a configuration file.

        Raises:
            ConfigError: No such plug-in, or settings it does not have.
        """
        cls = self.get(name)
        return cls(configured(cls.Config, settings or {}, f"{self.kind} {name}"))


def at_least(settings: object, low: float, *names: str) -> None:
    """Refuse numbers below a bound, in a ``__post_init__``; None is any.

    Raises:
        ValueError: One is below it.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= low:
            raise ValueError(f"{name} is {value}, and must be {low:g} or more")


C = TypeVar("C")


def configured(config: type[C], settings: Mapping[str, Any], owner: str) -> C:
    """Make a frozen dataclass from settings, and say what is wrong with them.

    Numbers may be whole where a float is wanted; nothing else is converted.

    Raises:
        ConfigError: An unknown setting, or one of the wrong kind.
    """
    if not is_dataclass(config):
        raise TypeError(f"{config.__name__} is no dataclass")
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{owner} is {settings!r}", fix="make it a table")
    known = {one.name: one for one in fields(config)}
    taken: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"{owner} has no setting {name!r}", fix=f"{hint}known: {', '.join(known) or 'none'}")
        taken[name] = _as(str(known[name].type), value, f"{owner}: {name}")
    try:
        return config(**taken)
    except ValueError as error:
        raise ConfigError(f"{owner} makes no sense", why=str(error)) from error
    except TypeError as error:
        raise ConfigError(f"{owner} is not complete", why=str(error)) from error


_PLAIN: Mapping[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "str": str, "bool": bool}


def _as(kind: str, value: Any, owner: str) -> Any:
    options = [part.strip() for part in kind.split("|")]
    if value is None and "None" in options:
        return None
    for option in options:
        wanted = _PLAIN.get(option)
        if wanted is None:
            if option.startswith("tuple") and isinstance(value, list | tuple):
                inner = option[6:].partition(",")[0]
                return tuple(_as(inner, one, owner) for one in value)
            if option.startswith("Mapping") and isinstance(value, Mapping):
                inner = option[len("Mapping[str, ") : -1]
                return {str(name): _as(inner, one, f"{owner}.{name}") for name, one in value.items()}
            if not option.startswith(("None", "tuple", "Mapping")):
                return value
            continue
        if isinstance(value, wanted) and isinstance(value, bool) == (option == "bool"):
            return float(value) if option == "float" else value  # type: ignore[arg-type]
    raise ConfigError(f"{owner} is {value!r}", fix=f"give a value of {kind}")


def check_needs(pipeline: Iterable[Plugin], provided: Iterable[str], known: Iterable[type[Plugin]] = ()) -> None:
    """Refuse a pipeline in which a plug-in needs what nothing before it provides.

    Args:
        pipeline: The plug-ins in the order they run.
        provided: What is there before the first: :data:`ROLLOUT`, and what environment and engine add.
        known: Classes that could be added; those that provide a missing field are named in the error.

    Raises:
        NeedError: A need is missing; it names plug-in and field.
    """
    there = set(provided)
    candidates = list(known)
    for plugin in pipeline:
        for field in sorted(plugin.required() - there):
            raise NeedError(plugin.name, field, sorted({one.name for one in candidates if field in one.provides}))
        there |= plugin.provides
