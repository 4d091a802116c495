"""Scenarios that differ only in their secrets, made by force.

Fields of a scenario that carry ``metadata=SECRET`` are altered one kind of field at a time, in one of three ways that
keep most worlds whole: strings become *canaries*, texts nobody else would say; values are *rotated*, among the siblings
that have the field or within the field; numbers are *shifted* where that changes nothing. What makes no scenario is
left out: what cannot be begun, and what does not come through ``to_json`` and ``from_json`` where its class has both.
An environment whose secrets cannot be altered so, or may lawfully be seen at the start, defines

    def secret_twins(self, scenario): yield …    # scenarios that must look like this one until a rule tells them apart

and only those are used.

A field is named by its path through dataclasses and dictionaries (``goal.thing``); sequences are gone through.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.environment import Environment

CANARY = re.compile(r"canary[_ ]73\d{4}")
"""What a canary looks like."""

_SPELLINGS = ("canary_73{:04d}", "canary 73{:04d}")
"""Spellings that are tried one after another: a scenario may want its names to be of a form."""

_MOST_TWINS = 32
_HOOK = "secret_twins"


def alterations(env: Environment, scenario: Any) -> list[JSON]:
    """Return all that can be done to the secrets of a scenario, as data that :func:`alter` takes."""
    hook = getattr(env, _HOOK, None)
    if callable(hook):
        return [{"twin": number} for number, _ in enumerate(islice(hook(scenario), _MOST_TWINS))]
    found = []
    for path in secret_fields(scenario):
        ways = [way for way in _WAYS if altered(scenario, path, way) is not None]
        # A shifted number may be out of bounds nobody checks; a rotated one is another's.
        kept = [way for way in ways if "shift" not in way or "rotate" not in ways]
        found += [{"field": path, "way": way} for way in kept]
    return found


def secret_fields(value: Any, inside: bool = False, path: str = "") -> list[str]:
    """Return the paths of the fields marked ``SECRET``, and of the fields within them."""
    found: list[str] = []
    for name, item, secret in _parts(value, inside):
        here = f"{path}.{name}" if path else name
        deeper = secret_fields(item, secret, here)
        found += deeper or ([here] if secret else [])
    return list(dict.fromkeys(found))


def altered(scenario: Any, path: str, way: str) -> Any:
    """Return a scenario with one kind of secret field altered; None where that changes nothing or makes none."""
    values = list(_values(scenario, path.split(".")))
    for change in _WAYS[way]:
        try:
            fresh = change(values)
            made = None if fresh == values else _read_back(_rebuilt(scenario, path.split("."), iter(fresh)))
        except Exception:  # noqa: BLE001, S112 - boundary: a class of others refuses values in its own way
            continue
        if made is not None:
            return made
    return None


def _read_back(scenario: Any) -> Any:
    read = getattr(type(scenario), "from_json", None)
    return read(scenario.to_json()) if callable(read) else scenario


def alter(env: Environment, alteration: JSON) -> None:
    """Make an environment serve altered scenarios from now on."""
    original: Callable[[str, int], Any] = env.scenario

    def scenario(split: str, index: int) -> Any:
        found = original(split, index)
        if "twin" in alteration:
            return next(islice(getattr(env, _HOOK)(found), alteration["twin"], None))
        made = altered(found, alteration["field"], alteration["way"])
        return found if made is None else made

    env.scenario = scenario  # type: ignore[method-assign]


def told(entry_point: str, alteration: JSON) -> str:
    """Return an alteration as the text a worker process is told."""
    return canonical({"entry_point": entry_point, "alteration": alteration})


def read(text: str) -> tuple[str, JSON]:
    """Return what :func:`told` wrote: entry point and alteration."""
    form = json.loads(text)
    return form["entry_point"], form["alteration"]


def _parts(value: Any, inside: bool) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, value and secrecy of what a value is made of, for all items of a sequence."""
    if isinstance(value, list | tuple):
        for item in value:
            if dataclasses.is_dataclass(item) or isinstance(item, Mapping):
                yield from _parts(item, inside)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.init:
                yield field.name, getattr(value, field.name), inside or bool(field.metadata.get("secret"))
    elif isinstance(value, Mapping) and inside:
        for key, item in value.items():
            if isinstance(key, str) and "." not in key:
                yield key, item, True


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _values(item, path)
    elif isinstance(value, Mapping):
        if path[0] in value:
            yield from _values(value[path[0]], path[1:])
    elif hasattr(value, path[0]):
        yield from _values(getattr(value, path[0]), path[1:])


def _rebuilt(value: Any, path: list[str], fresh: Iterator[Any]) -> Any:
    if not path:
        return next(fresh)
    if isinstance(value, list | tuple):
        return type(value)(_rebuilt(item, path, fresh) for item in value)
    if isinstance(value, Mapping):
        return {**value, path[0]: _rebuilt(value[path[0]], path[1:], fresh)} if path[0] in value else value
    if hasattr(value, path[0]):
        return dataclasses.replace(value, **{path[0]: _rebuilt(getattr(value, path[0]), path[1:], fresh)})
    return value


def _canaries(spelling: str) -> Callable[[list[Any]], list[Any]]:
    def planted(values: list[Any]) -> list[Any]:
        count = iter(range(10_000))
        return [
            _mapped(value, lambda leaf: spelling.format(next(count)) if isinstance(leaf, str) else leaf)
            for value in values
        ]

    return planted


def _shifts(by: int) -> Callable[[list[Any]], list[Any]]:
    def shifted(leaf: Any) -> Any:
        if isinstance(leaf, bool):
            return not leaf
        return leaf + by if isinstance(leaf, int | float) else leaf

    return lambda values: [_mapped(value, shifted) for value in values]


def _rotate(values: list[Any]) -> list[Any]:
    turned = [*values[1:], *values[:1]]
    if turned != values:
        return turned
    return [type(value)([*value[1:], *value[:1]]) if isinstance(value, list | tuple) else value for value in values]


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    return change(value)


_WAYS: dict[str, tuple[Callable[[list[Any]], list[Any]], ...]] = {
    "canary": tuple(_canaries(spelling) for spelling in _SPELLINGS),
    "rotate": (_rotate,),
    **{f"shift {by:+}": (_shifts(by),) for by in (1, -1, 2, 5)},
}
