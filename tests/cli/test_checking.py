"""``replay`` and ``rescore``: equal, or the first difference, or why it cannot be told."""

from __future__ import annotations

import json

import pytest

from agentenvs.core.record import _chain


@pytest.fixture
def record(cli, tmp_path):
    """The record of a short episode."""
    cli("play", "household", "--record", "mine.jsonl", stdin="look\njunk\n:quit\n")
    return tmp_path / "mine.jsonl"


def forge(path, change) -> None:
    """Change a record and mend its chain."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("h")
    change(lines)
    links = _chain(lines)
    path.write_text("".join(json.dumps({**line, "h": link}) + "\n" for line, link in zip(lines, links, strict=True)))


def test_a_record_replays_and_rescores(cli, record):
    assert cli("replay", "mine.jsonl").out == "1 of 1 records replay equal\n"
    assert cli("rescore", "mine.jsonl", "--json").json["equal"] == 1


def test_progress_stands_on_stderr(cli, record):
    assert cli("replay", "mine.jsonl").err == "replay: 1/1, 1 equal\n"


def test_a_changed_record_is_refused(cli, record):
    record.write_text(record.read_text().replace('"action":"look"', '"action":"help"'))
    ran = cli("replay", "mine.jsonl")
    assert ran.code == 2
    assert "line 2 of mine.jsonl breaks the chain" in ran.err


def test_a_divergence_names_turn_field_and_values(cli, record):
    forge(record, lambda lines: lines[1].update(action="inventory"))
    ran = cli("replay", "mine.jsonl")
    assert ran.code == 1
    assert "0 of 1 records replay equal\n  train/0: turn 1, observation: recorded '" in ran.out
    said = cli("replay", "mine.jsonl", "--json").json["checks"][0]["divergence"]
    assert (said["turn"], said["field"]) == (1, "observation")
    assert said["recorded"] != said["replayed"]


def test_a_better_verdict_than_the_outcome_is_worth(cli, record):
    forge(record, lambda lines: lines[-1]["verdict"].update(reward=1.0, success=True))
    ran = cli("rescore", "mine.jsonl")
    assert ran.code == 1
    assert "reward: recorded 1.0, rescored 0.0; success: recorded True, rescored False" in ran.out


def test_every_record_of_a_folder_is_checked(cli, record, tmp_path):
    forged = tmp_path / "other.jsonl"
    forged.write_bytes(record.read_bytes())
    forge(forged, lambda lines: lines[1].update(action="inventory"))
    ran = cli("replay", ".", "--json")
    assert (ran.code, ran.json["records"], ran.json["equal"]) == (1, 2, 1)


def test_a_record_without_an_end_has_no_verdict(cli, record):
    forge(record, lambda lines: lines.pop())
    ran = cli("rescore", "mine.jsonl")
    assert ran.code == 2
    assert "AE107 the record of train/0 cannot be checked: the record has no end" in ran.err


def test_a_record_of_games_that_are_not_here(cli, record):
    forge(record, lambda lines: lines[0]["task"].update(split="valid_seen"))
    ran = cli("replay", "mine.jsonl")
    assert ran.code == 2
    assert "valid_seen/0 cannot be checked" in ran.err
    assert "--data DIR" in ran.err


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe\x00", "is no JSON"), (b"[1]\n", "is no line of a record"), (b"", "is empty")],
)
def test_what_is_no_record(cli, tmp_path, content, message):
    (tmp_path / "junk").write_bytes(content)
    ran = cli("replay", "junk")
    assert ran.code == 2
    assert message in ran.err


def test_no_records_at_a_path(cli):
    ran = cli("replay", "nowhere")
    assert ran.code == 2
    assert "there are no records at nowhere" in ran.err


def test_a_file_that_cannot_be_read(cli, tmp_path):
    (tmp_path / "folder.jsonl").mkdir()
    ran = cli("rescore", ".")
    assert ran.code == 2
    assert "AE105 folder.jsonl cannot be read or written" in ran.err


def test_real_games(cli, shared_data):
    data = ("--data", str(shared_data / "household"))
    args = ("eval", "household", "--policy", "noop", "--split", "valid_seen", "--episodes", "2", "-o", "limit=3")
    cli(*args, *data, "--out", "run")
    assert cli("replay", "run", *data).out == "2 of 2 records replay equal\n"
    assert cli("replay", "run").code == 2


@pytest.mark.usefixtures("fixtures")
def test_data_for_an_environment_that_reads_none(cli):
    cli("play", "clerk", "--record", "mine.jsonl")
    ran = cli("replay", "mine.jsonl", "--data", ".")
    assert ran.code == 2
    assert "AE103 the record of train/0 cannot be checked: tests/Clerk-v0 reads no data" in ran.err
