"""Reads the bodies of requests: in full, in time, within bounds, as JSON in the strict sense, into a model.

orjson is fast and strict, and has two gaps that a played episode would notice: it turns integers of more than 64 bits
into floats, and it refuses escaped lone surrogates, which models do write. Such bodies are read by the standard
library instead, without its NaN.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from agentenvs.core.canon import clean_text, has_long_number
from agentenvs_servers.eager import NotYet, at_once, resumed
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.settings import Settings

Receive = Callable[[], Awaitable[Any]]
M = TypeVar("M", bound=BaseModel)

_MOST_FAULTS = 5
_MOST_DIGITS = 18
_MOST_DIGITS_OF_A_NUMBER = 4_000  # Python reads no more than 4,300


class ClientGone(Exception):
    """The client went away before it had sent its request; there is nobody to answer."""


async def read(receive: Receive, headers: Mapping[bytes, bytes], settings: Settings) -> bytes:
    """Return the body of a request.

    Args:
        receive: The request's ASGI channel.
        headers: Names in lower case.
        settings: The limits.

    Raises:
        ProblemError: ``media_type``, ``body_too_large`` or ``request_slow``.
        ClientGone: The connection broke.
    """
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise ProblemError("media_type", f"its Content-Type is {kind.decode('latin-1')[:80] or 'missing'}")
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and (len(declared) > _MOST_DIGITS or int(declared) > settings.max_body_bytes):
        _too_large(settings)
    message = await _received(receive, settings.body_seconds)
    if not message.get("more_body", False) and len(message.get("body", b"")) <= settings.max_body_bytes:
        return bytes(message.get("body", b""))
    return await _rest(message, receive, settings)


async def _rest(message: Mapping[str, Any], receive: Receive, settings: Settings) -> bytes:
    clock = asyncio.get_running_loop().time
    end = clock() + settings.body_seconds
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while message.get("more_body", False) and size <= settings.max_body_bytes:
        message = await _received(receive, end - clock())
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > settings.max_body_bytes:
        _too_large(settings)
    return b"".join(parts)


async def _received(receive: Receive, seconds: float) -> Mapping[str, Any]:
    work = receive()
    try:
        # Nearly every body is there already, and a timer costs more than reading it.
        message = at_once(work) if inspect.iscoroutine(work) else await _in_time(work, seconds)
    except NotYet as later:
        message = await _in_time(resumed(work, later), seconds)  # type: ignore[arg-type]
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


async def _in_time(work: Awaitable[Mapping[str, Any]], seconds: float) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        # The rest may never come, and nobody waits for it: the connection is of no more use.
        raise ProblemError(
            "request_slow",
            "its body had a limit that stands in the server's settings",
            headers={"Connection": "close"},
        ) from error


def _too_large(settings: Settings) -> NoReturn:
    raise ProblemError("body_too_large", f"the limit is {settings.max_body_bytes} bytes")


def loads(body: bytes) -> Any:
    """Return the JSON value of a body; integers of any length whole, NaN and Infinity refused.

    Raises:
        ProblemError: ``bad_json``.
    """
    try:
        if not has_long_number(body):
            return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        text = body.decode("utf-8")
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ProblemError("bad_json", "it is nested too deeply") from error
    except ValueError as error:
        raise ProblemError("bad_json", str(error)[:300]) from error


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS_OF_A_NUMBER:
        raise ValueError(f"{text[:40]}… is too long a number")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def parse(model: type[M], body: bytes) -> M:
    """Return a body as a message.

    Raises:
        ProblemError: ``bad_json`` or ``invalid_request``.
    """
    try:
        return model.model_validate(loads(body))
    except ValidationError as error:
        raise ProblemError("invalid_request", faults(error)) from error


def faults(error: ValidationError) -> str:
    """Say where a message is wrong, without repeating what may be secret in it."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{_place(fault['loc']) or 'the body'}: {fault['msg']}" for fault in faults[:_MOST_FAULTS]]
    more = len(faults) - _MOST_FAULTS
    return clean_text("; ".join(said) + (f"; and {more} more" if more > 0 else ""))


def _place(parts: Iterable[int | str]) -> str:
    """Return where a fault is, without the alternatives that were tried there."""
    return ".".join(str(part) for part in parts if "[" not in str(part))
