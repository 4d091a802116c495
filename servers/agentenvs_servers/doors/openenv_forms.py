"""What OpenEnv's messages look like: actions in, observations and states out, and the JSON Schemas of all three.

An action is an object. ``{"text": …}`` is what a player says; ``{"type": "call_tool", "tool_name": …, "arguments": …}``
is OpenEnv's own form of a call; the forms of the native protocol are understood too. Whatever else an object holds is
played as it is, and costs a turn: a model's nonsense is no error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from agentenvs.core.spec import EnvSpec
from agentenvs_servers.doors import toolbox
from agentenvs_servers.doors.seats import Standing, aimed, text_of
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import TaskBody
from agentenvs_servers.worlds import World

CALL = "call_tool"
LIST = "list_tools"

MOST_NAME = 255
"""Characters of an ``episode_id``."""

_SHAPE = {"text", "end", "metadata"}


class Asked(NamedTuple):
    """What a reset asks for."""

    task: TaskBody
    options: dict[str, Any]
    episode_id: str | None
    ignored: list[str]
    """Names that mean nothing here; OpenEnv's own server drops such without a word."""


def asked(world: World, data: Mapping[str, Any]) -> Asked:
    """Read the arguments of a reset.

    Args:
        world: What is played.
        data: ``seed``, ``episode_id``, ``split``, ``index``, and options of the environment by name.

    Raises:
        ProblemError: ``invalid_request``, ``task_unknown`` or ``sealed_closed``.
    """
    known = {option.name for option in world.spec.options if not option.secret}
    named = {name: value for name, value in data.items() if value is not None}
    options = {name: named.pop(name) for name in known & set(named)}
    if any(isinstance(value, dict | list) for value in options.values()):
        raise ProblemError("option_refused", "an option is a number, a text, or true or false")
    split = _typed(named, "split", str)
    index = _typed(named, "index", int)
    seed = _typed(named, "seed", int)
    episode = _typed(named, "episode_id", str)
    if episode is not None and len(episode) > MOST_NAME:
        raise ProblemError("invalid_request", f"episode_id: the limit is {MOST_NAME} characters")
    task, _ = aimed(world, split, index, seed)
    return Asked(task, options, episode, sorted(named))


def _typed(named: dict[str, Any], name: str, kind: type) -> Any:
    value = named.pop(name, None)
    if value is not None and type(value) is not kind:
        raise ProblemError("invalid_request", f"{name}: {'a whole number' if kind is int else 'a text'} is wanted")
    return value


def action_of(spec: EnvSpec, data: Mapping[str, Any]) -> Any:
    """Return the action of a step."""
    if data.get("type") == CALL:
        return toolbox.action_of(spec, data.get("tool_name", ""), data.get("arguments"))
    if "text" in data and set(data) <= _SHAPE:
        return {"end": data["text"]} if data.get("end") else toolbox.said_of(spec, data["text"])
    return {name: value for name, value in data.items() if name != "metadata"} if "metadata" in data else data


def tool_of(data: Mapping[str, Any]) -> str | None:
    """Return the tool that a step calls in OpenEnv's form."""
    return str(data.get("tool_name", "")) if data.get("type") == CALL else None


def begun(form: Mapping[str, Any], ask: Asked) -> dict[str, Any]:
    """Return the data of the answer to a reset."""
    seen = _seen(form["observation"], {})
    seen["instruction"] = form["task"]["instruction"]
    metadata = {"episode": form["episode"], "turn": form["turn"], "task": form["task"]}
    if ask.ignored:
        metadata["ignored"] = ask.ignored
    return {"observation": seen, "reward": None, "done": False, "metadata": metadata}


def played(form: Mapping[str, Any], tool: str | None = None) -> dict[str, Any]:
    """Return the data of the answer to a step."""
    info = form["info"]
    seen = _seen(form["observation"], info)
    if tool is not None:
        seen |= {"tool_name": tool, "result": result_of(form), "error": None}
    ended = form["terminated"] or form["truncated"]
    metadata = {name: form[name] for name in ("episode", "turn", "terminated", "truncated", "info")}
    return {"observation": seen, "reward": float(form["reward"]), "done": ended, "metadata": metadata}


def result_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call of a tool comes to; a client's ``call_tool`` returns its ``data``."""
    text = text_of(form["observation"])
    blocks = form["observation"]["blocks"]
    single = blocks[0]["data"] if len(blocks) == 1 and blocks[0]["type"] == "data" else text
    ended = form["terminated"] or form["truncated"]
    return {
        "content": [{"type": "text", "text": text}],
        "data": single,
        "is_error": bool(form["info"].get("invalid")),
        "reward": float(form["reward"]),
        "done": ended,
    }


