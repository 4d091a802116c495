"""Runs on a sealed split of a server: it gives out the scenarios, each once, and the folder of the run is honest."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from agentenvs.client import TicketEnv
from agentenvs.core.errors import (
    CapabilityError,
    ConfigError,
    ContractError,
    PolicyError,
    RecordError,
    ServiceError,
    UnknownEnvError,
)
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay
from agentenvs.core.sealed import sealed_secret_id
from agentenvs.core.task import TaskRef
from agentenvs.harness.planning import served_sealed
from agentenvs.harness.report import read_run
from agentenvs.harness.run import Again, RunConfig, config_of, evaluate, resume
from agentenvs.harness.stage import Stage
from agentenvs_servers.journal import tickets
from agentenvs_servers.journal.opening import visit
from agentenvs_servers.journal.tickets import Terms
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

WALKER = f"exec:{sys.executable} {Path(__file__).parent / 'programs' / 'walker.py'}"
TOKEN = "a-token-for-this-test"
OPERATORS = "00112233445566778899aabbccddeeff" * 2


class Wishful:
    """Wants to be shown what it can do, and is content without."""

    def __init__(self):
        self.wants = {"admissible": True}

    def reset(self, spec, task):
        self.turns = 0

    def act(self, observation):
        self.turns += 1
        return "look"


@pytest.fixture
def journal(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", OPERATORS)
    return tmp_path / "journal.db"


@pytest.fixture
def url(journal):
    with background(["household"], Settings(tokens=(TOKEN,)), {"limit": 6}, journal=str(journal)) as found:
        yield found


def sealed(url, tmp_path, policy, **more):
    more = {"token": TOKEN, "episodes": 2, **more}
    return evaluate(RunConfig("household", policy, split="sealed", url=url, out=tmp_path / "run", **more))


def issue(journal, numbers, contestant="ada"):
    opened = visit(str(journal), writes=True)
    terms = Terms("board", contestant, "agentenvs/Household-v0", "sealed", sealed_secret_id(), time.time() + 3600.0)
    with opened.engine.begin() as connection:
        ticket, _ = tickets.issue(connection, terms, lambda _: numbers, time.time())
    opened.engine.dispose()
    return ticket


def holds(result, folder):
    """Check that a folder is honest: its records are redacted, and say so, and nothing in it tells of scenarios."""
    records = list(read_records(folder))
    assert [record.digest for record in records] == [episode.record for episode in result.episodes]
    for record in records:
        assert record.header["redacted"]
        with pytest.raises(RecordError, match="redacted"):
            replay(record)
    assert all(episode.scenario_digest is None and episode.scenario == "" for episode in result.episodes)
    assert read_run(folder).manifest.complete
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert OPERATORS.encode() not in written
    assert b"ticket." not in written


@pytest.mark.parametrize("policy", ["expert", "tests.harness.test_sealed:Wishful", f"{WALKER} whole"])
def test_any_policy_plays_it_and_every_started_episode_counts(url, tmp_path, policy):
    concurrency = 2 if policy == "expert" else 1
    result = sealed(url, tmp_path, policy, concurrency=concurrency, episodes=3)
    assert sorted(episode.index for episode in result.episodes) == [0, 1, 2]
    assert [(episode.error, episode.ending in ("truncated", "terminated")) for episode in result.episodes] == [
        (None, True)
    ] * 3
    holds(result, tmp_path / "run")


def test_a_program_that_leaves_counts_as_well_and_the_next_run_goes_on_behind_it(url, tmp_path):
    result = sealed(url, tmp_path, f"{WALKER} leaving")
    assert [(episode.ending, episode.reward) for episode in result.episodes] == [("abandoned", 0.0)] * 2
    again = sealed(url, tmp_path / "again", "expert", episodes=1)
    assert [episode.index for episode in again.episodes] == [2]


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        ({"start": 1}, "--start"),
        ({"trials": 2}, "--trials"),
        ({"order": (1, 0)}, "--stream"),
        ({"options": {"limit": 9}}, "-o"),
    ],
)
def test_what_the_server_decides_cannot_be_asked_for(url, tmp_path, more, flag):
    with pytest.raises(ConfigError, match=f"{flag} has no place"):
        sealed(url, tmp_path, "expert", **more)
    with pytest.raises(PolicyError, match="cannot play a sealed split"):
        sealed(url, tmp_path, "oracle")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_go_on(url, tmp_path):
    sealed(url, tmp_path, "expert", episodes=1)
    with pytest.raises(ConfigError, match="cannot go on"):
        config_of(tmp_path / "run", Again())
    config = RunConfig("household", "expert", "sealed", 1, url=url, token=TOKEN, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="cannot go on"):
        resume(config)


def test_who_gives_the_scenarios_out_is_known_before_anything_is_played(url):
    assert served_sealed(Stage("household", url, token=TOKEN), "sealed")
    assert not served_sealed(Stage("household", url, token=TOKEN), None)
    assert not served_sealed(Stage("household"), "sealed")


@pytest.mark.parametrize("policy", ["expert", f"{WALKER} whole"])
def test_a_ticket_is_played_without_a_token(journal, url, tmp_path, monkeypatch, policy):
    ticket = issue(journal, (7, 3))
    monkeypatch.setenv("AGENTENVS_TICKET", ticket)
    result = evaluate(RunConfig("household", policy, url=url, ticket=ticket, out=tmp_path / "run"))
    assert [(episode.split, episode.index, episode.error) for episode in result.episodes] == [
        ("sealed", 7, None),
        ("sealed", 3, None),
    ]
    holds(result, tmp_path / "run")
    said = json.loads((tmp_path / "run" / "sidecars" / "000000.json").read_text())["policy"]
    if policy != "expert":
        assert not {"AGENTENVS_TICKET", "AGENTENVS_TOKEN"} & set(json.loads(said["output"].splitlines()[0]))
    with pytest.raises(ConfigError, match="nothing is left of the ticket tk-"):
        evaluate(RunConfig("household", policy, url=url, ticket=ticket, out=tmp_path / "more"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"concurrency": 2}, "one scenario at a time"),
        ({"split": "dev"}, "for the split 'sealed'"),
        ({"episodes": 3}, "has 2 scenarios left"),
        ({"start": 1}, "--start"),
        ({"url": None}, "no"),
    ],
)
def test_a_ticket_decides_what_is_played(journal, url, tmp_path, more, said):
    config = {"url": url, "ticket": issue(journal, (7, 3)), "out": tmp_path / "run", **more}
    with pytest.raises(ConfigError, match=said):
        evaluate(RunConfig("household", "expert", **config))


def test_a_ticket_is_for_one_environment_and_a_guess_for_none(journal, url):
    with pytest.raises(UnknownEnvError, match="the ticket is for") as caught:
        Stage("webshop", url, ticket=issue(journal, (1,)))
    assert "ticket." not in str(caught.value)
    with pytest.raises(ServiceError, match="ticket_unknown") as refused:
        Stage("household", url, ticket="ticket." + "A" * 43)
    assert "A" * 43 not in f"{refused.value}{refused.value.why}{refused.value.fix}"


def test_what_a_holder_of_a_ticket_can_do(journal, url):
    ticket = issue(journal, (7, 3))
    with TicketEnv(ticket, url) as env:
        env.reset()
        env.step("look")
        episode = env.episode
        assert env.ping().absolute > 0
        with pytest.raises(CapabilityError, match="cannot be forked"):
            env.fork()
        with pytest.raises(ContractError, match="shown to nobody"):
            env.reset(privileged=True)
    with TicketEnv(ticket, url) as env:  # the same episode, from where it stands
        env.reset(TaskRef("sealed", 0))
        assert (env.episode, env.turn, env.standing.left) == (episode, 1, 2)
        assert not env.look()
        env.reset()
        assert (env.episode == episode, env.stand().left) == (False, 1)
        assert env.finish("truncated").reward == 0.0
        assert (env.ending, env.stand().left) == ("abandoned", 0)
        with pytest.raises(ServiceError, match="ticket_used"):
            env.reset()
