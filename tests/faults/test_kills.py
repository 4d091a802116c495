"""``kill -9`` under load, again and again: nothing is lost, doubled or swapped, and every record replays."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults import weather
from tests.faults.storm import storm


def test_kills_on_a_file(serving):
    server = serving()
    report = asyncio.run(storm("sqlite", [server], weather.kills([server], 20)))
    assert report.clean, report.said
    assert report.kills == 20
    assert report.turns > 20 * 10


def test_kills_on_a_database(serving, cluster):
    server = serving(cluster.create("kills"))
    report = asyncio.run(storm("postgresql", [server], weather.kills([server], 5)))
    assert report.clean, report.said
    assert report.kills == 5


def test_kills_of_servers_that_race_on_a_database(serving, cluster):
    url = cluster.create("race")
    servers = [serving(url) for _ in range(3)]
    report = asyncio.run(storm("race", servers, weather.kills(servers, 4)))
    assert report.clean, report.said


def test_kills_of_workers_that_race_on_a_file(serving):
    server = serving(more=("--workers", "3"))
    report = asyncio.run(storm("workers", [server], weather.worker_kills(server, 3), fresh=True))
    assert report.clean, report.said


@pytest.mark.parametrize("kind", ["file", "database"])
def test_a_server_that_is_stopped_and_started_costs_nothing(serving, request, kind):
    journal = None if kind == "file" else request.getfixturevalue("cluster").create("stops")
    server = serving(journal)

    async def stops(_, book):
        for _ in range(2):
            await weather.some_turns(book, 100)
            await asyncio.to_thread(server.terminate)
            await asyncio.to_thread(server.start)
        await weather.some_turns(book, 100)

    report = asyncio.run(storm("stops", [server], stops))
    assert report.clean, report.said
