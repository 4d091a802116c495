"""Forms made of schemas, and values read back from them: arguments of a tool, options of an environment.

A field is one argument. Texts, whole and other numbers, choices and lists of plain items have fields of their own;
whatever is nested is written as JSON. What is left empty and need not be given is left out. A slip of a person's (no
number where one is wanted) is told beside the field, and nothing is played; what a schema forbids otherwise is left to
the world to judge, as it judges a model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.spec import OptionSpec
from agentenvs_servers import bodies
from agentenvs_servers.problems import ProblemError

Kind: TypeAlias = Literal["line", "text", "whole", "number", "choice", "list", "json"]

_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_LONG = 200
"""Characters from which on a text may have lines."""
_PLAIN = {"string": "line", "integer": "whole", "number": "number"}
_MOST_REFERENCES = 16


class Slip(Exception):
    """What was written in a field cannot be what is wanted there; the words are for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form."""

    name: str
    kind: Kind
    said: str = ""
    """What it is for."""
    required: bool = False
    choices: tuple[tuple[str, JSON], ...] = ()
    """What may be chosen: as it is written, and as it is."""
    item: Kind = "line"
    """Of a list, what each line is."""
    least: float | None = None
    most: float | None = None
    start: str = ""
    """What stands in it before anybody writes."""
    example: str = ""
    """What might stand in it."""

    def read(self, text: str) -> JSON:
        """Return the value of what was written.

        Raises:
            Slip: It is none.
        """
        if self.kind == "choice":
            return self._chosen(text)
        if self.kind == "list":
            return [_value(self.item, line.strip()) for line in text.split("\n") if line.strip()]
        return _value(self.kind, text)

    def _chosen(self, text: str) -> JSON:
        for written, value in self.choices:
            if written == text:
                return value
        raise Slip("choose one of the list")

    def written(self, value: JSON) -> str:
        """Return a value as it is written in the field."""
        if self.kind in ("line", "text") and isinstance(value, str):
            return value
        if self.kind == "list" and isinstance(value, list):
            return "\n".join(item if isinstance(item, str) else canonical(item) for item in value)
        if self.kind == "choice":
            return next((written for written, known in self.choices if _same(known, value)), "")
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Fields, what was written in them, and what is wrong with that."""

    fields: tuple[Field, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    slips: Mapping[str, str] = field(default_factory=dict)

    def text(self, one: Field) -> str:
        """Return what stands in a field."""
        return self.texts.get(one.name, one.start)


def read(fields: Sequence[Field], form: Mapping[str, str], before: str) -> tuple[dict[str, JSON], Sheet]:
    """Return the values of a form, and the form as it was sent.

    Args:
        fields: Its fields.
        form: What was sent.
        before: What stands before the names of its fields there.
    """
    values: dict[str, JSON] = {}
    texts: dict[str, str] = {}
    slips: dict[str, str] = {}
    for one in fields:
        text = texts[one.name] = form.get(before + one.name, one.start).replace("\r\n", "\n")
        if text == "" and (not one.required or one.kind not in ("line", "text")):
            if one.required:
                slips[one.name] = "something is wanted here"
            continue
        try:
            values[one.name] = one.read(text)
        except Slip as slip:
            slips[one.name] = str(slip)
    return values, Sheet(tuple(fields), texts, slips)


def of_schema(schema: Mapping[str, JSON], examples: Iterable[Mapping[str, JSON]] = ()) -> tuple[Field, ...] | None:
    """Return the fields of a tool's arguments; None where they can only be written as JSON.

    Args:
        schema: JSON Schema of the arguments object.
        examples: Arguments as a player would write them.
    """
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping) or not all(isinstance(part, Mapping) for part in properties.values()):
        return None
    if not properties and schema.get("additionalProperties", False) is not False:
        return None
    required = schema.get("required", ())
    if not isinstance(required, list | tuple) or not isinstance(schema.get("$defs", {}), Mapping):
        return None
    first: Mapping[str, JSON] = next(iter(examples), {})
    return tuple(_field(name, part, schema, name in required, first.get(name)) for name, part in properties.items())


def of_options(options: Iterable[OptionSpec], values: Mapping[str, JSON]) -> tuple[Field, ...]:
    """Return the fields of what a caller may set of an environment.

    Args:
        options: As the environment declares them; those of the machine are left out.
        values: What is played with where nothing is chosen.
    """
    return tuple(_option(one, values.get(one.name, one.default)) for one in options if not one.secret)


