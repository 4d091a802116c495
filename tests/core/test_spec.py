"""Specs: what they refuse, how options are resolved, and that they go to JSON and back."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.canon import canonical
from agentenvs.core.errors import ContractError, OptionError
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec, parse_id
from tests.core.toy import WALK, Toy

_FULL = replace(
    Toy.spec,
    options=(
        *Toy.spec.options,
        OptionSpec("mode", "str", "easy", "How hard.", choices=("easy", "hard")),
        OptionSpec("share", "float", 0.5, "A part.", minimum=0),
    ),
    splits=(*Toy.spec.splits, SplitSpec("sealed", 9, "Kept.", sealed=True, panel="ab")),
    capabilities=Capabilities(deterministic=False, execution="process", step_seconds=2.5),
    players={"oracle": "a:b"},
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Toy"}, "'Toy' is no environment id\n  fix: ids look like namespace/Name-v0"),
        ({"tools": (replace(WALK, name="reset"),)}, "toytests/Toy-v0: the tool name 'reset' is reserved"),
        ({"tools": (WALK, WALK)}, "toytests/Toy-v0: two tools share a name"),
        ({"max_calls": 0}, "toytests/Toy-v0: max_calls must be at least 1"),
        ({"default_split": "dev"}, "toytests/Toy-v0: the default split 'dev' is none of its splits"),
        ({"eval_split": "dev"}, "toytests/Toy-v0: the split for evaluations 'dev' is none of its splits"),
    ],
)
def test_what_no_protocol_could_carry_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError) as caught:
        replace(Toy.spec, **change)
    assert message in str(caught.value)


@pytest.mark.parametrize("spec", [Toy.spec, _FULL], ids=["toy", "full"])
def test_to_json_and_back(spec: EnvSpec) -> None:
    assert EnvSpec.from_json(json.loads(canonical(spec.to_json()))) == spec


@pytest.mark.parametrize(
    "form", [{}, {**Toy.spec.to_json(), "colour": "red"}, {**Toy.spec.to_json(), "tools": [{"name": "x"}]}]
)
def test_json_that_is_no_spec(form: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="this JSON is no environment spec\n  why: "):
        EnvSpec.from_json(form)


def test_defaults_are_filled_in() -> None:
    assert _FULL.resolve({"limit": 2, "share": 1}) == {
        "shaping": False,
        "admissible": False,
        "limit": 2,
        "folder": None,
        "mode": "easy",
        "share": 1,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"speed": 1},
            "AE103 toytests/Toy-v0 has no option 'speed'\n"
            "  fix: its options: shaping, admissible, limit, folder, mode, share",
        ),
        (
            {"limit": "2"},
            "AE103 option 'limit' does not take '2'\n  why: it is a int\n  fix: default: 6",
        ),
        ({"limit": True}, "AE103 option 'limit' does not take True\n  why: it is a int\n  fix: default: 6"),
        ({"limit": None}, "AE103 option 'limit' does not take None\n  why: it is a int\n  fix: default: 6"),
        ({"limit": -1}, "AE103 option 'limit' does not take -1\n  fix: the least is 0"),
        ({"shaping": 1}, "AE103 option 'shaping' does not take 1\n  why: it is a bool\n  fix: default: False"),
        ({"mode": "odd"}, "AE103 option 'mode' does not take 'odd'\n  fix: choose one of: easy, hard"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        _FULL.resolve(options)
    assert str(caught.value) == message


def test_an_environment_without_options_says_so() -> None:
    with pytest.raises(OptionError, match="its options: none"):
        replace(Toy.spec, options=()).resolve({"x": 1})


@pytest.mark.parametrize(
    "change", [{"title": "T"}, {"description": "D"}, {"entry_point": "a:b"}, {"players": {"a": "b:c"}}, {"since": "1"}]
)
def test_the_digest_ignores_prose(change: dict[str, Any]) -> None:
    assert replace(Toy.spec, **change).digest == Toy.spec.digest


@pytest.mark.parametrize(
    "change",
    [
        {"release": "4"},
        {"max_calls": 3},
        {"budgets": {"steps": 7}},
        {"tools": ()},
        {"gamma": 1.0},
        {"capabilities": Capabilities(rewards="step")},
        {"tools": (ToolSpec("walk", "Walks.", {}),)},
    ],
)
def test_the_digest_is_of_behaviour(change: dict[str, Any]) -> None:
    assert replace(Toy.spec, **change).digest != Toy.spec.digest


@pytest.mark.parametrize(
    ("env_id", "parts"),
    [
        ("agentenvs/Household-v0", ("agentenvs", "Household", 0)),
        ("Toy-v12", ("", "Toy", 12)),
        ("a.b-c/X_1.y-v3", ("a.b-c", "X_1.y", 3)),
    ],
)
def test_parse_id(env_id: str, parts: tuple[str, str, int]) -> None:
    assert parse_id(env_id) == parts


@pytest.mark.parametrize(
    "env_id", ["", "Toy", "a/Toy", "a/b/Toy-v0", "a/1Toy-v0", "a/Toy-v", "a/Toy-vx", "a/Toy-v0 ", "a/Toy-v0\n"]
)
def test_no_id(env_id: str) -> None:
    with pytest.raises(ContractError, match="is no environment id"):
        parse_id(env_id)


def test_a_digest_is_that_of_the_spec_it_is_asked_of():
    one = registry.spec("household")
    other = replace(one, max_calls=one.max_calls + 1)
    assert one.digest == one.digest == EnvSpec.from_json(one.to_json()).digest != other.digest
    assert pickle.loads(pickle.dumps(other)).digest == other.digest
    assert replace(other, max_calls=one.max_calls).digest == one.digest
    assert "_digest" not in one.to_json()
