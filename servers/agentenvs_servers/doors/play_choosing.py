"""Choosing what to play: a world's page, and the create that its form asks for."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import orjson

from agentenvs.core.canon import JSON
from agentenvs.core.spec import SplitSpec
from agentenvs_servers.doors import pages, play_fields
from agentenvs_servers.doors.play_fields import Field, Sheet
from agentenvs_servers.doors.play_gate import PATH
from agentenvs_servers.doors.seats import MOST_SEED
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import CreateBody, TaskBody
from agentenvs_servers.worlds import World

PATIENCE = 3_600
"""Seconds that a person may think; a program has the server's idle time."""

MENDED = frozenset({"task_unknown", "option_refused", "invalid_request", "environment_failed"})
"""Problems of a create that another choice may mend."""

OPTION = "o."
"""Before the names of options in a form."""

_KEY = re.compile(r"[\w-]{8,64}", re.ASCII)
_MOST_DIGITS = 15


class Sheets(NamedTuple):
    """The form of a world."""

    scenario: Sheet
    options: Sheet


class Chosen(NamedTuple):
    """What a form chooses."""

    body: CreateBody | None
    """None where there is a slip in it."""
    sheets: Sheets


def new_key() -> str:
    """Return a key for the forms of a page: what is sent twice is done once."""
    return secrets.token_urlsafe(12)


def key_of(fields: Mapping[str, str]) -> str:
    """Return the key of a form.

    Raises:
        ProblemError: ``invalid_request``.
    """
    if not _KEY.fullmatch(key := fields.get("key", "")):
        raise ProblemError("invalid_request", "the form of a page is wanted: its key", fix="send the form of a page")
    return f"play-{key}"


def number_of(text: str) -> int | None:
    """Return a number that stands in a form or an address; None where there is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def splits_of(world: World) -> list[SplitSpec]:
    """Return the splits that may be played by hand."""
    return [split for split in world.splits.values() if not split.sealed and split.size != 0]


def _fields(world: World) -> tuple[Field, ...]:
    splits = splits_of(world)
    names = [split.name for split in splits]
    start = world.spec.default_split if world.spec.default_split in names else "".join(names[:1])
    sizes = "; ".join(
        f"{split.name}: {'any whole number is a scenario' if split.size is None else f'0 to {split.size - 1}'}"
        for split in splits
    )
    return (
        Field("split", "choice", "", True, tuple((name, name) for name in names), start=start),
        Field("index", "whole", sizes, True, least=0, start="0"),
    )


def _options(world: World) -> tuple[Field, ...]:
    return play_fields.of_options(world.spec.options, world.public_options)


def offered(world: World, query: Mapping[str, str]) -> Sheets:
    """Return the form of a world, with what an address says already written in it."""
    scenario, options = _fields(world), _options(world)
    return Sheets(
        Sheet(scenario, {one.name: query[one.name] for one in scenario if one.name in query}),
        Sheet(options, {one.name: query[OPTION + one.name] for one in options if OPTION + one.name in query}),
    )


def chosen(world: World, form: Mapping[str, str], most_ttl: int) -> Chosen:
    """Return what a form chooses.

    Args:
        world: Of which world.
        form: What was sent.
        most_ttl: The longest idle time that may be asked for.

    Raises:
        ProblemError: ``invalid_request``.
    """
    key = key_of(form)
    where, scenario = play_fields.read(_fields(world), form, "")
    values, options = play_fields.read(_options(world), form, OPTION)
    if form.get("do") == "random" and "split" in where:
        # Drawn from the form's key, so that a form that is sent twice begins one episode.
        size = world.splits[str(where["split"])].size or MOST_SEED
        where["index"] = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % size
        scenario = replace(scenario, slips={})
    sheets = Sheets(scenario, options)
    if scenario.slips or options.slips:
        return Chosen(None, sheets)
    body = CreateBody(
        env=world.spec.id,
        key=key,
        task=TaskBody(split=str(where["split"]), index=int(where["index"])),
        options=_changed(world, values),
        ttl=min(PATIENCE, most_ttl),
    )
    return Chosen(body, sheets)


def _changed(world: World, values: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the options that are not what this server plays with in any case."""
    known = world.public_options
    floats = {option.name for option in world.spec.options if option.type == "float"}
    typed = {name: float(value) if name in floats else value for name, value in values.items()}
    return {name: value for name, value in typed.items() if name not in known or known[name] != value}


def page(world: World, sheets: Sheets, problem: ProblemError | None = None, status: int = 200) -> Answer:
    """Return the page of a world.

    Args:
        world: Which.
        sheets: The form.
        problem: Why the last choice was refused.
        status: Of the answer.
    """
    form = None if problem is None else orjson.loads(problem.body)
    return pages.page(
        "play_world.html.j2",
        status=status,
        world=world,
        spec=world.spec,
        splits=splits_of(world),
        sealed=[split for split in world.splits.values() if split.sealed],
        sheets=sheets,
        refused=form,
        key=new_key(),
        path=PATH,
    )
