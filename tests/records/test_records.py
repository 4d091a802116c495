"""Every record on file replays to the byte and rescores, or names the version that replays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import RecordError
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay, rescore
from tests.envs.fixtures import register_fixtures
from tests.records.make import HERE, SLUGS

FILES = sorted(HERE.glob("*.jsonl"))

register_fixtures()


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_record_replays_and_rescores(path: Path) -> None:
    for record in parse_records(path.read_bytes(), path.name):
        if record.header["release"] != registry.spec(record.header["env"]).release:
            with pytest.raises(RecordError, match=f"version {record.header['since']} of its package"):
                replay(record)
            continue
        report = replay(record)
        assert report.equal, str(report.divergence)
        assert rescore(record).equal


@pytest.mark.parametrize("slug", SLUGS)
def test_the_present_release_is_on_file(slug: str) -> None:
    stem = f"{slug}-{registry.spec(slug).release}-"
    assert sum(path.name.startswith(stem) for path in FILES) >= 2


def test_the_records_hold_what_is_worth_holding() -> None:
    found = [record for path in FILES for record in parse_records(path.read_bytes())]
    errors = {turn["error"] for record in found for turn in record.turns}
    assert {"malformed", "too_many_calls", "wrong_kind", "step_crashed", "step_raised", "step_timeout"} <= errors
    endings = {record.footer["ending"] for record in found if record.footer is not None}
    assert {"terminated", "abandoned", "aborted"} <= endings
    assert any(record.footer is not None and record.footer["verdict"]["success"] for record in found)
