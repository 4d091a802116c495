"""Keys and streams: their values for ever, and what each map of them promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenvs.core.streams import Stream, derive, scenario_key, sealed_key

KEY = bytes(32)


def _stream(name: str = "draws") -> Stream:
    return Stream(KEY, name)


@pytest.mark.parametrize(
    ("key", "golden"),
    [
        (scenario_key("household", "train", 0), "a290e1c1be2098cfc9dea40997a50f1f8cf1d1a3b39f39b0700ffc64e6427f33"),
        (scenario_key("household", "test", -1), "97af549edab89ecb534157b828507e0ca6f3327d023f49be1165ed685ed98476"),
        (sealed_key(b"secret", "household", 7), "a85bbaeb1545a20d77294f2fd58b62033863613920d06ea5b81f89b3628b57f1"),
        (derive(KEY, "layout"), "ffff2014504e258816e121dd980c391a6db9b78f6d2a86deb42ef4fbb8aa8b9a"),
    ],
)
def test_golden_keys(key: bytes, golden: str) -> None:
    assert key.hex() == golden


def test_golden_draws() -> None:
    stream = _stream()
    assert [stream.bits(count) for count in (0, 1, 7, 64)] == [0, 1, 113, 10089212217257126787]
    assert stream.state() == 72
    assert [stream.below(bound) for bound in (1, 2, 3, 10**20)] == [0, 0, 2, 34062813952629610151]
    assert [stream.between(-5, 5) for _ in range(5)] == [-1, -3, -4, 0, 0]
    assert [stream.chance(1, 3) for _ in range(6)] == [False, False, True, False, False, False]
    assert stream.uniform().hex() == "0x1.66bfae79ac0dep-2"
    assert (stream.choice("abcdef"), stream.weighted("xyz", (0, 1, 5))) == ("a", "z")
    assert stream.sample(range(100), 5) == [1, 72, 78, 29, 25]
    deck = list(range(10))
    stream.shuffle(deck)
    assert deck == [1, 3, 6, 8, 0, 4, 7, 5, 2, 9]
    assert stream.state() == 483


def test_every_part_of_an_address_makes_another_key() -> None:
    keys = {
        scenario_key("a", "train", 1),
        scenario_key("b", "train", 1),
        scenario_key("a", "test", 1),
        scenario_key("a", "train", 2),
        scenario_key("a", "train", -1),
        sealed_key(b"one", "a", 1),
        sealed_key(b"two", "a", 1),
        sealed_key(b"one", "a", 2),
    }
    assert len(keys) == 8
    assert {len(key) for key in keys} == {32}


def test_streams_of_other_names_or_keys_share_nothing() -> None:
    draws = [Stream(key, name).bits(256) for key in (KEY, bytes([1]) * 32) for name in ("a", "b", "")]
    assert len(set(draws)) == 6


def test_a_draw_from_one_stream_does_not_shift_another() -> None:
    one, other = _stream("one"), _stream("other")
    alone = _stream("other").bits(2000)
    parts = []
    for _ in range(20):
        one.bits(77)
        parts.append(other.bits(100))
    assert sum(part << (100 * place) for place, part in enumerate(parts)) == alone


@given(st.lists(st.integers(0, 700), max_size=8), st.integers(1, 600))
def test_state_seek_and_fork_are_exact(draws: list[int], count: int) -> None:
    stream = _stream()
    for size in draws:
        stream.bits(size)
    assert stream.state() == sum(draws)
    fork, sought = stream.fork(), _stream()
    sought.seek(stream.state())
    assert stream.bits(count) == fork.bits(count) == sought.bits(count)
    assert stream.state() == fork.state() == sought.state() == sum(draws) + count


def test_a_fork_moves_alone() -> None:
    stream = _stream()
    stream.fork().bits(100)
    assert stream.state() == 0


def test_seeking_back_draws_the_same_again() -> None:
    stream = _stream()
    first = stream.bits(1000)
    stream.seek(0)
    assert stream.bits(1000) == first


def _spread(counts: Counter[Any], cells: int, draws: int) -> float:
    """Return chi squared over its degrees of freedom: about 1 where all cells are equally likely."""
    expected = draws / cells
    assert len(counts) == cells
    return sum((count - expected) ** 2 / expected for count in counts.values()) / (cells - 1)


@pytest.mark.parametrize(
    ("cells", "draw"),
    [
        (3, lambda stream: stream.below(3)),
        (10, lambda stream: stream.below(10)),
        (11, lambda stream: stream.between(-5, 5)),
        (16, lambda stream: int(stream.uniform() * 16)),
        (5, lambda stream: stream.choice("abcde")),
        (6, lambda stream: tuple(stream.sample("abc", 2))),
        (32, lambda stream: stream.bits(5)),
    ],
    ids=["below-3", "below-10", "between", "uniform", "choice", "sample", "bits"],
)
def test_equally_likely(cells: int, draw: Callable[[Stream], Any]) -> None:
    stream = _stream("spread")
    assert 0.1 < _spread(Counter(draw(stream) for _ in range(6000)), cells, 6000) < 3.5


def test_all_orders_are_equally_likely() -> None:
    stream, counts = _stream("orders"), Counter[str]()
    for _ in range(6000):
        deck = list("abcd")
        stream.shuffle(deck)
        counts["".join(deck)] += 1
    assert 0.1 < _spread(counts, 24, 6000) < 3


def test_weights_and_chances() -> None:
    stream = _stream("weights")
    drawn = Counter(stream.weighted("abcd", (0, 1, 3, 0)) for _ in range(4000))
    assert set(drawn) == {"b", "c"}
    assert 900 < drawn["b"] < 1100
    assert 900 < sum(stream.chance(1, 4) for _ in range(4000)) < 1100


@given(st.integers(1, 2**80), st.integers(0, 500))
def test_below_stays_below(bound: int, skip: int) -> None:
    stream = _stream()
    stream.seek(skip)
    assert 0 <= stream.below(bound) < bound
    assert 0.0 <= stream.uniform() < 1.0


@given(st.lists(st.integers(), max_size=20), st.data())
def test_shuffle_and_sample_keep_the_items(items: list[int], data: st.DataObject) -> None:
    stream, deck = _stream(), list(items)
    stream.shuffle(deck)
    assert sorted(deck) == sorted(items)
    count = data.draw(st.integers(0, len(items)))
    places = stream.sample(range(len(items)), count)
    assert len(set(places)) == count
    assert set(places) <= set(range(len(items)))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda stream: stream.bits(-1), "count must not be negative"),
        (lambda stream: stream.below(0), "bound must be positive"),
        (lambda stream: stream.between(2, 1), "bound must be positive"),
        (lambda stream: stream.choice(""), "bound must be positive"),
        (lambda stream: stream.weighted("ab", (1,)), "weights must be as many as items, and not negative"),
        (lambda stream: stream.weighted("ab", (1, -1)), "weights must be as many as items, and not negative"),
        (lambda stream: stream.weighted("ab", (0, 0)), "bound must be positive"),
        (lambda stream: stream.sample("ab", 3), "cannot draw 3 of 2 items"),
        (lambda stream: stream.sample("ab", -1), "cannot draw -1 of 2 items"),
        (lambda stream: stream.seek(-1), "the position of a stream is not negative"),
    ],
    ids=range(10),
)
def test_messages(draw: Callable[[Stream], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(_stream())
