"""A journal whose clock is set back: nothing expires that should not, and nothing stays for ever.

The clock of a database is the machine's, and an operator may set it; here it is one that the test sets.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.settings import Settings
from tests.servers.house import moved
from tests.servers.wire import Clock, Wire, problem

pytestmark = pytest.mark.anyio

DAY = 86_400.0
HOUR = 3_600.0
SLACK = 30.0
"""More than touches are late by, and servers apart."""


class Land:
    """Workers on one journal, which has a clock of its own; the workers' clock never goes back."""

    def __init__(self, path):
        self.path = path
        self.wall = Clock()
        self.wall.now = 1_700_000_000.0
        self.steady = Clock()
        self.wires = []

    def start(self, **settings):
        opened = replace(open_journal(str(self.path), fresh_epoch=False), now=lambda _: self.wall.now)
        journal = Journal(opened, f"{len(self.wires):08x}", shared=True)
        wire = Wire(("room",), Settings(**settings), None, journal)
        wire.clock = wire.hall.now = wire.hall.tools.clock = self.steady
        self.wires.append(wire)
        return wire

    async def wait(self, seconds, step=4.0):
        """Let time pass on both clocks, and the workers sweep."""
        left = seconds
        while left > 0:
            self.wall.now += min(step, left)
            self.steady.now += min(step, left)
            left -= step
            for wire in self.wires:
                await wire.hall.sweep(now=True)


@pytest.fixture
async def land(tmp_path):
    made = Land(tmp_path / "journal.db")
    yield made
    for wire in made.wires:
        await wire.hall.close()
        await wire.http.aclose()


@pytest.mark.parametrize("back", [1.0, HOUR, DAY])
async def test_a_clock_set_back_expires_nothing(land, back):
    one, two = land.start(), land.start()
    play = await one.play(ttl=60)
    await play.step(1, "look")
    land.wall.now -= back
    for turn in range(2, 5):
        await land.wait(40)
        wire = (one, two)[turn % 2]
        assert (await moved(play, wire).step(turn, "look")).status_code == 200
    third = land.start()
    assert (await moved(play, third).status()).json()["turn"] == 4


async def test_a_session_begun_before_a_clock_was_set_back_expires_when_its_time_is_up_again(land):
    one = land.start()
    play = await one.play(ttl=60)
    land.wall.now -= HOUR
    await land.wait(HOUR - 40, step=60)
    await land.wait(40 + 60 + SLACK)
    problem(await play.status(), "expired")
    assert one.hall.counts["open"] == 0


async def test_a_session_begun_after_a_clock_was_set_back_expires_in_its_time(land):
    one, two = land.start(), land.start()
    land.wall.now -= DAY
    play = await one.play(ttl=60)
    await land.wait(50)
    assert (await moved(play, two).status()).status_code == 200
    await land.wait(60 + SLACK)
    problem(await moved(play, two).status(), "expired")


async def test_workers_disagree_about_nothing_when_the_clock_is_set_back_between_them(land):
    one = land.start()
    play = await one.play(ttl=60)
    answer = await play.step(1, "look")
    land.wall.now -= DAY
    two = land.start()
    assert (await moved(play, two).step(1, "look")).content == answer.content
    closed = await moved(play, two).close()
    assert closed.status_code == 200
    assert (await play.close()).content == closed.content
    problem(await play.step(2, "look"), "closed")


async def test_capacity_comes_back_after_a_clock_was_set_back(land):
    one = land.start(max_sessions=1)
    play = await one.play(ttl=60)
    land.wall.now -= DAY
    problem(await one.make(), "at_capacity")
    assert (await play.close()).status_code == 200
    assert (await one.make()).status_code == 201
