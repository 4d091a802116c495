"""Frames cut by hand: whatever comes, and however it is cut up, it means what the library reads in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, Protocol, State
from websockets.uri import parse_uri

from agentenvs_servers.framing import Cutter, framed

MOST = 300

plain = st.builds(lambda data: [Frame(Opcode.TEXT, data)], st.binary(max_size=200))
long = st.builds(lambda size: [Frame(Opcode.TEXT, b"x" * size)], st.integers(100, 70_000))
control = st.builds(
    lambda op, data: [Frame(op, data)], st.sampled_from([Opcode.PING, Opcode.PONG]), st.binary(max_size=20)
)
other = st.builds(lambda data: [Frame(Opcode.BINARY, data)], st.binary(max_size=20))
parted = st.builds(
    lambda op, first, ping, last: [Frame(op, first, fin=False), *ping, Frame(Opcode.CONT, last)],
    st.sampled_from([Opcode.TEXT, Opcode.BINARY]),
    st.binary(max_size=20),
    st.one_of(st.just([]), control),
    st.binary(max_size=20),
)
closing = st.just([Frame(Opcode.CLOSE, b"\x03\xe8")])
raw = st.builds(lambda data: [data], st.binary(min_size=1, max_size=20))
streams = st.lists(st.one_of(plain, plain, long, control, other, parted, closing, raw), max_size=8)


def _library() -> Protocol:
    return Protocol(SERVER, state=State.OPEN, max_size=None)


def _events(library: Protocol) -> list[tuple[object, bytes]]:
    return [(frame.opcode, frame.fin, bytes(frame.data)) for frame in library.events_received()]


@settings(max_examples=300, deadline=None)
@given(streams, st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_what_is_cut_is_what_the_library_reads(stream, sizes):
    parts = [part for parts in stream for part in parts]
    data = b"".join(part if isinstance(part, bytes) else part.serialize(mask=True) for part in parts)
    whole, cut, found = _library(), _library(), []
    whole.receive_data(data)

    def read(part: bytes) -> None:
        cut.receive_data(part)
        found.extend(_events(cut))

    cutter = Cutter(MOST, read, lambda: cut.state is State.OPEN)
    cutter.taker = lambda text: found.append((Opcode.TEXT, True, text))
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)] * (1 if len(data) < 2_000 else 200)
        cutter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    read(cutter._head)  # half a head waits for its other half
    assert found == _events(whole)
    assert cut.state == whole.state
    assert type(cut.parser_exc) is type(whole.parser_exc)


def test_without_a_taker_all_goes_to_the_library():
    got: list[bytes] = []
    cutter = Cutter(MOST, got.append, lambda: True)
    cutter.feed(data := Frame(Opcode.TEXT, b"{}").serialize(mask=True))
    assert b"".join(got) == data


def test_what_is_too_long_is_not_plain_and_is_not_kept():
    got: list[bytes] = []
    cutter = Cutter(MOST, got.append, lambda: True)
    cutter.taker = lambda _: pytest.fail("taken")
    data = Frame(Opcode.TEXT, b"x" * 100_000).serialize(mask=True)
    for at in range(len(data)):
        cutter.feed(data[at : at + 1])
    assert b"".join(got) == data
    assert max(map(len, got)) < 20


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_answers_are_frames(size):
    client = ClientProtocol(parse_uri("ws://x/"), state=State.OPEN)
    text = b"x" * size
    client.receive_data(framed(text) * 2)
    assert [(frame.opcode, frame.fin, bytes(frame.data)) for frame in client.events_received()] == [
        (Opcode.TEXT, True, text)
    ] * 2
