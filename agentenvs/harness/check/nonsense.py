"""Junk: what a model may say that is no action, as a list of hard cases and as strategies for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentenvs.core.actions import Action, Calls, Malformed, ToolCall, calls_of, parse_action
from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec, ToolSpec
from agentenvs.harness.check import schemas

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\n",
    "\t\r\n\x0b",
    "\x00",
    "\x1b[2J\x07\x7f",
    "\ud800",
    "look\udfff",
    "\ufefflook",
    "l\u043e\u043ek",
    "\uff4c\uff4f\uff4f\uff4b",
    "look\u200b",
    "\u202elook",
    "e\u0301" * 40,
    "\U0001f600" * 300,
    "\u00b2",
    "\u0661\u0662",
    "LOOK AT EVERYTHING",
    "look\nlook\nlook",
    "x" * 70_000,
    "x " * 2_000_000,
    "{" * 10_000,
    "[" * 100_000,
    '{"tool": "',
    "%s%n%x{0}{self.world}",
    "__class__",
    "'; DROP TABLE worlds; --",
    "-1",
    "1e999",
    "NaN",
)

_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    2**100_000,
    3.5,
    float("nan"),
    float("inf"),
    b"look",
    object(),
    (),
    [],
    [[]],
    [None],
    {},
    {1: 2},
    {"no": "action"},
    {"tool": None},
    {"tool": ["a"], "arguments": {}},
    {"tool": "", "arguments": {}},
    {"tool": "no_such_tool", "arguments": {}},
    {"tool": "reset", "arguments": {}},
    {"tool": "close", "arguments": {}},
    {"tool": "__class__", "arguments": {}},
    {"tool": "\ud800", "arguments": {"\ud800": "\udfff"}},
    {"calls": []},
    {"calls": "many"},
    {"calls": [[{"calls": []}]]},
    {"calls": [{"tool": "no_such_tool"}, 7]},
    {"message": 7},
    {"message": None},
    {"message": ["a"]},
    {"message": {"text": "hi"}},
    {"end": 7},
    {"end": ["done"]},
    {"malformed": "by hand", "why": "to see"},
    {"malformed": {"deep": [[[[]]]]}, "why": None},
)

_BAD_ARGUMENTS: tuple[Any, ...] = (
    None,
    "text",
    7,
    [],
    {"": ""},
    {"no_such_argument": 1},
    {"self": 1},
    {"__class__": 1},
    {"a": {"b": {"c": [1, [2, [3]]]}}},
)

_BAD_VALUES: tuple[JSON, ...] = (
    None, True, -1, 2**64, 1.5, "", "\x00", "no such thing", "\u00b2", [], ["a"], {}, {"a": []}, "x" * 5_000,
)  # fmt: skip


def hard_cases(spec: EnvSpec) -> list[Any]:
    """Return the hard cases for an environment: junk of every kind, and calls of its tools that do not fit."""
    deep: Any = "core"
    for _ in range(200):
        deep = {"a": [deep]}
    cases = [*_TEXTS, *_VALUES, deep, {"tool": "no_such_tool", "arguments": deep}]
    for tool in spec.tools:
        cases += [{"tool": tool.name, "arguments": bad} for bad in _BAD_ARGUMENTS]
        cases += [{"tool": tool.name.upper(), "arguments": {}}, {"tool": f"{tool.name} ", "arguments": {}}]
        cases += _wrong_values(tool)
    cases.append([{"tool": "no_such_tool", "arguments": {}}] * (spec.max_calls + 1))
    return [case for case in cases if is_junk(spec, case)]


def _wrong_values(tool: ToolSpec) -> list[Any]:
    example = dict(tool.examples[0]) if tool.examples else {}
    cases: list[Any] = []
    for name in example:
        cases += [{"tool": tool.name, "arguments": {**example, name: value}} for value in _BAD_VALUES]
        cases.append({"tool": tool.name, "arguments": {key: example[key] for key in example if key != name}})
    cases.append({"tool": tool.name, "arguments": {**example, "no_such_argument": 1}})
    return cases


def is_junk(spec: EnvSpec, raw: Any) -> bool:
    """Whether this may be tried on an environment: all but plain calls of its tools.

    Text, messages and calls with odd values may mean something; they must not raise, and nothing more. A world in a
    worker process may have tools that block or crash when told to; of these no call that fits is tried.
    """
    calls = calls_of(parse_action(raw))
    if spec.capabilities.execution == "process":
        return not any(_fits(spec, call) for call in calls)
    return not calls or any(call.arguments for call in calls) or not any(_fits(spec, call) for call in calls)


def must_be_refused(spec: EnvSpec, action: Action) -> bool:
    """Whether an action cannot be valid whatever the world is: no action, another kind, too many or unknown calls."""
    if isinstance(action, Malformed):
        return True
    if isinstance(action, Calls) and len(action.calls) > spec.max_calls:
        return True
    calls = calls_of(action)
    known = {tool.name for tool in spec.tools}
    if calls:
        return "tool" not in spec.accepts or all(call.tool not in known for call in calls)
    return ("text" if isinstance(action, str) else type(action).__name__.lower()) not in spec.accepts


def _fits(spec: EnvSpec, call: ToolCall) -> bool:
    tools = [tool for tool in spec.tools if tool.name == call.tool]
    return any(schemas.misfit(tool.parameters, call.arguments) is None for tool in tools)


def strategy(spec: EnvSpec) -> SearchStrategy[Any]:
    """Return a strategy of junk for an environment."""
    from hypothesis import strategies as st

    text = st.text(st.characters(exclude_categories=()), max_size=60)
    leaf = st.none() | st.booleans() | st.integers() | st.floats() | text
    value = st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=10,
    )
    names: Sequence[str] = [tool.name for tool in spec.tools]
    tool = (st.sampled_from(names) | text) if names else text
    call = st.fixed_dictionaries({"tool": tool | st.integers(), "arguments": value})
    named = st.fixed_dictionaries({"tool": tool, "arguments": _arguments(spec, value)})
    kinds: list[SearchStrategy[Any]] = [
        value,
        text,
        call,
        *([named] * 3 if spec.tools else []),
        st.fixed_dictionaries({"message": leaf}),
        st.fixed_dictionaries({"end": value}),
        st.lists(call | named, min_size=1, max_size=spec.max_calls + 2),
        st.binary(max_size=20),
    ]
    return st.one_of(kinds).filter(_filter(spec))


def _filter(spec: EnvSpec) -> Callable[[Any], bool]:
    return lambda raw: is_junk(spec, raw)


def _arguments(spec: EnvSpec, value: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return a strategy of arguments with the right names: values of the right type, or any."""
    from hypothesis import strategies as st

    kinds = {"integer": st.integers(), "string": st.text(max_size=30), "number": st.floats(), "boolean": st.booleans()}
    named: list[SearchStrategy[Any]] = []
    for tool in spec.tools:
        properties: Mapping[str, Any] = tool.parameters.get("properties", {})
        if properties:
            typed = {name: kinds.get(_kind(schema), value) for name, schema in properties.items()}
            named += [
                st.fixed_dictionaries(typed),
                st.fixed_dictionaries({}, optional=dict.fromkeys(properties, value)),
            ]
    return st.one_of(named) if named else st.just({})


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) else ""
