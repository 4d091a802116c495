"""The parts of a check by themselves: altered scenarios, schemas, differences, clocks."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentenvs.core import hosting
from agentenvs.core.task import SECRET
from agentenvs.core.turn import FAILURES
from agentenvs.harness.check import altering, schemas
from agentenvs.harness.check.episodes import difference
from agentenvs.harness.check.findings import UNDONE, short
from tests.check.broken.sound import SPEC, Boxes


@dataclass(frozen=True)
class Cup:
    color: str
    full: bool = field(default=False, metadata=SECRET)


@dataclass(frozen=True)
class Table:
    title: str
    cups: tuple[Cup, ...]
    hidden: dict[str, Any] = field(metadata=SECRET)
    weight: float = field(default=1.5, metadata=SECRET)


TABLE = Table("dinner", (Cup("red", True), Cup("blue")), {"goal": "red", "steps": [1, 2]})


def test_secret_fields_are_found_wherever_they_are():
    assert altering.secret_fields(TABLE) == ["cups.full", "hidden.goal", "hidden.steps", "weight"]


@pytest.mark.parametrize(
    ("path", "way", "value"),
    [
        ("cups.full", "rotate", (Cup("red"), Cup("blue", True))),
        ("cups.full", "shift +1", (Cup("red"), Cup("blue", True))),
        ("hidden.goal", "canary", {"goal": "canary_730000", "steps": [1, 2]}),
        ("hidden.steps", "rotate", {"goal": "red", "steps": [2, 1]}),
        ("hidden.steps", "shift +2", {"goal": "red", "steps": [3, 4]}),
        ("weight", "shift -1", 0.5),
        ("weight", "canary", None),
        ("weight", "rotate", None),
    ],
)
def test_a_field_is_altered_and_nothing_else(path, way, value):
    made = altering.altered(TABLE, path, way)
    if value is None:
        assert made is None
        return
    name = path.partition(".")[0]
    assert getattr(made, name) == value
    assert all(
        getattr(made, other) == getattr(TABLE, other)
        for other in ("title", "cups", "hidden", "weight")
        if other != name
    )


def test_a_scenario_that_cannot_be_read_back_is_none():
    @dataclass(frozen=True)
    class Strict:
        name: str = field(metadata=SECRET)

        def to_json(self) -> dict[str, str]:
            return {"name": self.name}

        @classmethod
        def from_json(cls, form: dict[str, str]) -> Strict:
            if " " not in form["name"]:
                raise ValueError("two words")
            return cls(**form)

    assert altering.altered(Strict("mug 1"), "name", "canary") == Strict("canary 730000")


def test_an_environment_may_name_its_own_twins():
    class Own(Boxes):
        def secret_twins(self, scenario):
            yield from (scenario, scenario)

    env = Own()
    assert altering.alterations(env, env.scenario("train", 0)) == [{"twin": 0}, {"twin": 1}]
    altering.alter(env, {"twin": 1})
    assert env.scenario("train", 0) == Boxes().scenario("train", 0)


@pytest.mark.parametrize("installed", [True, False])
def test_schemas_are_judged_with_and_without_jsonschema(monkeypatch, installed):
    if not installed:
        monkeypatch.setitem(sys.modules, "jsonschema", None)
    sound = SPEC.tools[0].parameters
    assert schemas.schema_fault(sound) is None
    assert schemas.schema_fault({"type": "string"}) == "its type is not object"
    assert schemas.schema_fault({"type": "object", "properties": [1]}) is not None
    assert schemas.schema_fault({"type": "object", "required": "box"}) is not None
    assert schemas.misfit(sound, {"box": 1}) is None
    for arguments in ({}, {"box": "1"}, {"box": True}, {"box": 1, "more": 2}):
        assert schemas.misfit(sound, arguments) is not None


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([{"a": 1}], [{"a": 1}], None),
        ([{"a": 1}], [{"a": 1}, {"a": 2}], "turn 1, number of turns: 1 against 2"),
        ([{"a": {"b": [1, 2]}}], [{"a": {"b": [1, 3]}}], "turn 0, a.b[1]: 2 against 3"),
        ([{"a": 1}], [{"b": 1}], "turn 0, a: 1 against None"),
        ([{"a": 1}], [{"a": 1.0}], "turn 0, a: 1 against 1.0"),
        ([{"a": "Zürich"}], [{"a": "Zürs"}], "turn 0, a from byte 4: 'Zürich' against 'Zürs'"),
    ],
)
def test_a_difference_names_turn_field_and_byte(first, second, words):
    found = difference(first, second)
    assert (None if found is None else str(found)) == words


def test_messages_are_short_and_printable():
    assert short("a\x1b[2J\ud800") == "a\\x1b[2J\\xd800"
    assert short("x" * 500) == "x" * 120 + "…"


def test_clocks_are_set_ahead_before_anybody_reads_them():
    code = (
        "from agentenvs.harness.check.clocks import set_ahead\n"
        "import datetime, json, time\n"
        "before = time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic_ns() / 1e9\n"
        "set_ahead(1000)\n"
        "after = time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic_ns() / 1e9\n"
        "print(json.dumps([round((b - a) / 100) for a, b in zip(before, after)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [10, 10, 10]


def test_calendars_are_set_ahead_too_and_a_class_may_keep_a_clock():
    code = (
        "from agentenvs.harness.check.clocks import set_ahead\n"
        "import time\n"
        "def years():\n"
        "    return [time.localtime().tm_year, time.gmtime(None).tm_year, int(time.ctime()[-4:]),\n"
        "            int(time.asctime()[-4:]), int(time.strftime('%Y'))]\n"
        "before = years()\n"
        "set_ahead(3 * 366 * 86_400)\n"
        "assert [late - early for early, late in zip(before, years())] == [3] * 5, (before, years())\n"
        "assert time.gmtime(0).tm_year == 1970 and time.strftime('%Y', time.gmtime(0)) == '1970'\n"
        "class Keeper:\n"
        "    clock = time.monotonic\n"
        "Keeper().clock()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_failure_of_an_environment_has_words():
    assert set(UNDONE) == FAILURES
    assert set(hosting._WORDS) == FAILURES - {"engine_failed"}
