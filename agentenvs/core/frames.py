"""Length-prefixed JSON over a pipe: how a host and its worker process talk.

JSON and not pickle, because a worker runs a guest's code and must not be able to run any in its host.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from agentenvs.core.canon import JSON

MAX_FRAME = 64 * 2**20
"""Bytes of a frame; a guest that says more has lost its mind, and its process."""

_PREFIX = 8


def write_frame(pipe: BinaryIO, value: JSON) -> None:
    """Write one value.

    Raises:
        OSError: The other side has gone.
    """
    data = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    pipe.write(len(data).to_bytes(_PREFIX, "big") + data)
    pipe.flush()


def read_frame(pipe: BinaryIO) -> JSON | None:
    """Read one value; None where the other side has gone, or says what is no frame."""
    prefix = pipe.read(_PREFIX)
    size = int.from_bytes(prefix, "big")
    if len(prefix) < _PREFIX or size > MAX_FRAME:
        return None
    data = pipe.read(size)
    try:
        return json.loads(data) if len(data) == size else None
    except ValueError:
        return None
