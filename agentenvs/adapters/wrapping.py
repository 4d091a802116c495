"""Looks at what somebody would wrap, and writes the file that does.

    gymnasium:CartPole-v1   module:Class   openenv+http://HOST:PORT   mcp+http://HOST:PORT/mcp

Looking means: make it, play it twice with one seed, and compare. What comes of that stands in the file, as data, with
the hooks that are often changed; whoever has the file needs nobody's word for it.
"""

from __future__ import annotations

import keyword
import pprint
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any

from agentenvs.adapters.foreign import ANY_REWARD, Engine, EngineError, Reply
from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import ConfigError
from agentenvs.core.spec import RESERVED_TOOLS
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.targets import class_of

STEPS = 200
"""Limit of turns where the other side names none."""

TRIED_TURNS = 40
"""Turns that are played twice to see whether a seed is heeded."""

FORMS = "gymnasium:ID, MODULE:CLASS, openenv+URL, or mcp+URL"


@dataclass
class Found:
    """What was found out about something that is to be wrapped."""

    target: str
    env_id: str
    title: str
    engine: str
    """The expression that makes the engine."""
    imports: str
    seeded: bool = False
    exact: bool = False
    steps: int = STEPS
    execution: str = "thread"
    actions: tuple[str, ...] = ()
    first_action: int = 0
    numbered: bool = True
    tools: list[dict[str, JSON]] = field(default_factory=list)
    accepts: tuple[str, ...] = ("text",)
    pays: bool = True
    success_at: float | None = None
    reward_range: tuple[float, float] = ANY_REWARD
    read: str = ""
    """Source of the hook ``read``, where it is another one."""


def look(target: str) -> Found:
    """Find out what a target is and what it can do.

    Raises:
        ConfigError: It is none, or cannot be wrapped.
        ServiceError: Its server stays away.
    """
    kind, plus, url = target.partition("+")
    if plus and url.startswith(("http://", "https://")) and kind in _SERVERS:
        return _SERVERS[kind](target, url)
    scheme, _, rest = target.partition(":")
    if scheme == "gymnasium" and rest:
        return _gymnasium(target, rest)
    if ":" in target and not plus and "//" not in target:
        return _object(target)
    raise ConfigError(f"{target!r} cannot be wrapped", fix=f"give {FORMS}")


def module_name(found: Found) -> str:
    """Return a name for the file of what was found."""
    name = re.sub(r"\W+", "_", found.title).strip("_").lower() or "wrapped"
    return f"{name}_env" if name[0].isdigit() or keyword.iskeyword(name) else name


def written(found: Found, module: str) -> str:
    """Return the file.

    Args:
        found: What was found.
        module: Name of the module it will be.
    """
    cls = "".join(part.capitalize() for part in module.split("_"))
    if re.search(rf"\b{cls}\b", found.engine):  # the name of what is wrapped
        cls += "World"
    template = files("agentenvs.adapters") / "templates" / "wrapped.py.in"
    return Template(template.read_text(encoding="utf-8")).substitute(
        target=found.target,
        title=found.title,
        imports=_imports(found),
        engine=found.engine,
        cls=cls,
        env_id=f'"{found.env_id}"',
        declared="".join(f"        {name}={value},\n" for name, value in _declared(found).items()),
        attributes=_attributes(found),
        hooks=found.read + ("" if found.pays else _SCORE),
        tools=_tools(found),
    )


def _imports(found: Found) -> str:
    names = ["Foreign", *(["Refused"] if "Refused" in found.read else []), "describe"]
    lines = [*found.imports.splitlines(), f"from agentenvs.adapters.foreign import {', '.join(names)}"]
    own = [line for line in lines if line and not line.startswith("from agentenvs")]
    ours = sorted(line for line in lines if line.startswith("from agentenvs"))
    if found.tools:
        ours.append("from agentenvs.api import ToolSpec")
    return "\n".join([*own, *([""] if own else []), *ours])


_SCORE = '''
    @classmethod
    def score(cls, played):
        """Return what an episode is worth, from 0 to 1. WRITE THIS: until then every episode is worth 0.

        played: a dictionary a turn, {"action": {"tool": …, "arguments": …}, "reply": {"shown": …}}
        """
        return 0.0
'''


def _declared(found: Found) -> dict[str, str]:
    said: dict[str, Any] = {"steps": found.steps, "seeded": found.seeded, "exact": found.exact}
    if found.accepts != ("text",):
        said["accepts"] = found.accepts
    if found.actions:
        said["lists_actions"] = True
    if not found.pays:
        said["rewards"] = "final"
    said["reward_range"] = found.reward_range if found.pays else (0.0, 1.0)
    said["execution"] = found.execution
    if found.execution == "process":
        said |= {"step_seconds": 30.0, "memory_mb": 2048}
    shown = {name: _spelled(value) for name, value in said.items()}
    return {**shown, "tools": "TOOLS"} if found.tools else shown


