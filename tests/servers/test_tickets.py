"""A ticket opens its sealed scenarios one after another, each once, whoever is killed and however often it is asked."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from agentenvs.core.errors import ConfigError, RecordError
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay
from agentenvs.core.sealed import sealed_secret_id
from agentenvs_servers.journal import operations, tickets
from agentenvs_servers.journal.opening import visit
from agentenvs_servers.journal.tickets import Terms
from tests.servers.rooms import SECRET
from tests.servers.wire import problem

pytestmark = pytest.mark.anyio

OPERATORS = "00112233445566778899aabbccddeeff" * 2


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", OPERATORS)


def issue(house, numbers=(2, 0, 1), *, contestant="ada", seconds=3600.0, again=False):
    opened = visit(str(house.path), writes=True)
    terms = Terms("board", contestant, "tests/Room-v0", "vault", sealed_secret_id(), time.time() + seconds)
    with opened.engine.begin() as connection:
        made = tickets.issue(connection, terms, lambda _: numbers, time.time(), again=again)
    opened.engine.dispose()
    return made


def do(house, operation, *arguments):
    opened = visit(str(house.path), writes=True)
    with opened.engine.begin() as connection:
        found = operation(connection, *arguments)
    opened.engine.dispose()
    return found


class Contestant:
    """Who holds a ticket."""

    def __init__(self, wire, ticket):
        self.wire = wire
        self.ticket = ticket

    async def next(self):
        return await self.wire.http.post("/v1/tickets/next", headers={"authorization": f"Bearer {self.ticket}"})

    async def status(self):
        return await self.wire.get("/v1/tickets", self.ticket)

    async def end(self, episode):
        return await self.wire.post("/v1/tickets/end", {"episode": episode}, self.ticket)

    async def record(self, episode):
        return await self.wire.get(f"/v1/tickets/record?episode={episode}", self.ticket)

    async def step(self, key, turn, action):
        return await self.wire.post("/v1/agent/step", {"turn": turn, "action": action}, key)


async def test_the_scenarios_come_in_the_servers_order_and_each_once(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    for place, number in enumerate((2, 0, 1), start=1):
        given = (await ada.next()).json()
        assert (given["place"], given["planned"], given["turn"]) == (place, 3, 0)
        assert given["task"]["ref"] == {"split": "vault", "index": number}
        assert (await ada.next()).json() == given
        assert (await ada.step(given["agent_key"], 1, "win")).json()["terminated"]
    problem(await ada.next(), "ticket_used")
    status = (await ada.status()).json()
    assert {name: status[name] for name in ("ticket", "opened", "planned", "playing", "settled")} == {
        "ticket": held.name,
        "opened": 3,
        "planned": 3,
        "playing": False,
        "settled": False,
    }
    assert house.sql("SELECT count(*) FROM sessions WHERE state = 'open'") == [(0,)]


async def test_a_killed_contestant_goes_on_where_the_episode_stands(house):
    wire = house.start()
    ticket, _ = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    await ada.step(given["agent_key"], 1, "look")
    again = (await ada.next()).json()
    assert (again["episode"], again["turn"], again["agent_key"]) == (given["episode"], 1, given["agent_key"])


async def test_a_killed_server_changes_nothing(house):
    ticket, _ = issue_after(house)
    ada = Contestant(house.wires[-1], ticket)
    given = (await ada.next()).json()
    await ada.step(given["agent_key"], 1, "look")
    later = Contestant(house.start(), ticket)
    again = (await later.next()).json()
    assert (again["episode"], again["turn"]) == (given["episode"], 1)
    assert (await later.step(given["agent_key"], 2, "win")).json()["reward"] == 1.0
    assert (await later.next()).json()["place"] == 2


def issue_after(house):
    house.start()
    return issue(house)


async def test_a_server_killed_between_opening_and_making_opens_the_same_one(house):
    ticket, held = issue_after(house)
    assert do(house, tickets.open_next, held)
    given = (await Contestant(house.start(), ticket).next()).json()
    assert (given["place"], given["task"]["ref"]["index"]) == (1, 2)


async def test_two_at_once_are_given_the_same_episode(house):
    wires = [house.start(shared=True, fresh=number == 0) for number in range(3)]
    ticket, _ = issue(house)
    given = await asyncio.gather(*(Contestant(wire, ticket).next() for wire in wires for _ in range(3)))
    assert {answer.status_code for answer in given} == {200}
    assert len({answer.json()["episode"] for answer in given}) == 1
    assert house.sql("SELECT opened FROM tickets") == [(1,)]
    assert house.sql("SELECT count(*) FROM sessions") == [(1,)]


async def test_what_is_given_up_is_over_and_counts_nothing(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    for _ in range(2):
        assert (await ada.end(given["episode"])).json()["playing"] is False
    problem(await ada.step(given["agent_key"], 1, "win"), "closed")
    assert (await ada.next()).json()["place"] == 2
    first = do(house, tickets.played, held)[0]
    assert (first.ending, parse_records(first.record)[0].verdict.reward) == ("abandoned", 0.0)
    assert (await ada.end(given["episode"])).json()["playing"] is True
    problem(await ada.end("ep-of-somebody-else"), "episode_unknown")


async def test_an_episode_left_alone_expires_and_the_next_one_opens(house):
    wire = house.start(idle_ttl=60)
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    await ada.next()
    wire.clock.now += 61
    house.sql("UPDATE sessions SET touched = touched - 61")
    assert (await ada.next()).json()["place"] == 2
    assert do(house, tickets.played, held)[0].ending == "abandoned"


async def test_after_the_deadline_nothing_more_is_opened(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    house.sql("UPDATE tickets SET deadline = deadline - 3700")
    assert (await ada.next()).json()["episode"] == given["episode"]
    await ada.step(given["agent_key"], 1, "win")
    problem(await ada.next(), "ticket_expired")
    (held,) = do(house, tickets.known)
    outcomes = do(house, tickets.played, held)
    assert [one.state for one in outcomes] == ["closed", "unopened", "unopened"]
    assert tickets.is_due(held, outcomes, time.time())


@pytest.mark.parametrize("given", [None, "guess", "ticket." + "A" * 43, "agent"])
async def test_a_guess_opens_nothing(house, given):
    wire = house.start()
    ticket, _ = issue(house)
    key = (await Contestant(wire, ticket).next()).json()["agent_key"]
    guesser = Contestant(wire, key if given == "agent" else given)
    headers = {} if given is None else {"authorization": f"Bearer {guesser.ticket}"}
    problem(await wire.http.post("/v1/tickets/next", headers=headers), "ticket_unknown")
    problem(await wire.http.get("/v1/tickets", headers=headers), "ticket_unknown")


async def test_a_ticket_and_its_agent_key_control_nothing(house):
    wire = house.start()
    ticket, _ = issue(house)
    other, _ = issue(house, contestant="bob")
    given = (await Contestant(wire, ticket).next()).json()
    others = (await Contestant(wire, other).next()).json()
    for secret in (ticket, given["agent_key"]):
        for path, body in (
            ("/v1/sessions", {"env": "room", "key": "k", "task": {"split": "vault"}}),
            (f"/v1/sessions/{given['agent_key']}/reset", {"key": "k", "ends": given["episode"]}),
            (f"/v1/sessions/{given['agent_key']}/fork", {"key": "k"}),
        ):
            problem(await wire.post(path, body, secret), "wrong_scope")
        problem(await wire.get("/v1/envs", secret), "wrong_scope")
    assert others["episode"] != given["episode"]
    problem(await Contestant(wire, ticket).record(others["episode"]), "episode_unknown")
    problem(await Contestant(wire, ticket).end(others["episode"]), "episode_unknown")
    problem(await Contestant(wire, given["agent_key"]).record(given["episode"]), "ticket_unknown")


async def test_the_record_is_redacted_and_comes_only_after_the_end(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    problem(await ada.record(given["episode"]), "episode_running")
    said = [json.dumps(given)]
    for turn, action in enumerate(("look", "win"), start=1):
        answer = await ada.step(given["agent_key"], turn, action)
        said += [answer.text, (await ada.status()).text]
        assert answer.json()["reward"] == (action == "win")
    record = await ada.record(given["episode"])
    assert [text for text in [*said, record.text] if SECRET in text or ticket in text] == []
    (told,) = parse_records(record.content)
    assert told.header["redacted"]
    with pytest.raises(RecordError, match="redacted"):
        replay(told)
    (whole,) = parse_records(do(house, tickets.played, held)[0].record)
    assert replay(whole).equal


async def test_a_ticket_stands_nowhere_in_the_journal(house):
    wire = house.start()
    ticket, _ = issue(house)
    given = (await Contestant(wire, ticket).next()).json()
    await Contestant(wire, ticket).end(given["episode"])
    written = house.path.read_bytes() + house.path.with_name(f"{house.path.name}-wal").read_bytes()
    assert ticket.encode() not in written
    assert OPERATORS.encode() not in written


async def test_another_secret_or_none_closes_the_ticket(house, monkeypatch):
    wire = house.start()
    ticket, _ = issue(house)
    for secret in (OPERATORS[::-1], ""):
        monkeypatch.setenv("AGENTENVS_SEALED_SECRET", secret)
        problem(await Contestant(wire, ticket).next(), "sealed_closed")


async def test_a_server_without_journal_takes_no_tickets(serve):
    problem(await Contestant(serve(), "ticket." + "A" * 43).next(), "sealed_closed")


async def test_what_a_ticket_played_outlives_the_retention_time_until_it_is_settled(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    await ada.step(given["agent_key"], 1, "win")
    await ada.record(given["episode"])
    assert do(house, operations.forget, 1.0, 1e12) == 0
    assert (await ada.next()).json()["place"] == 2
    await ada.end((await ada.next()).json()["episode"])
    assert do(house, tickets.settle, held, time.time())
    assert not do(house, tickets.settle, held, time.time())
    assert do(house, operations.forget, 1.0, 1e12) == 2
    problem(await ada.next(), "ticket_expired")
    assert house.sql("SELECT count(*) FROM sessions") == [(0,)]


async def test_a_contestant_has_one_ticket_for_the_same_scenarios(house):
    house.start()
    issue(house)
    with pytest.raises(ConfigError, match="has had a ticket"):
        issue(house)
    assert issue(house, again=True)[1].attempt == 2
    assert issue(house, contestant="bob")[1].attempt == 1


@pytest.mark.parametrize("name", ["", " ada", "a\nb", "a" * 81, "\x1b[31m"])
async def test_a_name_that_makes_no_sense_is_refused(house, name):
    house.start()
    with pytest.raises(ConfigError, match="makes no sense"):
        issue(house, contestant=name)


@pytest.mark.parametrize("numbers", [(), (0, 0)])
async def test_scenarios_that_make_no_sense_are_refused(house, numbers):
    house.start()
    with pytest.raises(ConfigError, match="make no sense"):
        issue(house, numbers)
    with pytest.raises(ConfigError, match="no time"):
        issue(house, seconds=-1)


async def test_late_episodes_are_ended_by_whoever_settles(house):
    wire = house.start()
    ticket, held = issue(house)
    ada = Contestant(wire, ticket)
    given = (await ada.next()).json()
    outcomes = do(house, tickets.played, held)
    assert not tickets.is_due(held, outcomes, time.time())
    assert tickets.is_due(held, outcomes, held.deadline + 61)
    do(house, tickets.end_late, held, 1e9)
    assert do(house, tickets.played, held)[0].ending == "abandoned"
    assert (await ada.step(given["agent_key"], 1, "win")).status_code >= 400
