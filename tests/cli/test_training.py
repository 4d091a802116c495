"""``train``: mistakes in words, methods with their sources, a run with its report, and going on with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason='the trainer needs PyTorch: pip install "agentenvs[train]"')
pytest.importorskip("transformers", reason='the trainer needs transformers: pip install "agentenvs[train]"')

SMALL = """
steps = 2
method = "gigpo"
worlds.household = {env = "household", options = {difficulty = "easiest", limit = 3}}
shape = {hidden = 32, layers = 2, heads = 2, feed_forward = 64, length = 512}
model = {vocabulary = 400, threads = 1}
rollout = {max_turn_tokens = 6, max_length = 512}
slots = {slots = 4, max_length = 512}
sampler = {groups = 2, group_size = 2}
evaluation = {every = 2, count = 2}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_run_with_its_report_and_the_way_back(cli, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran = cli("train", str(config), "--out", str(folder), "--set", "name=first", "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert [line["step"] for line in told["evaluations"]] == [0, 2]
    assert "step 1" in ran.err
    page = Path(told["report"]).read_text(encoding="utf-8")
    assert "first: gigpo" in page
    assert page.count("<svg") >= 4
    assert "http" not in page.replace("http://www.w3.org", "")
    again = cli("train", "--resume", str(folder), "--quiet")
    assert again.code == 0
    assert "95 % interval" in again.out


def test_methods_say_where_they_come_from(cli) -> None:
    ran = cli("train", "--methods", "--json")
    assert {one["name"]: one["provenance"] for one in json.loads(ran.out)}["gigpo"] == "exact"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "takes a configuration"),
        (("nowhere.toml",), "cannot be read"),
        (("{config}", "--resume", "runs/a"), "takes a configuration"),
        (("--resume", "runs/a", "--set", "steps=3"), "own configuration"),
        (("--resume", "nowhere"), "has no run"),
        (("{config}", "--set", "method=grpx"), "no method 'grpx'"),
        (("{config}", "--set", "learner.lr=fast"), "lr is 'fast'"),
        (("{config}", "--set", "worlds.household.env=nowhere"), "nowhere"),
    ],
)
def test_mistakes_are_told_in_words(cli, config: Path, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    asked = [word.format(config=config) for word in words]
    ran = cli("train", *asked, *(() if "--resume" in asked else ("--out", str(tmp_path / "run"))))
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_the_credit_of_methods_is_audited(cli, config: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "audit"
    assert cli("train", str(config), "--out", str(run), "--quiet").code == 0
    words = ("--episodes", "4", "--group-size", "2", "--branches", "2", "--warmup", "0", "--methods", "grpo, wpm")
    ran = cli("train", "credit-audit", str(run), "--out", str(out), *words, "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert told["measured"] == 4
    assert "measured 4 of 4" in ran.err
    assert set(told["methods"]) | set(told["missing"]) == {"grpo", "wpm"}
    again = cli("train", "credit-audit", str(run), "--out", str(out), *words)
    assert again.code == 0
    assert "half of the truth" in again.out
    other = cli("train", "credit-audit", str(run), "--out", str(out), "--branches", "4", *words[:4])
    assert other.code == 2
    assert "another audit" in other.err