def _attributes(found: Found) -> str:
    lines = []
    if found.actions:
        lines.append(f"    actions = {_spelled(found.actions)}\n")
    if found.actions and not found.numbered:
        lines.append("    numbered = False\n")
    if found.first_action:
        lines.append(f"    first_action = {found.first_action}\n")
    if found.success_at is not None:
        lines.append(f"    success_at = {found.success_at!r}\n")
    return "".join(lines)


def _tools(found: Found) -> str:
    if not found.tools:
        return ""
    rows = [
        (tool["name"], tool["description"], parameters, (example_of(parameters),))
        for tool in found.tools
        for parameters in (inlined(tool["parameters"]),)
    ]
    listed = pprint.pformat(rows, width=110, sort_dicts=False)
    return f"\nTOOLS = tuple(\n    ToolSpec(*row)\n    for row in {listed}\n)\n\n"


def example_of(schema: Mapping[str, JSON]) -> JSON:
    """Return a value that fits a JSON Schema, as far as that can be told: what it names, else a word or a number."""
    for name in ("default", "const"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return example_of(schema[name][0])
    kind = schema.get("type", "object")
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: example_of(parts.get(name, {"type": "string"})) for name in schema.get("required", [])}
    return {"string": "hello", "integer": 1, "number": 1.0, "boolean": True, "array": [], "null": None}.get(str(kind))


_DEFINED = ("$defs", "definitions")


