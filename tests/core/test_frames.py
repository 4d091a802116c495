"""Frames between a host and its worker: whole values or nothing."""

from __future__ import annotations

import io

import pytest

from agentenvs.core import frames
from agentenvs.core.frames import PREFIX_BYTES, pack, read_frame, size_of, unpack

VALUES = [None, 0, "Zürich \x00\U0001f600", {"a": [1.5, True, {"b": "x" * 100_000}]}]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_value_comes_through(value):
    data = pack(value)
    assert size_of(data[:PREFIX_BYTES]) == len(data) - PREFIX_BYTES
    assert unpack(data[PREFIX_BYTES:]) == value
    assert read_frame(io.BytesIO(data + pack(1))) == value


@pytest.mark.parametrize("data", [b"", b"\x00", pack([1, 2])[:-1], b"\xff" * 20, (1).to_bytes(8, "big") + b"{"])
def test_what_is_no_frame_is_none(data):
    assert read_frame(io.BytesIO(data)) is None


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), float("nan"), "\ud800"])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(ValueError, match="no JSON"):
        pack(value)


def test_endless_and_bottomless_values_are_refused(monkeypatch):
    bottomless: list = []
    bottomless.append(bottomless)
    with pytest.raises(ValueError, match="recursion"):
        pack(bottomless)
    with pytest.raises(ValueError, match="nested too deeply"):
        unpack(b"[" * 100_000)
    monkeypatch.setattr(frames, "MAX_FRAME", 10)
    with pytest.raises(ValueError, match="bytes, the most is 10"):
        pack("x" * 10)
    with pytest.raises(ValueError, match="no frame"):
        size_of((11).to_bytes(PREFIX_BYTES, "big"))
