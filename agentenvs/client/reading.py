"""Reads the messages of the wire into the objects of the core.

What is read here was written elsewhere: whatever has another form than the protocol says is a
:class:`~agentenvs.core.errors.ServiceError`, never an error of Python's, and nothing a server names is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from agentenvs.client.calls import Answer
from agentenvs.client.problems import nonsense, refusal
from agentenvs.core.canon import JSON, has_long_number
from agentenvs.core.errors import ContractError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.trace import Fact, StepTrace
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import ENDINGS, Ending, Verdict

R = TypeVar("R")

_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, ContractError)


@dataclass(frozen=True, slots=True)
class Described:
    """What a server says of an environment."""

    spec: EnvSpec
    splits: dict[str, SplitSpec]
    options: dict[str, JSON]
    """What the server plays with where a client says nothing."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A fresh episode."""

    episode: str
    agent_key: str
    task: Task
    observation: Observation


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known of an episode once it has ended."""

    ending: Ending
    verdict: Verdict
    labels: Mapping[str, JSON]
    scenario: str


def read(answer: Answer, host: str, take: Callable[[dict[str, Any]], R]) -> R:
    """Return what an answer says.

    Args:
        answer: The reply.
        host: Who gave it.
        take: Makes the result from the JSON object of a success.

    Raises:
        AgentEnvsError: Some subclass: the server refuses, or its answer makes no sense.
    """
    if not 200 <= answer.status < 300:
        raise refusal(answer, host)
    try:
        return take(_object(loads(answer.data) if answer.form is None else answer.form))
    except _WRONG as error:
        raise nonsense(host, f"{type(error).__name__}: {error}"[:300]) from error


def dump(body: Mapping[str, JSON]) -> bytes:
    """Return the body of a request."""
    try:
        return orjson.dumps(body)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def described(form: dict[str, Any]) -> Described:
    """Read ``GET /v1/envs/{env}``."""
    spec = EnvSpec.from_json({**form["spec"], "entry_point": "", "players": {}})
    splits = {split["name"]: SplitSpec(**split) for split in form["splits"]}
    if spec.digest != form["digest"]:
        raise ValueError("the spec is not the one its digest names: server and client are of different releases")
    return Described(spec, splits, dict(form["options"]))


def begun(form: dict[str, Any]) -> Begun:
    """Read the answer to a create or a reset."""
    told = form["task"]
    ref = TaskRef(_str(told["ref"]["split"]), int(told["ref"]["index"]))
    task = Task(_str(told["env"]), ref, dict(told["options"]), _str(told["instruction"]))
    return Begun(_str(form["episode"]), _str(form["agent_key"]), task, Observation.from_json(form["observation"]))


def stepped(form: dict[str, Any], episode: str, turn: int) -> StepResult:
    """Read the answer to a step.

    Raises:
        ValueError: It answers another one.
    """
    if form["episode"] != episode or form["turn"] != turn:
        raise ValueError("the answer is to another episode or turn")
    info = form["info"]
    return StepResult(
        Observation.from_json(form["observation"]),
        float(form["reward"]),
        _bool(form["terminated"]),
        _bool(form["truncated"]),
        {**info, "invalid": _bool(info["invalid"])},
    )


def traced(form: dict[str, Any]) -> StepTrace:
    """Read a trace."""
    facts = {name: tuple(Fact(*fact) for fact in form[name]) for name in ("observed", "used", "written")}
    return StepTrace(**{**form, **facts, "milestones": tuple(form["milestones"])})


def ended(form: dict[str, Any], episode: str) -> Ended:
    """Read how an episode ended from the status of its session.

    Raises:
        ValueError: The session plays another one, or it has not ended.
    """
    if form["episode"] != episode:
        raise ValueError("the session plays another episode")
    ending = form["ending"]
    if ending not in ENDINGS:
        raise ValueError("the episode has not ended")
    verdict = Verdict.from_json(form["verdict"])
    return Ended(ending, verdict, dict(form["labels"] or {}), _str(form.get("scenario") or ""))


def loads(data: bytes) -> Any:
    """Return a JSON value, integers of any length whole.

    Raises:
        ValueError: It is none.
    """
    if not has_long_number(data):
        return orjson.loads(data)
    try:
        return json.loads(data)  # orjson turns integers of more than 64 bits into floats
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(form: Any) -> dict[str, Any]:
    if not isinstance(form, dict):
        raise TypeError("a JSON object was expected")
    return form


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where words were expected")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a {type(value).__name__} where true or false was expected")
    return value
