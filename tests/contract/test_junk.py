"""Nonsense of every kind is a turn: never an exception, never a change of the world."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay
from tests.contract.conftest import CASES

_CASES = {case.name: case for case in CASES if case.name in ("household-compat", "ledger", "clerk", "slow_tool")}

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_CALLS = st.fixed_dictionaries({"tool": st.text(max_size=12) | st.integers(), "arguments": _JSON})
_KNOWN = st.sampled_from(
    [tool.name for case in _CASES.values() for tool in registry.spec(case.env).tools if tool.name != "close_books"]
)
_WRONG = st.fixed_dictionaries(
    {"tool": _KNOWN, "arguments": st.dictionaries(st.text(min_size=1, max_size=8), _JSON, min_size=4)}
)
_MIXED = st.fixed_dictionaries({"message": st.none() | st.integers() | st.lists(st.text(max_size=3))})
_JUNK = _JSON | _CALLS | _WRONG | _MIXED | st.lists(_CALLS, min_size=1, max_size=12) | st.binary(max_size=30)

_HARD: list[Any] = [
    "",
    "\n",
    "look\nlook",
    "LOOK",
    "lооk",  # noqa: RUF001 - Cyrillic letters that look like Latin ones
    "look\u200b",
    "\ud800",
    "x" * 1_000_000,
    "{" * 10_000,
    float("nan"),
    float("inf"),
    2**100_000,
    None,
    b"look",
    object(),
    {1: 2},
    {"tool": "take"},
    {"tool": "take", "arguments": "apple 1"},
    {"tool": ["take"], "arguments": {}},
    {"tool": "take", "arguments": {"object": {"a": []}, "receptacle": None}},
    {"tool": "reset", "arguments": {}},
    {"tool": "__class__", "arguments": {}},
    {"calls": []},
    {"calls": "many"},
    {"end": 7},
    {"message": {"text": "hi"}},
    [[]],
    [None],
    {"tool": "go_to", "arguments": {"receptacle": "fridge 1", "extra": 1}},
    {"malformed": "by hand", "why": "to see"},
]


def _is_junk_turn(env, action) -> None:
    key = env.state_key
    result = env.step(action)
    assert result.info["invalid"] is True, action
    assert env.state_key == key, action
    assert not result.terminated


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("number", range(len(_HARD)))
def test_hard_junk_is_a_turn(name, number):
    case = _CASES[name]
    env = case.make()
    try:
        env.reset(case.ref())
        _is_junk_turn(env, _HARD[number])
        assert env.turn == 1
    finally:
        env.close()


@pytest.mark.parametrize("name", ["household-compat", "ledger", "clerk"])
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(_JUNK, min_size=1, max_size=6))
def test_any_junk_is_recorded_and_replays(name, actions):
    case = _CASES[name]
    recorded = Recorded(case.make())
    recorded.reset(case.ref())
    for action in actions:
        if recorded.env.ending is None:
            key = recorded.env.state_key
            result = recorded.step(action)
            assert canonical_bytes(result.observation.to_json())
            assert not result.info["invalid"] or recorded.env.state_key == key
    recorded.finish("abandoned")
    report = replay(parse_records(recorded.to_bytes())[0], case.make())
    assert report.equal, str(report.divergence)
