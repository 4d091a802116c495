"""The account sees what it is made to see."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tests.faults import accounts, weather
from tests.faults.players import Book
from tests.faults.storm import storm


@pytest.fixture
def played(serving):
    """A server without harm, and what its clients saw."""
    server = serving()
    report = asyncio.run(storm("calm", [server], weather.calm(150), clients=8))
    assert report.clean, report.said
    return server, report.book


def forget_a_turn(tale):
    tale.turns.pop()


def invent_a_turn(tale):
    tale.turns.append((len(tale.turns) + 1, "look", "0" * 64, 0.0))


def change_an_action(tale):
    turn, _, seen, reward = tale.turns[0]
    tale.turns[0] = (turn, "another", seen, reward)


def change_a_record(tale):
    tale.record = tale.record.replace(b'"kind":"header"', b'"kind":"head"')


def rename(tale):
    tale.name = "ep-of-nobody"


@pytest.mark.parametrize(
    ("harm", "kinds"),
    [
        (forget_a_turn, {"doubled"}),
        (invent_a_turn, {"lost"}),
        (change_an_action, {"swapped"}),
        (change_a_record, {"diverged", "swapped"}),
        (rename, {"lost", "doubled"}),
    ],
)
def test_harm_is_seen(played, harm, kinds):
    server, book = played
    harm(next(tale for tale in book.tales if tale.turns))
    assert {kind for kind, count in accounts.audit(book, server.journal).items() if count} == kinds


def test_a_session_that_nobody_asked_for_is_seen(played):
    server, book = played
    fewer = Book(tales=[dataclasses.replace(tale) for tale in book.tales[1:]])
    assert accounts.audit(fewer, server.journal)["doubled"]
