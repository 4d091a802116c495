"""Packages of others, asked for when a plug is used; classes over their classes, made then."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from agentenvs.core.errors import MissingExtraError


def needed(module: str, install: str) -> Any:
    """Import a module of a trainer's package.

    Args:
        module: Its name.
        install: What ``pip install`` is told.

    Raises:
        MissingExtraError: It is not installed, or not in this version.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"this plug needs the module {module!r}, which is not installed",
            why=str(error),
            fix=f"pip install '{install}'",
        ) from error


def attributes(module: str, makers: Mapping[str, Callable[[], Any]], place: dict[str, Any]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that makes names on first use (PEP 562) and keeps them.

    Args:
        module: The module's name.
        makers: What makes each name.
        place: The module's globals; a class that is kept there can be pickled.
    """

    def look_up(name: str) -> Any:
        if name not in makers:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        made = makers[name]()
        made.__module__, made.__qualname__ = module, name
        place[name] = made
        return made

    return look_up
