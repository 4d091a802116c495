"""What a ticket came to is played again before it counts, and a run that cannot be had again counts nothing."""

from __future__ import annotations

import json
import sqlite3
import zlib
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from agentenvs.cli import settling
from agentenvs.cli.main import app
from agentenvs.client import TicketEnv
from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import ConfigError, DataError, RecordError
from agentenvs.core.record import _chain
from agentenvs.core.task import TaskRef
from agentenvs.leaderboard.hosting import epoch as epochs
from agentenvs.leaderboard.hosting.judging import judge
from agentenvs.leaderboard.hosting.panels import name_of
from agentenvs.leaderboard.hosting.rechecking import recheck
from agentenvs.leaderboard.hosting.results import HostedResult
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

SECRET = "00112233445566778899aabbccddeeff" * 2
PUBLIC = registry.make("agentenvs/Household-v0", limit=4).public_options()
WANTED = {
    "board": "spring",
    "env": "agentenvs/Household-v0",
    "split": "sealed",
    "size": 500,
    "options": PUBLIC,
    "shared": 2,
    "own": 1,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", SECRET)
    settling.begin(tmp_path / "host", WANTED)
    return tmp_path / "host"


@pytest.fixture
def played(folder):
    """A host's folder with one ticket, played: one scenario to its end, one given up, one never ended."""
    with background(
        ["household"], Settings(tokens=("a-token-for-this-test",)), {"limit": 4}, str(folder / "journal.db")
    ) as url:
        ticket, held = settling.issue(folder, "ada", 3600.0)
        with TicketEnv(ticket, url) as env:
            env.reset()
            while env.ending is None:
                env.step("look")
            env.reset()
            env.step("look")
            env.finish("abandoned")
            env.reset()
            env.finish("abandoned")
    return folder, held


def journal(folder, statement, *values):
    with sqlite3.connect(folder / "journal.db") as raw:
        return raw.execute(statement, values).fetchall()


def test_every_record_is_played_again_and_entered_once(played):
    folder, held = played
    entered = []

    def admit(result):
        entered.append(result)
        return f"row of {result.ticket}"

    (done,) = settling.settle(folder, {}, admit)
    assert (done.row, entered) == (f"row of {held.name}", [done.result])
    assert [(one.ending, one.turns) for one in done.result.episodes] == [
        ("truncated", 4),
        ("abandoned", 1),
        ("abandoned", 0),
    ]
    assert done.result.options["limit"] == 4
    assert HostedResult.from_json(json.loads((folder / "runs" / held.name / "result.json").read_text())) == done.result
    assert list(settling.settle(folder, {}, admit)) == []
    assert [line.state for line in settling.lines(folder)] == ["settled"]


def test_settling_that_was_killed_is_done_again_with_the_same_receipt(played):
    folder, held = played

    def killed(_):
        raise DataError("the board is away")

    ((name, error),) = settling.settle(folder, {}, killed)
    assert (name, error.what) == (held.name, "the board is away")
    receipt = (folder / "receipts" / f"{held.name}.json").read_bytes()
    assert [line.state for line in settling.lines(folder)] == ["due"]
    (done,) = settling.settle(folder, {})
    assert (done.row, done.receipt.read_bytes()) == (None, receipt)


def test_a_ticket_of_which_something_may_come_is_not_settled(folder):
    with background(["household"], Settings(), journal=str(folder / "journal.db")) as url:
        ticket, _ = settling.issue(folder, "ada", 3600.0)
        with TicketEnv(ticket, url) as env:
            env.reset()
            assert list(settling.settle(folder, {})) == []
            journal(folder, "UPDATE tickets SET deadline = deadline - 3700")
            (done,) = settling.settle(folder, {})  # it still runs, long after its time
    assert [one.ending for one in done.result.episodes] == ["abandoned", None, None]
    assert (done.result.successes, done.result.reward, done.result.unopened) == (0, 0, 2)


def test_the_secret_of_the_promise_is_needed(played, monkeypatch):
    folder, _ = played
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", SECRET[::-1])
    with pytest.raises(ConfigError, match="another secret"):
        list(settling.settle(folder, {}))
    with pytest.raises(ConfigError, match="another secret"):
        settling.issue(folder, "bob", 60.0)


def forged(record, change):
    """Return a record in which something was changed, its chain made anew."""
    lines = [json.loads(line) for line in record.splitlines()]
    for line in lines:
        line.pop("h")
    change(lines)
    chain = _chain(lines)
    return b"".join(canonical_bytes({**line, "h": link}) + b"\n" for line, link in zip(lines, chain, strict=True))


def _won(lines):
    lines[-1]["verdict"] |= {"reward": 1.0, "success": True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_won, "does not happen again"),
        (lambda lines: lines[1].update(observation="0" * 64), "does not happen again"),
        (lambda lines: lines[0].update(privileged=True), "with knowledge from elsewhere"),
        (lambda lines: lines[0].update(library="0" * 64), "with knowledge from elsewhere"),
        (lambda lines: lines[0]["task"].update(index=7), "the ticket gave out"),
        (lambda lines: lines[0]["task"].update(split="dev"), "the ticket gave out"),
        (lambda lines: lines[0].update(release="0.0"), "is of release 0.0"),
        (lambda lines: lines[0]["options"].update(limit=100), "with other options"),
        (lambda lines: lines[0].update(redacted=True), "is redacted"),
        (lambda lines: lines[-1].update(ending="terminated"), "not the end that its server says"),
        (lambda lines: lines.pop(), "not the end that its server says"),
    ],
)
def test_a_journal_that_was_tampered_with_is_not_believed(played, change, said):
    folder, _ = played
    ((no, packed),) = journal(folder, "SELECT no, record FROM episodes ORDER BY no LIMIT 1")
    record = forged(zlib.decompress(packed), change)
    journal(folder, "UPDATE episodes SET record = ? WHERE no = ?", zlib.compress(record), no)
    ((_, error),) = settling.settle(folder, {})
    assert isinstance(error, RecordError)
    assert said in f"{error.what}: {error.why}"
    assert [line.state for line in settling.lines(folder)] == ["due"]
    assert not (folder / "runs").exists()