def listed(spec: EnvSpec) -> dict[str, Any]:
    """Return the data of the answer to a step that lists the tools; it plays no turn."""
    tools = listing(spec)
    names = ", ".join(tool["name"] for tool in tools)
    return {"observation": {"text": f"tools: {names}", "tools": tools}, "reward": None, "done": False}


def listing(spec: EnvSpec) -> list[dict[str, Any]]:
    """Return the tools as OpenEnv lists them, under both names that its clients read."""
    return [
        {"name": name, "description": said, "input_schema": schema, "inputSchema": schema}
        for name, said, schema in toolbox.tools_of(spec)
    ]


def state_of(at: Standing, session: str, episode_id: str | None) -> dict[str, Any]:
    """Return the state of an episode; the session in it is what another socket resumes it with."""
    ref = at.task["ref"]
    return {
        "episode_id": episode_id or at.episode,
        "step_count": at.turn,
        "session_id": session,
        "env": at.task["env"],
        "split": ref["split"],
        "index": ref["index"],
        "done": at.ended,
    }


NO_STATE = {"episode_id": None, "step_count": 0}
"""The state before the first reset."""


def _seen(observation: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    data = [
        {"tool": block.get("tool"), "data": block["data"]} for block in observation["blocks"] if block["type"] == "data"
    ]
    return {
        "text": text_of(observation),
        "data": data,
        "admissible": observation.get("admissible"),
        "budgets": observation["budgets"],
        "invalid": bool(info.get("invalid")),
    }


# ---- schemas ---------------------------------------------------------------------------------------------------------


def schemas(spec: EnvSpec) -> dict[str, Any]:
    """Return the answer to ``GET /schema``."""
    return {"action": _action(spec), "observation": _observation(spec), "state": _state(spec)}


def _title(spec: EnvSpec, kind: str) -> str:
    return "".join(part.capitalize() for part in spec.slug.split("_")) + kind


def _action(spec: EnvSpec) -> dict[str, Any]:
    metadata = {"type": "object", "description": "Not looked at."}
    if not {"text", "message"} & set(spec.accepts):
        names = [tool.name for tool in toolbox.tools_of(spec)]
        properties: dict[str, Any] = {
            "type": {"const": CALL, "default": CALL},
            "tool_name": {"type": "string", "enum": names},
            "arguments": {"type": "object", "description": f'As {{"type": "{LIST}"}} tells.'},
        }
        # Clients know this title, and ask for the list of tools.
        return _object("CallToolAction", {**properties, "metadata": metadata}, ("type", "tool_name", "arguments"))
    properties = {"text": {"type": "string", "description": spec.description}}
    if "end" in spec.accepts:
        properties["end"] = {"type": "boolean", "description": "Whether to end the episode with these words."}
    return _object(_title(spec, "Action"), {**properties, "metadata": metadata}, ("text",))


def _observation(spec: EnvSpec) -> dict[str, Any]:
    texts = {"type": ["array", "null"], "items": {"type": "string"}}
    block = _object("Data", {"tool": {"type": ["string", "null"]}, "data": {}}, ("data",))
    properties = {
        "text": {"type": "string", "description": "All that the player sees, as text."},
        "data": {"type": "array", "items": block, "description": "The parts of it that are data."},
        "admissible": {**texts, "description": "Legal actions, where they are asked for."},
        "budgets": {"type": "object", "additionalProperties": {"type": "integer"}},
        "invalid": {"type": "boolean", "description": "Whether the action could not be parsed or done."},
        "instruction": {"type": "string", "description": "The task; with a reset."},
        "tool_name": {"type": "string", "description": "With a call of a tool."},
        "result": {"description": "With a call of a tool."},
        "error": {"description": "Always null; what is wrong with a call stands in the text."},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "With a list of the tools."},
        # OpenEnv's own schemas have these in the observation; in its answers they stand beside it.
        "done": {"type": "boolean"},
        "reward": {"type": ["number", "null"]},
        "metadata": {"type": ["object", "null"]},
    }
    return _object(_title(spec, "Observation"), properties, ("text",))


def _state(spec: EnvSpec) -> dict[str, Any]:
    properties = {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer", "minimum": 0},
        "session_id": {"type": "string"},
        "env": {"type": "string"},
        "split": {"type": "string"},
        "index": {"type": "integer"},
        "done": {"type": "boolean"},
    }
    return _object(_title(spec, "State"), properties, ("episode_id", "step_count"))


def _object(title: str, properties: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    return {
        "title": title,
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
