"""The measured part of a card as TOML, below the head that people write."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.spec import EnvSpec
from agentenvs_scoring.cards import MARK, Band, ModelRow, Saturated, path_of

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def card_path(spec: EnvSpec) -> Path:
    """Return where an environment's card is: in the suite, or beside the file it comes from."""
    if spec.id in registry.built_in_ids():
        return path_of(spec.slug)
    module = inspect.getfile(registry.load(spec.entry_point))
    return Path(module).with_name(f"{spec.slug}.card.toml")


def head_of(text: str) -> str:
    """Return the head of a card, as it was written."""
    return text.partition(MARK)[0].rstrip() + "\n"


def new_head(spec: EnvSpec) -> str:
    """Return the head of a card where there is none yet."""
    return (
        f"# Score card of {json.dumps(spec.title)}: when a player passes, and what anchor policies reach.\n"
        f"env = {_value(spec.id)}\n"
        f"release = {_value(spec.release)}\n"
        "\n"
        "# A player passes with at least this share of episodes won and at most this share of invalid turns.\n"
        "[pass]\n"
        "success_rate = 0.9\n"
        "invalid_rate = 0.1\n"
        "\n"
        "[oracle]\n"
        "success_rate = 1.0\n"
    )


def written(
    head: str, bands: Iterable[Band], models: Iterable[ModelRow], saturated: Iterable[Saturated], release: str
) -> str:
    """Return the text of a card.

    Args:
        head: What people wrote; its release is set.
        bands: Of anchors.
        models: Rows of models.
        saturated: Where the world tells good players no longer apart.
        release: Of what was measured.
    """
    head = re.sub(r'(?m)^release = ".*"$', lambda _: f"release = {_value(release)}", head_of(head), count=1)
    parts = [head, MARK]
    for name, found in (("saturated", saturated), ("models", models), ("bands", bands)):
        parts += [_table(name, row) for row in found]
    return "\n".join([*parts, ""]) if len(parts) > 2 else f"{head}\n{MARK}\n"


def _table(name: str, row: Any) -> str:
    lines = [f"\n[[{name}]]"]
    for one in fields(row):
        value = getattr(row, one.name)
        if value is None or (isinstance(value, Mapping) and not value):
            continue
        lines.append(f"{one.name} = {_value(value)}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, which forbids DEL as well; no pair of surrogates comes about without ASCII.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)