def inlined(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a JSON Schema with its own definitions in the places that name them; one that is part of itself stays."""
    definitions = {key: schema[key] for key in _DEFINED if key in schema}
    parts = _inlined({key: value for key, value in schema.items() if key not in definitions}, schema, ())
    return {**parts, **definitions} if '"$ref"' in canonical(parts) else dict(parts)


def _inlined(part: JSON, root: Mapping[str, JSON], within: tuple[str, ...]) -> JSON:
    if isinstance(part, list):
        return [_inlined(item, root, within) for item in part]
    if not isinstance(part, dict):
        return part
    name = part.get("$ref")
    if isinstance(name, str) and name not in within and isinstance(found := _defined(root, name), dict):
        rest = {key: value for key, value in part.items() if key != "$ref"}
        return {**_inlined(found, root, (*within, name)), **_inlined(rest, root, within)}
    return {key: _inlined(value, root, within) for key, value in part.items()}


def _defined(root: Mapping[str, JSON], name: str) -> JSON:
    """Return what ``#/$defs/NAME`` names; None where that is nothing."""
    found: JSON = root
    for part in name.removeprefix("#/").split("/") if name.startswith("#/") else ("",):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _spelled(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value).replace("'", '"')


# ---- the kinds -------------------------------------------------------------------------------------------------------


def _gymnasium(target: str, env_id: str) -> Found:
    from agentenvs.adapters.gymnasium import GymnasiumEngine, actions_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it has to say of an old id is in the error where it makes none
        engine = GymnasiumEngine(env_id)
    actions, first = actions_of(engine.env)
    spec = engine.env.spec
    name, _, version = env_id.rpartition("/")[2].rpartition("-v")
    chosen: list[JSON] = list(range(first, first + len(actions))) or [""]
    seeded, exact = tried(lambda: GymnasiumEngine(env_id), chosen)
    engine.close()
    threshold = None if spec is None else spec.reward_threshold
    return Found(
        target=target,
        env_id=f"gymnasium/{name or env_id}-v{version if name else 0}",
        title=name or env_id,
        engine=f"GymnasiumEngine({env_id!r})".replace("'", '"'),
        imports="from agentenvs.adapters.gymnasium import GymnasiumEngine\n",
        seeded=seeded,
        exact=exact,
        steps=(spec.max_episode_steps if spec is not None else None) or STEPS,
        actions=actions,
        first_action=first,
        success_at=None if threshold is None else float(threshold),
    )


def _object(target: str) -> Found:
    from agentenvs.adapters.objects import ObjectEngine

    cls = class_of(target)
    if missing := [name for name in ("reset", "step") if not callable(getattr(cls, name, None))]:
        raise ConfigError(f"{target} cannot be wrapped", why=f"it has no {missing[0]}()", fix=f"give {FORMS}")
    module, name = cls.__module__, getattr(cls, "__qualname__", target.rpartition(":")[2])
    actions = tuple(str(action) for action in getattr(cls, "actions", ()) or ())
    chosen: list[JSON] = list(actions) or [""]
    try:
        seeded, exact = tried(lambda: ObjectEngine(cls), chosen)
    except EngineError:
        seeded = exact = False
    return Found(
        target=target,
        env_id=f"wrapped/{name.replace('.', '')}-v0",
        title=name,
        engine=f"ObjectEngine({name})",
        imports=f"from {module} import {name.partition('.')[0]}\n\n{_OBJECTS}",
        seeded=seeded,
        exact=exact,
        execution="process",
        actions=actions,
        numbered=False,
    )


_OBJECTS = "from agentenvs.adapters.objects import ObjectEngine\n"


def _openenv(target: str, url: str) -> Found:
    from agentenvs.adapters import openenv

    schema = inlined(openenv.action_schema(url))
    read, name = _FIELDS, openenv.name_of(url)
    if openenv.calls_tools(schema):
        tools, read = openenv.tools_of(url), _CALLS
    else:
        tools = [{"name": "act", "description": "Play an action.", "parameters": schema}]
    words = [name for name, part in schema["properties"].items() if part.get("type") == "string"]
    talks = read is _FIELDS and len(words) == 1 and set(schema.get("required", words)) == set(words)
    listed = schema["properties"][words[0]].get("enum", ()) if talks else ()
    return Found(
        target=target,
        env_id=f"openenv/{_camel(name)}-v0",
        title=name,
        engine=f'OpenEnvEngine("{url}")',
        imports="from agentenvs.adapters.openenv import OpenEnvEngine\n",
        tools=_unreserved(tools),
        actions=tuple(str(word) for word in listed),
        numbered=False,
        accepts=("text", "tool") if talks else ("tool",),
        read=_TALKS.format(word=words[0]) if talks else read,
    )


_FIELDS = '''
    def read(self, action):
        """Return the fields of the server's action."""
        said = super().read(action)
        return said if isinstance(said, Refused) else said["arguments"]
'''
_TALKS = '''
    def read(self, action):
        """Return the fields of the server's action; words are its {word}."""
        said = super().read(action)
        if isinstance(said, Refused):
            return said
        return {{"{word}": said}} if isinstance(said, str) else said["arguments"]
'''
_CALLS = '''
    def read(self, action):
        """Return the server's action: a call of one of its tools."""
        said = super().read(action)
        if isinstance(said, Refused):
            return said
        return {"type": "call_tool", "tool_name": said["tool"], "arguments": said["arguments"]}
'''


def _mcp(target: str, url: str) -> Found:
    from agentenvs.adapters import mcp

    name, tools = mcp.name_and_tools(url)
    if not tools:
        raise ConfigError(f"{url} has no tools", fix="give a server that has some")
    return Found(
        target=target,
        env_id=f"mcp/{_camel(name)}-v0",
        title=name,
        engine=f'McpEngine("{url}")',
        imports="from agentenvs.adapters.mcp import McpEngine\n",
        tools=_unreserved(tools),
        accepts=("tool", "end"),
        pays=False,
    )


_SERVERS: dict[str, Callable[[str, str], Found]] = {"openenv": _openenv, "mcp": _mcp}


def _unreserved(tools: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    if taken := [tool["name"] for tool in tools if tool["name"] in RESERVED_TOOLS]:
        raise ConfigError(f"the server has a tool {taken[0]!r}", why="protocols keep that name", fix="rename it there")
    return tools


def _camel(name: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", name)
    camel = "".join(word[0].upper() + word[1:] for word in words)
    return camel if camel[:1].isalpha() else f"Server{camel}"


def tried(make: Callable[[], Engine], actions: list[JSON]) -> tuple[bool, bool]:
    """Play twice with one seed.

    Args:
        make: Makes an engine.
        actions: What is drawn from.

    Returns:
        Whether both plays were equal, and whether no number in them had a fraction.

    Raises:
        EngineError: It failed.
    """
    from agentenvs.adapters.gymnasium import has_fractions

    first, second = _played(make, actions), _played(make, actions)
    same = [canonical(reply._asdict()) for reply in first] == [canonical(reply._asdict()) for reply in second]
    return same, same and not any(has_fractions(reply.shown) for reply in first)


def _played(make: Callable[[], Engine], actions: list[JSON]) -> list[Reply]:
    stream = Stream(scenario_key("wrap", "trial", 0), "actions")
    engine = make()
    try:
        replies = [engine.reset(7)]
        for _ in range(TRIED_TURNS):
            replies.append(engine.step(stream.choice(actions)))
            if replies[-1].terminated or replies[-1].truncated:
                break
        return replies
    finally:
        engine.close()
