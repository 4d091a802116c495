"""A host, its contestants and their agents, each a process of its own; each of them killed."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest

from agentenvs.core.errors import RecordError
from agentenvs.core.record import parse_records, read_records
from agentenvs.core.replay import replay
from agentenvs.leaderboard import receipts
from tests.leaderboard.hosted.hosts import AGENT, SECRET, Contestant, Host, until
from tests.leaderboard.hosted.test_admission import rows


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    made.start()
    yield made
    made.stop()


def settled(host, name):
    until(host.is_settled)
    return host.result(name)


def test_the_row_appears_without_the_contestant_sending_anything(host, tmp_path):
    ticket = host.ticket("ada")
    said = Contestant(host, ticket, tmp_path / "run").wait()
    found = settled(host, said["ticket"])
    assert (found["contestant"], found["board"], found["attempt"]) == ("ada", "spring", 1)
    assert sorted((one["panel"], one["place"]) for one in found["episodes"]) == [
        ("own", 0),
        ("shared", 0),
        ("shared", 1),
    ]
    assert [(one["ending"], one["turns"]) for one in found["episodes"]] == [("truncated", 6)] * 3
    _what_the_contestant_has_tells_nothing(tmp_path / "run", host, ticket)
    _the_operators_records_are_whole(host, said["ticket"])
    _the_agent_could_do_nothing_else(tmp_path / "run")
    published = json.loads((host.folder / "published.json").read_text())
    data = (host.folder / "receipts" / f"{said['ticket']}.json").read_bytes()
    read = receipts.check(data, receipts.trusted(published["key"]), "spring", time.time())
    assert read.result.to_json() == found
    assert rows(host.board) == [("ada", "hosted", 0, 3)]
    assert (read.result.commitment, read.signer) == (published["commitment"], published["key_id"])


def _what_the_contestant_has_tells_nothing(run, host, ticket):
    for record in read_records(run):
        assert record.header["scenario"] is None
        with pytest.raises(RecordError, match="redacted"):
            replay(record)
    secrets = [
        SECRET.encode(),
        bytes.fromhex(SECRET),
        json.loads((host.folder / "epoch.json").read_text())["salt"].encode(),
    ]
    had = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    told = [host.log.read_bytes(), (host.folder / "published.json").read_bytes()]
    assert [secret for secret in secrets for data in (*had, *told) if secret in data] == []
    journal = [path.read_bytes() for path in host.folder.glob("journal.db*")]
    assert [data for data in (*had, *told, *journal) if ticket.encode() in data] == []


def _the_operators_records_are_whole(host, name):
    before = host.surroundings()
    assert "AGENTENVS_SEALED_SECRET" not in before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTENVS_SEALED_SECRET", SECRET)
        records = sorted((host.folder / "runs" / name / "records").iterdir())
        assert len(records) == 3
        for path in records:
            assert replay(parse_records(path.read_bytes())[0]).equal
            assert path.stat().st_mode & 0o077 == 0


def _the_agent_could_do_nothing_else(run):
    said = json.loads((run / "sidecars" / "000000.json").read_text())["policy"]["output"].splitlines()
    tried = [json.loads(line) for line in said if line.startswith('{"path"')]
    assert len(tried) == 13
    assert {one["status"] for one in tried} <= {401, 403, 404}, tried
    names = json.loads(next(line for line in said if line.startswith("[")))
    assert not {"AGENTENVS_TICKET", "AGENTENVS_TOKEN", "AGENTENVS_SEALED_SECRET"} & set(names)


def test_killing_each_of_them_changes_nothing_and_two_on_one_ticket_get_no_more(host, tmp_path):
    ticket = host.ticket("ada")
    slow = f"{AGENT} 0.7"
    first = Contestant(host, ticket, tmp_path / "first", slow)
    until(lambda: host.opened() == 1)
    time.sleep(1.5)
    first.kill()
    pair = [Contestant(host, ticket, tmp_path / name, slow) for name in ("one", "two")]
    until(lambda: host.opened() == 2)
    host.kill()
    time.sleep(1.0)
    host.start()
    for one in pair:
        one.process.communicate(timeout=300)
    (line,) = host.tickets()
    assert (line["opened"], line["planned"]) == (3, 3)
    found = settled(host, line["ticket"])
    assert [(one["ending"], one["turns"]) for one in found["episodes"]] == [("truncated", 6)] * 3
    last = Contestant(host, ticket, tmp_path / "more")
    _, said = last.process.communicate(timeout=300)
    assert (last.process.returncode, "nothing is left of the ticket" in said) == (2, True)
    assert len(list((host.folder / "runs" / line["ticket"] / "records").iterdir())) == 3


def test_what_was_left_or_never_opened_counts_nothing(host, tmp_path):
    ticket = host.ticket("ada", "--hours", "0.006")  # 21.6 s
    leaving = Contestant(host, ticket, tmp_path / "run", f"{AGENT} 600")
    until(lambda: host.opened() == 1)
    leaving.kill()
    name = host.tickets()[0]["ticket"]
    found = settled(host, name)
    assert [one["ending"] for one in found["episodes"]] == ["abandoned", None, None]
    assert [(one["success"], one["reward"]) for one in found["episodes"]] == [(False, "0")] * 3
    refused = urllib.request.Request(f"{host.url}/v1/tickets/next", method="POST")
    refused.add_header("Authorization", f"Bearer {ticket}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(refused)
    assert json.load(caught.value)["code"] == "ticket_expired"
