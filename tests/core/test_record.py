"""Records: the same play gives the same bytes, and what was changed afterwards is found and named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import RecordError
from agentenvs.core.record import Recorded, parse_records, read_records, without_rewards
from agentenvs.core.task import TaskRef
from tests.envs.fixtures import register_fixtures

register_fixtures()
REF = TaskRef("train", 1)


def played(finish: bool = True) -> Recorded:
    recorded = Recorded(registry.make("clerk"))
    recorded.reset(REF)
    recorded.step({"message": "Nice weather."})
    recorded.step("junk")
    if finish:
        recorded.finish("abandoned")
    return recorded


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def chained(lines: list[dict[str, Any]]) -> bytes:
    """Write lines again so that their chain holds, as a forger would."""
    before, out = "", []
    for line in lines:
        body = {key: value for key, value in line.items() if key != "h"}
        before = hashlib.sha256(before.encode() + json.dumps(body, **_CANONICAL).encode()).hexdigest()
        out.append(json.dumps({**body, "h": before}, **_CANONICAL))
    return "\n".join(out).encode()


_CANONICAL: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}


def test_a_record_is_canonical_and_holds_no_time_or_name():
    data = played().to_bytes()
    assert data == played().to_bytes()
    assert all(canonical_bytes(json.loads(line)) == line for line in data.splitlines())
    assert [line["kind"] for line in lines_of(data)] == ["header", "turn", "turn", "footer"]


def test_a_record_is_read_back():
    record = parse_records(played().to_bytes())[0]
    assert record.ref == REF
    assert [turn["valid"] for turn in record.turns] == [True, False]
    assert record.turns[0]["effects"][0]["kind"] == "customer"
    assert record.verdict is not None
    assert record.footer is not None
    assert record.footer["ending"] == "abandoned"
    assert record.digest == lines_of(played().to_bytes())[-1]["h"]


def test_a_record_without_an_end_is_read_too():
    record = parse_records(played(finish=False).to_bytes())[0]
    assert (record.footer, record.verdict, len(record.turns)) == (None, None, 2)


def test_finishing_twice_writes_one_footer():
    recorded = played()
    data = recorded.to_bytes()
    recorded.finish("truncated")
    assert recorded.ended
    assert recorded.to_bytes() == data


@pytest.mark.parametrize("number", range(4))
def test_a_changed_line_is_named(number):
    lines = lines_of(played().to_bytes())
    lines[number]["added"] = 1
    data = b"\n".join(canonical_bytes(line) for line in lines)
    with pytest.raises(RecordError, match=f"line {number + 1} of the record breaks the chain"):
        parse_records(data)


def test_a_removed_line_breaks_the_chain():
    lines = played().to_bytes().splitlines()
    with pytest.raises(RecordError, match="line 2 of x breaks the chain"):
        parse_records(b"\n".join([lines[0], *lines[2:]]), "x")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"{", "line 1 of the record is no JSON"),
        (b"\xff\xfe", "line 1 of the record is no JSON"),
        (b"[" * 100_000, "line 1 of the record is no JSON"),
        (b"[]", "is no line of a record"),
        (b'{"kind": "header"}', "is no line of a record"),
        (b'{"kind": "other", "h": ""}', "is no line of a record"),
        (b'{"kind": "header", "h": "", "format": 7}', "has format 7"),
        (b'{"kind": "header", "h": "", "format": 1, "x": "\\ud800"}', "line 1 of the record is no JSON"),
        (b'{"kind": "header", "h": "", "format": 1, "x": 1e999}', "line 1 of the record is no JSON"),
    ],
)
def test_what_is_no_record_is_refused(data, match):
    with pytest.raises(RecordError, match=match):
        parse_records(data)


def _without(name: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda lines: [line.pop(name, None) for line in lines] and None


def _changed(number: int, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda lines: lines[number].update(fields)


def _failed(lines: list[dict[str, Any]], **fields: Any) -> None:
    lines[3].update({"failed": True, "ending": "aborted", **fields})


_WON = {"reward": 1.0, "success": True, "components": {}, "reasons": [], "facts": {}}

FORGED: list[tuple[str, Callable[[list[dict[str, Any]]], Any]]] = [
    ("line 1 of the record.*\n.*'task' of its header", _without("task")),
    ("line 1 of the record.*\n.*'task' of its header", _changed(0, task={"split": "train"})),
    ("line 1 of the record.*\n.*'task' of its header", _changed(0, task={"split": "train", "index": True})),
    ("line 1 of the record.*\n.*'since' of its header", _without("since")),
    ("line 1 of the record.*\n.*'effects' of its header", _without("effects")),
    ("line 2 of the record.*\n.*'action' of its turn", _without("action")),
    ("line 2 of the record.*\n.*'reward' of its turn", _changed(1, reward="much")),
    ("line 2 of the record.*\n.*'reward' of its turn", _changed(1, reward=True)),
    ("line 2 of the record.*\n.*'reward' of its turn", _changed(1, reward=10**400)),
    ("line 2 of the record.*\n.*'effects' of its turn", _changed(1, effects=[7])),
    ("line 2 of the record.*\n.*'effects' of its turn", _changed(1, effects=[{"kind": "x"}])),
    ("line 4 of the record.*\n.*'verdict' of its footer", _changed(3, verdict=None)),
    ("line 4 of the record.*\n.*'verdict' of its footer", lambda lines: lines[3]["verdict"].pop("facts")),
    ("line 4 of the record.*\n.*'ending' of its footer", _changed(3, ending="won")),
    ("line 4 of the record.*\n.*has earned nothing", lambda lines: _failed(lines, verdict=_WON)),
    ("line 4 of the record.*\n.*the field 'failed' of its footer", lambda lines: _failed(lines, failed="yes")),
    ("line 1 of the record.*\n.*the field 'redacted' of its header", lambda lines: lines[0].update(redacted="")),
    ("line 4 of the record.*\n.*has earned nothing", lambda lines: _failed(lines, ending="terminated")),
    ("line 1 of the record.*\n.*shows nothing", _changed(0, observation=None)),
    ("are not a header, turns in order, a footer", _changed(2, turn=3)),
    ("are not a header, turns in order, a footer", lambda lines: lines[1].pop("turn")),
    ("are not a header, turns in order, a footer", lambda lines: lines.append(lines[1])),
    ("are not a header, turns in order, a footer", lambda lines: lines.pop(0)),
]


@pytest.mark.parametrize(("match", "forge"), FORGED, ids=[str(number) for number in range(len(FORGED))])
def test_a_forged_record_whose_chain_holds_is_refused(match, forge):
    lines = lines_of(played().to_bytes())
    forge(lines)
    with pytest.raises(RecordError, match=match):
        parse_records(chained(lines))


def test_several_records_stand_in_one_file(tmp_path):
    data = played().to_bytes() + played(finish=False).to_bytes() + played().to_bytes()
    assert [len(record.turns) for record in parse_records(data)] == [2, 2, 2]
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.jsonl").write_bytes(data)
    (tmp_path / "records" / "b.jsonl").write_bytes(played().to_bytes())
    assert len(list(read_records(tmp_path))) == 4
    assert len(list(read_records(tmp_path / "records"))) == 4
    assert len(list(read_records(tmp_path / "records" / "a.jsonl"))) == 3


def test_a_path_without_records_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent.jsonl"):
        with pytest.raises(RecordError, match="there are no records at"):
            list(read_records(path))


def test_a_fork_has_a_whole_record_that_names_where_it_left():
    recorded = Recorded(registry.make("ledger"))
    recorded.reset(REF)
    recorded.step({"tool": "next_invoice"})
    parent = parse_records(recorded.to_bytes())[0]
    twin = recorded.fork()
    twin.step({"tool": "close_books"})
    record = parse_records(twin.to_bytes())[0]
    assert record.header["forked_from"] == {"digest": parent.digest, "turn": 1}
    assert [turn["turn"] for turn in record.turns] == [1, 2]
    assert not recorded.ended


def test_an_environment_that_fails_still_gets_a_record():
    recorded = Recorded(registry.make("clerk"))
    verdict = recorded.abort("it broke", REF)
    assert (verdict.success, verdict.reasons) == (False, ("the environment failed: it broke",))
    record = parse_records(recorded.to_bytes())[0]
    assert record.header["observation"] is None
    assert record.footer is not None
    assert (record.footer["ending"], record.footer["failed"]) == ("aborted", True)


def test_there_is_no_record_before_the_first_episode():
    recorded = Recorded(registry.make("clerk"))
    assert recorded.to_bytes() == b""
    assert not recorded.ended


def test_a_record_without_rewards_tells_nothing_of_what_was_earned():
    recorded = Recorded(registry.make("household"))
    recorded.reset()
    recorded.step("look")
    recorded.finish("abandoned")
    shown = without_rewards(recorded.to_bytes())
    assert b'"action":"look"' in shown
    for word in (b"reward", b"verdict", b"success", b"return", b'"h"'):
        assert word not in shown
