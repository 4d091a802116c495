"""Length-prefixed canonical JSON over a pipe: how a host and its worker process talk.

JSON and not pickle, because a worker runs a guest's code and must not be able to run any in its host. Canonical, so
that what no record could hold (NaN, half a surrogate pair) is refused where it comes from.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import ContractError

MAX_FRAME = 16 * 2**20
"""Bytes of a frame; a guest that says or holds more harms its host, so it loses its process."""

PREFIX_BYTES = 8


class TooLong(ValueError):
    """A value is longer than a frame may be."""


def pack(value: JSON) -> bytes:
    """Return the frame of a value.

    Raises:
        TooLong: It is longer than a frame may be.
        ValueError: The value has no canonical JSON.
    """
    try:
        data = canonical_bytes(value)
    except ContractError as error:
        raise ValueError(f"no JSON: {error.why}") from error
    if len(data) > MAX_FRAME:
        raise TooLong(f"{len(data)} bytes, the most is {MAX_FRAME}")
    return len(data).to_bytes(PREFIX_BYTES, "big") + data


def size_of(prefix: bytes) -> int:
    """Return the length a frame announces.

    Raises:
        ValueError: It is torn or too long.
    """
    size = int.from_bytes(prefix, "big")
    if len(prefix) != PREFIX_BYTES or size > MAX_FRAME:
        raise ValueError("no frame")
    return size


def unpack(data: bytes) -> JSON:
    """Return the value in the body of a frame.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_frame(pipe: BinaryIO) -> JSON | None:
    """Read one value; None where the other side has gone, or says what is no frame."""
    try:
        size = size_of(pipe.read(PREFIX_BYTES))
        data = pipe.read(size)
        return unpack(data) if len(data) == size else None
    except ValueError:
        return None