def _option(one: OptionSpec, value: JSON) -> Field:
    kinds: dict[str, Kind] = {"bool": "choice", "int": "whole", "float": "number", "str": "line"}
    kind: Kind = "choice" if one.choices else kinds[one.type]
    choices: tuple[tuple[str, JSON], ...] = tuple((choice, choice) for choice in one.choices)
    if one.type == "bool":
        choices = (("no", False), ("yes", True))
    made = Field(one.name, kind, one.description, value is not None, choices, least=one.minimum)
    return made if value is None else replace(made, start=made.written(value))


def _field(name: str, part: Mapping[str, JSON], root: Mapping[str, JSON], required: bool, example: JSON) -> Field:
    part = _resolved(part, root)
    kind, choices, item = _kind(part, root)
    made = Field(name, kind, choices=choices, item=item)
    examples = part.get("examples")
    if example is None and isinstance(examples, list) and examples:
        example = examples[0]
    return Field(
        name,
        kind,
        str(part.get("description", "")),
        required,
        choices,
        item,
        _bound(part.get("minimum")),
        _bound(part.get("maximum")),
        made.written(part["default"]) if part.get("default") is not None and required else "",
        "" if example is None or choices else made.written(example),
    )


def _kind(part: Mapping[str, JSON], root: Mapping[str, JSON]) -> tuple[Kind, tuple[tuple[str, JSON], ...], Kind]:
    """Return what kind of field a schema needs, what may be chosen in it, and what the items of a list are."""
    if (choices := _choices(part)) is not None:
        return "choice", choices, "line"
    kind = part.get("type")
    if kind == "string":
        most = part.get("maxLength")
        lines = isinstance(most, int) and most > _LONG and part.get("contentMediaType") is not None
        return ("text" if lines else "line"), (), "line"
    if kind in ("integer", "number"):
        return ("whole" if kind == "integer" else "number"), (), "line"
    if kind == "array" and isinstance(part.get("items"), Mapping):
        item = _resolved(part["items"], root).get("type")
        if isinstance(item, str) and item in _PLAIN:
            plain: Kind = _PLAIN[item]  # type: ignore[assignment]
            return "list", (), plain
    return "json", (), "line"


def _choices(part: Mapping[str, JSON]) -> tuple[tuple[str, JSON], ...] | None:
    if part.get("type") == "boolean":
        return (("yes", True), ("no", False))
    found = part.get("enum") if "const" not in part else [part["const"]]
    if not isinstance(found, list) or not found:
        return None
    texts = all(isinstance(value, str) for value in found)
    return tuple((value if texts else canonical(value), value) for value in found)


def _resolved(part: Mapping[str, JSON], root: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a schema without references and without "or null", which for a form means: may be left out."""
    for _ in range(_MOST_REFERENCES):
        if isinstance(reference := part.get("$ref"), str) and reference.startswith("#/$defs/"):
            found = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        elif isinstance(several := part.get("anyOf", part.get("oneOf")), list):
            rest = [each for each in several if isinstance(each, Mapping) and each.get("type") != "null"]
            found = rest[0] if len(rest) == 1 else None
        elif isinstance(kinds := part.get("type"), list):
            left = [kind for kind in kinds if kind != "null"]
            return {**part, "type": left[0]} if len(left) == 1 else {**part, "type": None}
        else:
            return part
        if not isinstance(found, Mapping):
            return {"description": part.get("description", "")}
        kept = {name: part[name] for name in ("description", "default", "examples") if name in part}
        part = {**found, **kept}
    return {}


def _value(kind: Kind, text: str) -> JSON:
    """Return the value of a plain field.

    Raises:
        Slip: It is none.
    """
    if kind in ("line", "text"):
        return text
    if kind == "whole":
        if not _WHOLE.fullmatch(text.strip()):
            raise Slip("a whole number is wanted")
        return int(text)
    if kind == "number":
        return _number(text)
    return from_json(text)


def _number(text: str) -> float | int:
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        raise Slip("a number is wanted") from None
    if not math.isfinite(value):
        raise Slip("a number is wanted")
    return value


def from_json(text: str) -> JSON:
    """Return a value that was written as JSON.

    Raises:
        Slip: It is none.
    """
    try:
        return bodies.loads(text.encode("utf-8", "replace"))
    except ProblemError as problem:
        raise Slip(f"that is no JSON: {problem.detail}") from problem


def _bound(value: JSON) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _same(one: JSON, other: JSON) -> bool:
    return type(one) is type(other) and bool(one == other)
