"""Tickets in journals of both kinds: opened once by whoever is first, kept until they are settled."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers.journal import operations, tickets
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.journal.tickets import Terms

TERMS = Terms("spring", "Ada", "tests/Room-v0", "vault", "secret-id", 2e10, "planner")


@pytest.fixture
def opened(url):
    made = open_journal(url)
    yield made
    made.engine.dispose()


def do(opened, operation, *arguments, **more):
    with opened.engine.begin() as connection:
        return operation(connection, *arguments, **more)


def issue(opened, terms=TERMS, **more):
    return do(opened, tickets.issue, terms, lambda _: (4, 2), time.time(), **more)


def test_a_ticket_is_found_by_its_digest_alone(opened):
    ticket, held = issue(opened)
    assert do(opened, tickets.find, held.id) == held
    assert do(opened, tickets.find, ticket.encode()) is None
    assert (held.numbers, held.opened, held.attempt, held.agent) == ((4, 2), 0, 1, "planner")
    assert do(opened, tickets.known) == [held]
    assert [one.state for one in do(opened, tickets.played, held)] == ["unopened", "unopened"]
    with pytest.raises(ConfigError, match="has had a ticket"):
        issue(opened)
    assert issue(opened, again=True)[1].attempt == 2


def test_of_many_that_open_at_once_one_does(opened):
    _, held = issue(opened)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: do(opened, tickets.open_next, held), range(8)))
    assert sorted(done) == [*[False] * 7, True]
    assert do(opened, tickets.find, held.id).opened == 1


def test_a_settled_ticket_opens_nothing_more(opened):
    _, held = issue(opened)
    assert do(opened, tickets.settle, held, time.time())
    assert not do(opened, tickets.open_next, held)
    assert do(opened, operations.forget, 1.0, 1e12) == 0
