"""Whatever a model says becomes an action that can be played, recorded and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenvs.core.actions import (
    MAX_RAW,
    Calls,
    End,
    Malformed,
    Message,
    ToolCall,
    calls_of,
    parse_action,
    to_json,
)
from agentenvs.core.canon import canonical_bytes

_TEXT = st.text(st.characters(codec=None), max_size=12)  # lone surrogates too
_KEYS = st.sampled_from(["tool", "arguments", "calls", "text", "message", "end", "malformed", "why"]) | _TEXT
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(1200, 5000).map(lambda digits: 10**digits)  # Python refuses to spell the longer ones
    | st.floats()
    | _TEXT
    | st.binary(max_size=6)
    | st.builds(object)
    | st.builds(ToolCall, _TEXT, st.dictionaries(_TEXT, st.integers(), max_size=2))
)
_ANYTHING = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(_KEYS, inner, max_size=4)
        | st.dictionaries(st.integers() | st.binary(max_size=3), inner, max_size=2)
        | st.builds(ToolCall, inner, inner)
        | st.builds(Calls, inner, inner)
        | st.builds(Message, inner)
        | st.builds(End, inner)
        | st.builds(Malformed, inner, inner)
    ),
    max_leaves=12,
)


def _held(raw: Any) -> Any:
    """Parse, and hold the three promises: no exception, a JSON form, a fixed point."""
    action = parse_action(raw)
    form = to_json(action)
    assert parse_action(form) == action
    assert json.loads(canonical_bytes(form)) == form
    return action


@settings(max_examples=400, deadline=None)
@given(_ANYTHING)
def test_anything_becomes_an_action_that_reads_back(raw: Any) -> None:
    _held(raw)


def _nested(wrap: Any, depth: int = 20_000) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = wrap(value)
    return value


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append({"calls": cycle})
    return cycle


@pytest.mark.parametrize(
    "raw",
    [
        _nested(lambda inner: [inner]),
        _nested(lambda inner: {"calls": [inner]}),
        {"tool": "add", "arguments": _nested(lambda inner: {"a": inner})},
        {"malformed": _nested(lambda inner: [inner]), "why": _nested(lambda inner: [inner])},
        _cycle(),
        {"malformed": 1, "why": 10**5000},
        {"tool": "add", 10**5000: 1},
        Malformed(1, 10**5000),  # type: ignore[arg-type]
        Calls((10**5000,)),  # type: ignore[arg-type]
        Calls(None),  # type: ignore[arg-type]
        {"calls": [ToolCall(5, {})]},  # type: ignore[arg-type]
    ],
    ids=["list", "calls", "arguments", "malformed", "cycle", "why", "key", "class-why", "number", "none", "name"],
)
def test_hostile_shapes_are_malformed(raw: Any) -> None:
    action = _held(raw)
    assert isinstance(action, Malformed)
    assert len(canonical_bytes(to_json(action))) < 1000


@pytest.mark.parametrize(
    ("raw", "action"),
    [
        ("go to fridge 1", "go to fridge 1"),
        ("", ""),
        ("kr\u00f6te \udc80", "kröte ?"),
        ({"tool": "add"}, ToolCall("add", {})),
        ({"tool": "add", "arguments": {"by": (1, 2)}}, ToolCall("add", {"by": [1, 2]})),
        ({"message": "Hello."}, Message("Hello.")),
        ({"end": True}, End()),
        ({"end": None}, End()),
        ({"end": "done"}, End("done")),
        ([{"tool": "add"}], Calls((ToolCall("add", {}),))),
        ({"calls": [ToolCall("add")], "text": "so"}, Calls((ToolCall("add", {}),), "so")),
        (Calls((ToolCall("add", {"x": 1}),)), Calls((ToolCall("add", {"x": 1}),))),
        (End("\ud800"), End("?")),
    ],
)
def test_forms(raw: Any, action: Any) -> None:
    assert _held(raw) == action


_REASONS: list[tuple[Any, str]] = [
    (None, "a NoneType is no action"),
    (7, "a int is no action"),
    (b"add", "a bytes is no action"),
    (object(), "a object is no action"),
    ({}, "an object with none of the keys tool, calls, message, end, malformed"),
    ({"tool": 1}, "the name of a tool is a string"),
    ({"tool": "add", "arguments": [1]}, "the arguments of a tool call are an object"),
    ({"tool": "add", "args": {}}, "a tool call has tool and arguments, not 'args'"),
    (
        {"tool": "add", "arguments": {"x": float("nan")}},
        "the arguments are nested too deeply, too long, or no JSON",
    ),
    ({"tool": "add", "arguments": {"x": "y" * MAX_RAW}}, "the arguments are nested too deeply, too long, or no JSON"),
    ({"calls": {}}, "calls is a list, text a string"),
    ({"calls": [{"tool": "add"}], "text": 3}, "calls is a list, text a string"),
    (["add"], "a list of calls holds something that is no tool call"),
    (Calls(("add",)), "a list of calls holds something that is no tool call"),  # type: ignore[arg-type]
    ([], "an empty list of calls"),
    ({"message": 1}, "a message is a string"),
    ({"end": 1}, "the reason of an end is a string"),
    ({"malformed": "x", "why": "the reply was empty"}, "the reply was empty"),
    (Calls(5), "a Calls with fields of the wrong type"),  # type: ignore[arg-type]
    (ToolCall("add", 5), "a ToolCall with fields of the wrong type"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("raw", "why"), _REASONS, ids=range(len(_REASONS)))
def test_every_reason(raw: Any, why: str) -> None:
    action = _held(raw)
    assert isinstance(action, Malformed)
    assert action.why == why


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (float("inf"), "inf"),
        (b"\x00", "b'\\x00'"),
        ({1: 2}, "{1: 2}"),
        ([float("nan"), 10**5000], "<list>"),
        ({1, 2}, "<set>"),
    ],
)
def test_what_is_no_json_is_kept_as_its_spelling(raw: Any, kept: str) -> None:
    action = _held({"malformed": raw, "why": "junk"})
    assert action == Malformed(kept, "junk")


@pytest.mark.parametrize("raw", ["y" * (MAX_RAW + 9), ["y" * 100] * 1000], ids=["text", "list"])
def test_long_junk_is_cut(raw: Any) -> None:
    action = _held({"malformed": raw, "why": "z" * (2 * MAX_RAW)})
    assert isinstance(action, Malformed)
    assert action.raw[MAX_RAW:] == "…"
    assert action.why[MAX_RAW:] == "…"


@pytest.mark.parametrize(
    ("raw", "count"),
    [("add", 0), (End(), 0), (ToolCall("add"), 1), ([{"tool": "add"}] * 3, 3), (None, 0)],
)
def test_calls_of(raw: Any, count: int) -> None:
    assert calls_of(parse_action(raw)) == (ToolCall("add", {}),) * count


@pytest.mark.parametrize(
    "raw",
    ["x" * (MAX_RAW + 1), {"message": "x" * 3 * MAX_RAW}, {"tool": "t" * 3 * MAX_RAW}, [{"tool": "look"}] * MAX_RAW],
    ids=["text", "message", "tool", "calls"],
)
def test_an_action_that_would_fill_a_record_is_malformed_and_cut(raw):
    action = parse_action(raw)
    assert isinstance(action, Malformed)
    assert "characters" in action.why
    assert len(canonical_bytes(to_json(action))) < 2 * MAX_RAW
    assert parse_action(to_json(action)) == action


def test_no_address_of_an_object_gets_into_a_record():
    action = parse_action([object()])
    assert isinstance(action, Malformed)
    assert " at 0x" not in str(action)
