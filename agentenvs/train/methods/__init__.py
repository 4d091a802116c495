"""Methods, one small file each: a recipe, and the plug-ins it needs that are nobody else's.

A :class:`Recipe` says which plug-ins make the method, in their order, with their settings, and where they come from:
*exact* where the formula was read in the paper's text or its authors' code, *described* where only a description was
at hand, *like* where the method was rebuilt from its abstract and may differ from the authors'. A further method is a
further file; nothing lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from agentenvs.core.errors import ConfigError
from agentenvs.train.interfaces import Aggregation


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method as a choice of plug-ins."""

    name: str
    title: str
    source: str
    """Paper and equation, or the code it was read in."""
    provenance: Literal["exact", "described", "like"]
    credits: tuple[tuple[str, Mapping[str, Any]], ...]
    """Plug-ins of credit in their order, each with its settings."""
    loss: tuple[str, Mapping[str, Any]] = ("ppo-clip", MappingProxyType({}))
    aggregation: Aggregation = "token-mean"
    signals: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    hooks: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    sampler: tuple[str, Mapping[str, Any]] | None = None
    library: tuple[str, Mapping[str, Any]] | None = None
    wrapper: tuple[str, Mapping[str, Any]] | None = None
    """What the policy acts through when it is evaluated."""


_RECIPES: dict[str, Recipe] = {}


def recipe(made: Recipe) -> Recipe:
    """Make a recipe choosable by its name.

    Raises:
        ValueError: The name is taken.
    """
    if _RECIPES.get(made.name, made) != made:
        raise ValueError(f"two methods are called {made.name}")
    _RECIPES[made.name] = made
    return made


def recipes() -> Mapping[str, Recipe]:
    """Return all methods by name; every file of this package is read."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return dict(sorted(_RECIPES.items()))


def get(name: str) -> Recipe:
    """Return a method.

    Raises:
        ConfigError: There is none of that name.
    """
    known = recipes()
    if name not in known:
        raise ConfigError(f"no method {name!r}", fix=f"known: {', '.join(known)}")
    return known[name]
