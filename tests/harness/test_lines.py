"""Run folders from anybody: what is wrong is named, and is no crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.errors import DataError
from agentenvs.harness.lines import read_lines
from agentenvs.harness.report import read_run
from tests.harness.compare.made import outcomes, run


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", None), ("split", 3), ("index", "x"), ("index", True), ("scenario_digest", 5), ("kind", []),
        ("par", "x"), ("ending", None), ("success", "no"), ("success", 1), ("reward", "1"), ("episode_return", None),
        ("turns", 1.5), ("invalid", None), ("error", 3), ("usage", None), ("metrics", []), ("difficulty", {}),
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_named(tmp_path: Path, field: str, value: Any) -> None:
    rows = [one.to_json() for one in outcomes("10")]
    path = tmp_path / "episodes.jsonl"
    path.write_text(json.dumps(rows[0]) + "\n" + json.dumps({**rows[1], field: value}) + "\n")
    with pytest.raises(ValueError, match=f"line 2: {field} is "):
        read_lines(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "is no object"),
        ("{}", "line 1: .*number"),
        ('{"number": NaN}', "NaN is no number"),
        ("{", "line 1: Expecting"),
    ],
)
def test_a_line_that_is_none(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "episodes.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=said):
        read_lines(tmp_path / "episodes.jsonl")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_rewards_that_are_no_numbers(tmp_path: Path, number: str) -> None:
    run(tmp_path / "run", outcomes("10"))
    table = tmp_path / "run" / "episodes.jsonl"
    table.write_text(table.read_text().replace('"reward":1.0', f'"reward":{number}'))
    with pytest.raises(DataError, match="is no run folder") as caught:
        read_run(tmp_path / "run")
    assert caught.value.why.startswith("line 1: ")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"envs": []}, "is of 0 environments"),
        ({"entry": {"options": "{bad"}}, "Expecting"),
        ({"entry": {"options": "[]"}}, "no object"),
    ],
)
def test_manifests_that_do_not_say_what_was_played(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        run(tmp_path / "run", outcomes("1"), **more)
    assert said in caught.value.why