def test_a_record_that_was_cut_doubled_or_lost(played):
    folder, held = played
    taken, _ = settling._taken(folder, held)
    epoch = epochs.read(folder)
    first, *rest = taken.scenarios
    for record, said in ((first.record[:-20], "no JSON"), (first.record * 2, "is 2 records"), (b"", "is empty")):
        with pytest.raises(RecordError, match=said):
            judge(replace(taken, scenarios=(replace(first, record=record), *rest)), epoch)
    found = judge(replace(taken, scenarios=(replace(first, record=None, ending="aborted"), *rest)), epoch)
    assert (found.episodes[0].ending, found.episodes[0].reward) == ("aborted", 0.0)
    swapped = replace(taken, scenarios=(replace(first, record=rest[0].record, ending=rest[0].ending), *rest))
    with pytest.raises(RecordError, match="the ticket gave out"):
        judge(swapped, epoch)


def test_once_the_secret_is_revealed_everybody_can_play_it_again(played, tmp_path, monkeypatch):
    folder, held = played
    list(settling.settle(folder, {}))
    revealed = epochs.read(folder).reveal()
    monkeypatch.delenv("AGENTENVS_SEALED_SECRET")
    assert recheck(folder, revealed) == 1
    result = folder / "runs" / held.name / "result.json"
    honest = result.read_bytes()
    form = json.loads(honest)
    form["episodes"][0] |= {"success": True, "reward": "1"}
    result.write_bytes(canonical_bytes(form))
    with pytest.raises(DataError, match="not worth what it was given"):
        recheck(folder, revealed)
    result.write_bytes(canonical_bytes({**json.loads(honest), "attempt": 2}))
    with pytest.raises(DataError, match="has a name that was chosen"):
        recheck(folder, revealed)
    result.write_bytes(honest)
    record = folder / "runs" / held.name / "records" / "000000.jsonl"
    record.write_bytes(forged(record.read_bytes(), lambda lines: lines[1].update(observation="0" * 64)))
    with pytest.raises(RecordError, match="does not happen again"):
        recheck(folder, revealed)
    with pytest.raises(DataError, match="not what was promised"):
        recheck(folder, {**revealed, "key": SECRET[::-1]})


def test_a_ticket_s_name_cannot_be_drawn_for_and_look_alikes_are_one_contestant(played):
    folder, held = played
    _, again = settling.issue(folder, "ada", 60.0, again=True)
    secret = epochs.read(folder).secret
    assert [held.name, again.name] == [name_of("spring", secret, "ada", attempt) for attempt in (1, 2)]
    for other in ("ADA", "\u0410\u0501\u0430"):
        with pytest.raises(ConfigError, match="looks like 'ada'"):
            settling.issue(folder, other, 60.0)


def test_a_sealed_scenario_cannot_be_made_from_what_a_contestant_got(played, monkeypatch):
    _, held = played
    monkeypatch.delenv("AGENTENVS_SEALED_SECRET")
    env = registry.make("agentenvs/Household-v0")
    with pytest.raises(ConfigError, match="needs the operator's secret"):
        env.reset(TaskRef("sealed", held.numbers[0]))


def test_a_ticket_that_cannot_be_settled_holds_up_no_other(played):
    folder, held = played
    journal(folder, "UPDATE episodes SET record = ?", zlib.compress(b"nonsense"))
    _, other = settling.issue(folder, "bob", 60.0)
    journal(folder, "UPDATE tickets SET deadline = 1 WHERE name = ?", other.name)
    (name, error), done = settling.settle(folder, {})
    assert (name, type(error)) == (held.name, RecordError)
    assert (done.result.ticket, done.result.unopened, done.result.options) == (other.name, 3, PUBLIC)
    said = CliRunner().invoke(app, ["leaderboard", "settle", str(folder)])
    assert (said.exit_code, f"{held.name} stays due" in said.stderr) == (1, True)
