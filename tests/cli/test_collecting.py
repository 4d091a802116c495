"""``collect``: verified trajectories on the command line."""

from __future__ import annotations

import json

import pytest


def test_episodes_become_rows_with_their_rules_beside_them(cli, tmp_path):
    args = ("collect", "household", "--episodes", "2", "--trials", "2", "--verified")
    ran = cli(*args, "--policy", "oracle", "--out", "data.jsonl")
    assert ran.code == 0, ran.err
    assert "2 of 4 episode(s) kept in data.jsonl" in ran.out
    assert "2 dropped: the same states and actions were kept already" in ran.out
    assert "2 are of a player that was shown the hidden scenario" in ran.out
    rows = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text().splitlines()]
    assert all(row["privileged"] and row["messages"][-1]["role"] == "assistant" for row in rows)
    manifest = json.loads((tmp_path / "data.jsonl.manifest.json").read_text())
    assert (manifest["kept"], manifest["dropped"], manifest["rules"]["won"]) == (2, {"duplicate": 2}, True)
    again = cli(*args, "--policy", "oracle", "--out", "data.jsonl")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_runs_that_were_played_are_taken_as_they_are(cli):
    for policy in ("oracle", "noop"):
        cli("eval", "household", "--policy", policy, "--episodes", "2", "--out", policy, "-o", "limit=40")
    ran = cli("collect", "household", "--from", "oracle", "--from", "noop", "--out", "both.jsonl", "--json")
    assert (ran.json["kept"], ran.json["played"], ran.json["dropped"]) == (2, 4, {"not_won": 2})
    empty = cli("collect", "household", "--from", "noop", "--out", "none.jsonl")
    assert empty.code == 1
    assert "0 of 2 episode(s) kept" in empty.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "give --policy NAME, or --from RUN"),
        (("--policy", "noop", "--from", "run"), "give --policy NAME, or --from RUN"),
        (("--policy", "noop", "--max-turns", "0"), "max turns 0 keeps nothing"),
        (("--from", "nowhere"), "there is no manifest at"),
        (("--policy", "noop", "--model", "m"), "--model has no effect here"),
    ],
)
def test_mistakes_are_told(cli, tmp_path, args, said):
    ran = cli("collect", "household", "--out", "data.jsonl", *args)
    assert ran.code == 2
    assert said in ran.err
    assert list(tmp_path.iterdir()) == []
