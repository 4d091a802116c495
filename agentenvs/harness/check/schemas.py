"""JSON Schema as far as tools need it: with ``jsonschema`` where it is installed, by structure where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenvs.core.canon import JSON

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def schema_fault(schema: Mapping[str, JSON]) -> str | None:
    """Return what is wrong with the schema of a tool's arguments; None for nothing."""
    if schema.get("type") != "object":
        return "its type is not object"
    validator = _validator()
    if validator is not None:
        try:
            validator.check_schema(dict(schema))
        except Exception as error:  # noqa: BLE001 - boundary: the validator's own errors, whatever the schema holds
            return str(getattr(error, "message", error))
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not all(isinstance(item, Mapping | bool) for item in properties.values()):
        return "its properties are no schemas"
    if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        return "required is no list of names"
    return None


def misfit(schema: Mapping[str, JSON], arguments: Mapping[str, JSON]) -> str | None:
    """Return why arguments do not fit a schema; None where they do, as far as can be told."""
    validator = _validator()
    if validator is not None:
        found = next(iter(validator(dict(schema)).iter_errors(dict(arguments))), None)
        return None if found is None else str(found.message)
    properties = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in arguments]:
        return f"{missing[0]!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties") is False:
                return f"{name!r} is not declared"
            continue
        kind = properties[name].get("type") if isinstance(properties[name], Mapping) else None
        wanted = _TYPES.get(kind) if isinstance(kind, str) else None
        if wanted is not None and (not isinstance(value, wanted) or (type(value) is bool and bool not in wanted)):
            return f"{name!r} is no {kind}"
    return None


def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError:
        return None
    return Draft202012Validator
