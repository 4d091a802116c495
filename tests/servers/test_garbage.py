"""What survives a full collection is set aside, and cyclic garbage in it is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agentenvs_servers import garbage
from agentenvs_servers.garbage import Aside


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aside]:
    monkeypatch.setattr(garbage, "SLACK", 1_000)
    aside = Aside()
    aside.begin()
    yield aside
    aside.end()


def test_what_survives_is_not_looked_at_again(aside: Aside) -> None:
    kept = [Ring() for _ in range(500)]
    gc.collect()
    assert aside.looks == 1
    assert len(gc.get_objects(2)) < 500
    assert gc.get_freeze_count() > len(kept)


def test_what_counting_frees_brings_no_full_look(aside: Aside) -> None:
    for _ in range(20):
        kept = [[place] for place in range(gc.get_freeze_count() // 4)]
        gc.collect()
        del kept
    assert aside.looks == 1


def test_cycles_among_what_was_set_aside_are_freed_in_the_end(aside: Aside) -> None:
    rings = [Ring() for _ in range(100)]
    gc.collect()
    seen = weakref.ref(rings[0])
    del rings
    gc.collect()
    assert seen() is not None
    more: list[list[Ring]] = []
    while seen() is not None and len(more) < 50:
        more.append([Ring() for _ in range(gc.get_freeze_count() // 4)])
        gc.collect()
    assert seen() is None
    assert aside.looks == 2


def test_the_collector_is_left_as_it_was() -> None:
    aside = Aside()
    aside.begin()
    aside.end()
    assert aside not in gc.callbacks
    assert gc.get_freeze_count() == 0
