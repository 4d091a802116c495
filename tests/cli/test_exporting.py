"""``export``: runs in the formats of others, on the command line."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def played(cli, tmp_path):
    for policy in ("oracle", "noop"):
        ran = cli("eval", "household", "--policy", policy, "--episodes", "2", "--out", policy, "-o", "limit=40")
        assert ran.code == 0, ran.err
    return tmp_path


@pytest.mark.parametrize(
    ("to", "out"),
    [("inspect", "logs"), ("sft", "a.jsonl"), ("atif", "trajectories"), ("otel", "a.otlp.jsonl")],
)
def test_every_format_takes_every_episode(cli, played, to, out):
    ran = cli("export", "oracle", "noop", "--to", to, "--out", out)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"4 episode(s) in {out}: 2 terminated, 2 truncated")
    again = cli("export", "oracle", "--to", to, "--out", out)
    assert (again.code, "is there already" in again.err) == (2, True)


def test_what_is_proved_is_told(cli, played):
    ran = cli("export", "oracle", "--to", "inspect", "--out", "a.eval", "--verify")
    assert (ran.code, "2 played again, each as its record says" in ran.out) == (0, True)
    ran = cli("export", "oracle", "noop", "--to", "sft", "--only", "won", "--verify", "--out", "won.jsonl", "--json")
    assert ran.json == {
        "out": "won.jsonl", "files": 1, "episodes": 2, "won": 2, "endings": {"terminated": 2},
        "verified": 2, "unverified": 0, "not_verified": {},
    }  # fmt: skip
    path = played / "oracle" / "sidecars" / "000001.json"
    forged = json.loads(path.read_text())
    forged["turns"][0]["observation"] = "You win.\x1b[31m"
    path.write_text(json.dumps(forged))
    ran = cli("export", "oracle", "--to", "sft", "--verify", "--out", "forged.jsonl")
    assert ran.code == 1
    assert "1 not proved, which say so:" in ran.out
    assert "its sidecar says something else than was seen in turn 1" in ran.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--to", "csv"), "there is no format 'csv'"),
        (("--to", "sft", "--only", "lost"), "--only 'lost' means nothing here"),
        (("--to", "sft", "--data", "games"), "--data has no effect here"),
        (("--to", "sft", "--data", "games", "--verify"), "there is no manifest at"),
        (("--to", "sft"), "there is no manifest at"),
    ],
)
def test_mistakes_are_told(cli, tmp_path, args, said):
    ran = cli("export", "nowhere", "--out", "data.jsonl", *args)
    assert ran.code == 2
    assert said in ran.err
    assert list(tmp_path.iterdir()) == []
