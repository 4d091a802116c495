"""What an environment says of itself is sound: spec, names, tools, options, players, splits."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentenvs.core import registry
from agentenvs.core.actions import ToolCall, parse_action
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import AgentEnvsError, OptionError, SplitError, UserError
from agentenvs.core.spec import RESERVED_TOOLS, EnvSpec, OptionSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.check import schemas
from agentenvs.harness.check.episodes import refuses
from agentenvs.harness.check.findings import Fault, Sight, check, raised, short
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.subject import Subject
from agentenvs.harness.policies import resolve

_KINDS = ("text", "tool", "message", "end")
_REFUSED = ("malformed", "wrong_kind", "too_many_calls")


@check("the spec is sound and goes to JSON and back")
def spec(subject: Subject) -> Iterator[Fault]:
    """The spec passes its own checks again, reads back equal, and its numbers make sense."""
    found, fix = subject.spec, "mend the EnvSpec"
    # What is wrong with names is told by another check.
    found = replace_tools(found)
    try:
        form = json.loads(canonical_bytes(found.to_json()))
        if EnvSpec.from_json(form) != found:
            yield Fault("the spec reads back from JSON as another one", found.id, "use tuples and plain JSON in it")
        replace(found)
    except AgentEnvsError as error:
        yield Fault(f"the spec is none: {error.what}", found.id, error.fix or fix)
    for what, wrong in _nonsense(found):
        if wrong:
            yield Fault(what, found.id, fix)


def replace_tools(spec: EnvSpec) -> EnvSpec:
    """Return a spec whose tools have names that nobody can object to."""
    twin = copy.copy(spec)
    tools = tuple(replace(tool, name=f"tool_{number}") for number, tool in enumerate(spec.tools))
    object.__setattr__(twin, "tools", tools)  # replace() would check the other fields here
    return twin


def _nonsense(spec: EnvSpec) -> Iterator[tuple[str, bool]]:
    low, high = spec.reward_range
    yield f"reward_range {low} .. {high} is no range", not (math.isfinite(low) and math.isfinite(high) and low <= high)
    yield f"it accepts {short(spec.accepts)}", not spec.accepts or not set(spec.accepts) <= set(_KINDS)
    yield "it has tools and does not accept tool", bool(spec.tools) and "tool" not in spec.accepts
    yield "it accepts tool and has none", not spec.tools and "tool" in spec.accepts
    yield f"max_observation_bytes is {spec.max_observation_bytes}", spec.max_observation_bytes < 1
    yield f"gamma is {spec.gamma}", not 0.0 <= spec.gamma <= 1.0
    yield (
        f"the budgets are {short(dict(spec.budgets))}",
        any(type(amount) is not int or amount < 0 for amount in spec.budgets.values()),
    )


@check("no tool has a name that other protocols keep")
def reserved_names(subject: Subject) -> Iterator[Fault]:
    """No tool is called reset, step, state or close; no two have one name."""
    names = [tool.name for tool in subject.spec.tools]
    for name in names:
        if name in RESERVED_TOOLS:
            yield Fault(f"the tool name {name!r} is reserved", subject.spec.id, "choose another name")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault(f"two tools are called {name!r}", subject.spec.id, "choose another name")


@check("tool schemas are JSON Schema, and their examples fit and are understood")
def tools(subject: Subject) -> Iterator[Fault]:
    """Each schema is one, each example fits it and reaches the environment as a call of that tool."""
    for tool in subject.spec.tools:
        fault = schemas.schema_fault(tool.parameters)
        if fault is not None:
            yield Fault(
                f"the parameters of {tool.name!r} are no JSON Schema: {fault}", tool.name, "mend its parameters"
            )
            continue
        for example in tool.examples:
            call = parse_action({"tool": tool.name, "arguments": dict(example)})
            if (fault := schemas.misfit(tool.parameters, dict(example))) is not None:
                yield Fault(f"an example of {tool.name!r} does not fit its schema: {fault}", short(example), "mend it")
            elif not isinstance(call, ToolCall) or call.arguments != dict(example):
                yield Fault(f"an example of {tool.name!r} is no tool call", short(example), "use JSON in it")
            else:
                yield from _understood(subject, call)


def _understood(subject: Subject, call: ToolCall) -> Iterator[Fault]:
    episode = subject.episode(subject.ref, traced=False)
    episode.begin()
    turn = episode.step(call)
    if turn.error in _REFUSED:
        yield Fault(
            f"an example of {call.tool!r} is refused as {turn.error}", episode.where(), "accept what you declare"
        )
    subject.tidy()


@check("options that are not declared, and values that do not fit, are refused", Sight.OBJECT)
def options(subject: Subject) -> Iterator[Fault]:
    """Unknown names, wrong types, values out of bounds are OptionErrors; the default itself is taken."""
    fix = "call super().__init__(**options) first, and let the spec check them"
    wrong = refuses(lambda: subject.make(no_such_option_here=1), OptionError)
    if wrong is not None:
        yield Fault(f"an unknown option {wrong}", "no_such_option_here", fix)
    for option in subject.spec.options:
        try:
            option.check(option.default)
        except AgentEnvsError as error:
            yield Fault(
                f"the option {option.name!r} does not take its own default: {error.what}", option.name, "mend it"
            )
        for value in _bad_values(option):
            wrong = refuses(lambda name=option.name, value=value: subject.make(**{name: value}), OptionError)
            if wrong is not None:
                yield Fault(f"the option {option.name}={short(value)} {wrong}", option.name, fix)


def _bad_values(option: OptionSpec) -> Iterator[Any]:
    yield ["a list"]
    yield 7 if option.type == "str" else "no such value"
    if option.choices:
        yield "no such choice"
    if option.minimum is not None:
        yield option.minimum - 1


@check("the entry point leads to the environment, and its players can be made", Sight.SOURCE)
def entry_points(subject: Subject) -> Iterator[Fault]:
    """The spec's entry point is the class that was given; each of its players is a policy."""
    if isinstance(subject, Local) and subject.cls is not None and subject.spec.entry_point != subject.entry_point:
        what = f"the spec's entry point is {subject.spec.entry_point!r}"
        yield Fault(what, subject.entry_point, f"write {subject.entry_point!r}")
    else:
        try:
            registry.load(subject.spec.entry_point)
        except Exception as error:  # noqa: BLE001 - boundary: what is checked may raise anything
            yield Fault(f"the entry point cannot be loaded: {raised(error)}", subject.spec.entry_point, "mend it")
    for name in subject.spec.players:
        try:
            resolve(name, subject.spec)()
        except UserError as error:
            yield Fault(f"the player {name!r} cannot be made", raised(error), "mend the factory it names")


