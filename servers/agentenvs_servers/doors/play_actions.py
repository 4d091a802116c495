"""What a form of the playground says: an action, or a draft of one that is still being put together.

A turn of several calls is put together page by page: what was added stands in a hidden field of every form, so nothing
is kept anywhere, the back button takes a call away again, and a page sent twice adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.spec import EnvSpec, ToolSpec
from agentenvs_servers.doors import play_fields
from agentenvs_servers.doors.play_fields import Field, Sheet, Slip

ARGUMENT = "a."
"""Before the names of arguments in a form."""

RAW = "json"
"""Name of the field in which an action, or the arguments of a tool, are written as JSON."""


class Tool(NamedTuple):
    """A tool and its form."""

    spec: ToolSpec
    fields: tuple[Field, ...] | None
    """None where the arguments are written as JSON."""
    example: str
    """Arguments as JSON, where its author gave an example."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What stands in the forms of a page."""

    calls: tuple[JSON, ...] = ()
    """Calls that were added to this turn."""
    tool: str = ""
    """The tool whose form was sent."""
    sheet: Sheet = field(default_factory=lambda: Sheet(()))
    texts: Mapping[str, str] = field(default_factory=dict)
    """What else was written."""
    slip: str = ""
    """What is wrong, where it is not one field."""

    @property
    def wrong(self) -> bool:
        """Whether there is something that cannot be played."""
        return bool(self.slip or self.sheet.slips)

    @property
    def held(self) -> str:
        """The calls, for a hidden field."""
        return canonical(list(self.calls)) if self.calls else ""


EMPTY = Draft()


class Said(NamedTuple):
    """What a form says."""

    action: JSON
    draft: Draft | None
    """Shown instead of playing anything, where there is one."""


def tools_of(spec: EnvSpec) -> tuple[Tool, ...]:
    """Return the tools of a world, with the fields of their forms."""
    return tuple(
        Tool(
            tool,
            play_fields.of_schema(tool.parameters, tool.examples),
            canonical(dict(tool.examples[0])) if tool.examples else "",
        )
        for tool in spec.tools
    )


def said(spec: EnvSpec, form: Mapping[str, str]) -> Said:
    """Return what a form says.

    Args:
        spec: Of the world.
        form: Its fields.
    """
    do = form.get("do", "")
    texts = {name: form.get(name, "").replace("\r\n", "\n") for name in ("text", "message", "end", RAW)}
    try:
        calls = _held(form.get("calls", ""))
        if do in ("call", "add"):
            return _called(spec, form, calls, add=do == "add")
        if do.startswith("drop-"):
            at = do.removeprefix("drop-")
            return Said(None, Draft(tuple(call for number, call in enumerate(calls) if str(number) != at)))
        if do == RAW:
            return Said(play_fields.from_json(texts[RAW]), None)
    except Slip as slip:
        return Said(None, Draft(texts=texts, slip=str(slip)))
    if do == "calls":
        beside = {"text": texts["text"]} if texts["text"] else {}
        return Said({"calls": list(calls), **beside}, None)
    if do in ("message", "end"):
        return Said({do: texts[do]}, None)
    return Said(form.get("legal", texts["text"]).replace("\r\n", "\n"), None)


def _called(spec: EnvSpec, form: Mapping[str, str], calls: tuple[JSON, ...], *, add: bool) -> Said:
    name = form.get("tool", "")
    tool = next((tool for tool in tools_of(spec) if tool.spec.name == name), None)
    if tool is None:
        raise Slip("this world has no such tool")
    if tool.fields is None or RAW in form:
        values, sheet = _raw(form.get(RAW, ""))
    else:
        values, sheet = play_fields.read(tool.fields, form, ARGUMENT)
    if sheet.slips:
        return Said(None, Draft(calls, name, sheet))
    call = {"tool": name, "arguments": values}
    if add:
        return Said(None, Draft((*calls, call), name))
    return Said({"calls": [*calls, call]} if calls else call, None)


def _raw(text: str) -> tuple[JSON, Sheet]:
    one = Field(RAW, "json", required=True)
    values, sheet = play_fields.read((one,), {RAW: text}, "")
    value = values.get(RAW, {})
    if not sheet.slips and not isinstance(value, dict):
        return {}, Sheet((one,), sheet.texts, {RAW: 'an object is wanted: {"name": value}'})
    return value, sheet


def _held(text: str) -> tuple[JSON, ...]:
    """Return the calls of a hidden field."""
    if not text:
        return ()
    calls = play_fields.from_json(text)
    if not isinstance(calls, list):
        raise Slip("the calls of this turn cannot be read; begin it again")
    return tuple(calls)