@check("addresses that name no scenario are refused")
def addresses(subject: Subject) -> Iterator[Fault]:
    """An unknown split, an index out of range and one that is no whole number are SplitErrors."""
    splits = subject.splits()
    main: Any = subject.main_split
    odd: Any = ("0", 1.0)
    bad = [TaskRef("no such split", 0), *(TaskRef(main, index) for index in odd)]
    for split in splits.values():
        if split.size is not None:
            bad += [TaskRef(split.name, index) for index in (split.size, -1, 10**9 + split.size)]
    for ref in bad:
        wrong = refuses(lambda ref=ref: subject.make().reset(ref), SplitError)
        subject.tidy()
        if wrong is not None:
            where = f"{ref.split}/{ref.index!r}"
            yield Fault(f"a task that names no scenario {wrong}", where, "leave check_ref() as it is")


@check("splits hold what they say", lost="")
def splits(subject: Subject) -> Iterator[Fault]:
    """Every split can be begun at its ends; an endless one takes any whole number."""
    for split in subject.splits().values():
        if split.sealed or (subject.split is not None and split.name != subject.split):
            continue
        for index in _ends(split):
            error = subject.can_begin(TaskRef(split.name, index))
            subject.tidy()
            if error is not None:
                size = "endless" if split.size is None else f"said to hold {split.size}"
                what = f"a task of a split that is {size} cannot be begun: {raised(error)}"
                yield Fault(what, f"{split.name}/{index}", "mend scenario(), or the size in the spec")


def _ends(split: SplitSpec) -> list[int]:
    if split.size is None:
        return [0, 1, 2**40, -3]
    return [0, split.size - 1] if split.size else []


@check("the same address gives the same scenario", Sight.SCENARIO)
def scenarios(subject: Subject) -> Iterator[Fault]:
    """Two instances, and one asked twice, give equal digests and equal JSON."""
    env, other = subject.make(), subject.make()
    for ref in subject.refs:
        first, again, second = (one.scenario(ref.split, ref.index) for one in (env, env, other))
        for twin in (again, second):
            if twin.digest != first.digest or canonical_bytes(twin.to_json()) != canonical_bytes(first.to_json()):
                where = f"{ref.split}/{ref.index}: {first.digest[:16]} against {twin.digest[:16]}"
                yield Fault("one address gives two scenarios", where, "draw scenarios from scenario_key() alone")
                break


CHECKS = (spec, reserved_names, entry_points, tools, options, addresses, splits, scenarios)
