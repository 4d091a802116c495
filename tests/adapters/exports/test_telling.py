"""What is told of an episode, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenvs.adapters.exports import writing
from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.harness.collect import writing as collecting
from agentenvs.harness.collect.rules import Rules
from tests.adapters.exports.runs import COUNTER, DESK, HOSTILE, rows, run, samples, with_model
from tests.harness.endpoint import calls, serve, without_proxies, words


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


def _roles(row: dict[str, Any]) -> list[str]:
    return [message["role"] for message in row["messages"]]


@pytest.mark.parametrize(
    ("player", "options", "ending", "fault", "won"),
    [
        ("Climber", {}, "terminated", None, True),
        ("Junker", {}, "truncated", None, False),
        ("Quitter", {}, "abandoned", None, False),
        ("Faller", {}, "abandoned", "policy", False),
        ("Climber", {"fault": "act", "at": 2}, "aborted", "environment", False),
        ("Climber", {"fault": "begin", "at": 2}, "aborted", "environment", False),
        ("Climber", {"fault": "scenario", "at": 2}, "aborted", "environment", False),
    ],
)
def test_every_end_is_told_once(
    tmp_path: Path, player: str, options: dict[str, Any], ending: str, fault: str | None, won: bool
) -> None:
    folder = run(tmp_path / "run", player, start=2, episodes=1, options=options)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl")
    (trajectory,) = rows([folder], "atif", tmp_path / "atif")
    (trace,) = rows([folder], "otel", tmp_path / "a.otlp.jsonl")
    (sample,) = samples(folder, tmp_path / "a.json")
    assert (row["ending"], row["fault"], row["success"]) == (ending, fault, won)
    assert row["messages"][1]["role"] == "user"
    state = trajectory["extra"]["state"]
    assert (state["ending"], state["fault"], state["success"]) == (ending, fault, won)
    assert sample["metadata"]["ending"] == ending
    assert ("error" in sample, "limit" in sample) == (fault is not None, fault is None and ending != "terminated")
    assert sample["scores"]["success"]["value"] == float(won)
    span = trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert ("code" in span["status"]) == (fault is not None)
    came = writing.export([folder], "sft", tmp_path / "again.jsonl", verify=True)
    assert (came.episodes, came.verified, came.not_verified) == (1, 1, {})


def test_only_won_leaves_the_others_out(tmp_path: Path) -> None:
    folders = [run(tmp_path / "a", "Climber"), run(tmp_path / "b", "Quitter")]
    told = rows(folders, "sft", tmp_path / "all.jsonl")
    assert [row["index"] for row in told] == [0, 1, 2, 3, 4, 5] * 2
    kept = rows(folders, "sft", tmp_path / "won.jsonl", only_won=True)
    assert [row["id"] for row in kept] == [row["id"] for row in told if row["success"]]
    writing.export([folders[1]], "inspect", tmp_path / "won.json", only_won=True)
    log = json.loads((tmp_path / "won.json").read_text())
    assert log["eval"]["metadata"]["only_won"] is True
    assert len(log["samples"]) == log["results"]["total_samples"] == sum(row["success"] for row in told[6:])


@pytest.mark.parametrize("player", ["Climber", "Caller"])
def test_played_again_it_is_what_collect_keeps(tmp_path: Path, player: str) -> None:
    folder = run(tmp_path / "run", player)
    collecting.collect([folder], tmp_path / "kept.jsonl", Rules(distinct=False), {})
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    told = rows([folder], "sft", tmp_path / "told.jsonl", verify=True)
    shared = ("id", "messages", "spans", "env", "index", "scenario", "record", "player", "success", "reward", "turns")
    assert [{name: row[name] for name in shared} for row in told] == [
        {name: row[name] for name in shared} for row in kept
    ]
    assert all(row["verified"] is True for row in told)
    plain = rows([folder], "sft", tmp_path / "plain.jsonl")
    assert plain[2]["messages"][1]["content"] == "You are at the foot of the stairs."
    assert told[2]["messages"][1]["content"] == "You are at the foot of the stairs.\n\n[steps left: 5]"
    assert {row["verified"] for row in plain} == {None}


def test_tool_calls_are_tool_calls_with_their_results(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Adder", COUNTER, episodes=1)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl", verify=True)
    assert _roles(row)[2:] == ["assistant", "tool", "tool", "assistant"]
    first = row["messages"][2]
    assert [call["function"]["arguments"] for call in first["tool_calls"]] == ['{"by": 1}'] * 2
    assert [message["tool_call_id"] for message in row["messages"][3:5]] == [call["id"] for call in first["tool_calls"]]
    assert [tool["function"]["name"] for tool in json.loads(row["tools"])] == ["add"]
    (trajectory,) = rows([folder], "atif", tmp_path / "atif", verify=True)
    step = trajectory["steps"][2]
    assert [call["arguments"] for call in step["tool_calls"]] == [{"by": 1}] * 2
    assert [result["source_call_id"] for result in step["observation"]["results"]] == [
        call["tool_call_id"] for call in step["tool_calls"]
    ]
    assert step["extra"] == {"turn": 1, "reward": 0.0, "valid": True, "error": None}
    assert step["llm_call_count"] == 0
    (sample,) = samples(folder, tmp_path / "a.json", verify=True)
    tools = [event for event in sample["events"] if event["event"] == "tool"]
    assert [event["arguments"] for event in tools] == [{"by": 1}] * 4
    assert sample["messages"][3]["function"] == "add"


def test_a_dialogue_and_its_end(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Clerk", DESK, episodes=1)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl")
    asked, told, ended = (row["messages"][span["message"]] for span in row["spans"])
    assert asked["tool_calls"][0]["function"]["name"] == "hours"
    assert told["content"] == "At nine."
    assert ended["tool_calls"][0]["function"] == {"name": "end_episode", "arguments": '{"reason": "done"}'}


def test_a_models_words_tokens_and_dollars(tmp_path: Path) -> None:
    answers = (calls(("add", {"by": 1}), text="one"), words("hm"), calls(("add", {"by": 2})))
    with serve(*answers) as endpoint:
        folder = with_model(tmp_path / "run", endpoint)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl", verify=True)
    assert (row["model"], row["tokens_in"], row["tokens_out"], row["cost_microusd"]) == ("m", 30, 15, 60)
    assert [row["messages"][place]["content"] for place in (2, 4, 6)] == ["one", "hm", ""]
    (trajectory,) = rows([folder], "atif", tmp_path / "atif")
    step = trajectory["steps"][2]
    assert (step["metrics"]["prompt_tokens"], step["metrics"]["completion_tokens"], step["llm_call_count"]) == (
        10,
        5,
        1,
    )
    assert trajectory["final_metrics"]["total_cost_usd"] == 0.00006
    (trace,) = rows([folder], "otel", tmp_path / "a.otlp.jsonl")
    spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["invoke_agent openai", *["chat m", "execute_tool add"], "chat m",
                                                "execute_tool step", "chat m", "execute_tool add"]  # fmt: skip
    ends = [int(span["endTimeUnixNano"]) for span in spans]
    assert ends[0] == max(ends)
    (sample,) = samples(folder, tmp_path / "a.json")
    asked = [event for event in sample["events"] if event["event"] == "model"]
    assert [event["input_refs"] for event in asked] == [[[0, 2]], [[0, 4]], [[0, 6]]]
    assert sample["model_usage"]["m"] == {
        "input_tokens": 30,
        "output_tokens": 15,
        "total_tokens": 45,
        "total_cost": 6e-5,
    }
    assert str(tmp_path) not in json.dumps([row, trajectory, trace, sample])
    assert endpoint.url not in json.dumps([row, trajectory, trace, sample])


def test_a_model_that_was_asked_again_and_one_whose_endpoint_went_away(tmp_path: Path) -> None:
    with serve(words("nonsense"), words("Action: add"), default=500) as endpoint:
        folder = with_model(tmp_path / "run", endpoint, tools="text", retries=0)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl")
    assert (row["ending"], row["fault"], row["turns"]) == ("abandoned", "service", 2)
    (sample,) = samples(folder, tmp_path / "a.json")
    assert [event.get("error") for event in sample["events"] if event["event"] == "model"][:2] == [None, None]
    assert "stays away" in [event for event in sample["events"] if event["event"] == "model"][-1]["error"]


def test_nothing_of_a_text_acts_on_a_terminal_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Talker", episodes=1)
    for to in ("sft", "otel", "atif", "inspect"):
        out = tmp_path / ("a.json" if to == "inspect" else to)
        writing.export([folder], to, out)
        text = (next(out.rglob("*.json")) if out.is_dir() else out).read_text()
        assert all(char.isprintable() or char == "\n" for char in text)
        assert len(text.splitlines()) == 1
    (row,) = rows([folder], "sft", tmp_path / "again.jsonl")
    assert row["messages"][2]["content"] == f"Action: {HOSTILE}"


def test_a_sidecar_that_says_something_else_is_found_out(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Climber", start=2, episodes=1)
    path = folder / "sidecars" / "000000.json"
    forged = json.loads(path.read_text())
    forged["turns"][1]["observation"] = "You are the king of the stairs."
    path.write_text(json.dumps(forged))
    (told,) = rows([folder], "sft", tmp_path / "told.jsonl")
    assert told["messages"][5]["content"] == "You are the king of the stairs."
    came = writing.export([folder], "sft", tmp_path / "proved.jsonl", verify=True)
    assert (came.verified, came.unverified) == (0, 1)
    assert list(came.not_verified.values()) == ["its sidecar says something else than was seen in turn 2"]
    (row,) = [json.loads(line) for line in (tmp_path / "proved.jsonl").read_text().splitlines()]
    assert (row["verified"], row["messages"][5]["content"]) == (False, "Step 2.\n\n[steps left: 3]")


@pytest.mark.parametrize(
    "sidecar",
    [None, "torn", "[]", "{}", '{"turns": 7, "policy": {"calls": 3}}', '{"first_observation": 5, "turns": [1, {}]}',
     '{"turns": [{"observation": "\\ud800"}], "wall_seconds": 1e999, "policy": {"calls": [{"turn": "x", "said": 1}]}}',
     "[" * 100_000],
)  # fmt: skip
def test_without_its_sidecar_an_episode_is_told_as_its_record_has_it(tmp_path: Path, sidecar: str | None) -> None:
    folder = run(tmp_path / "run", "Caller", start=2, episodes=1)
    path = folder / "sidecars" / "000000.json"
    path.unlink() if sidecar is None else path.write_text(sidecar)
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl")
    assert _roles(row)[2:] == ["assistant", "tool"] * 2 + ["assistant"]
    assert (row["success"], row["reasons"]) == (True, [])
    assert "not kept" in row["messages"][5]["content"]
    (proved,) = rows([folder], "sft", tmp_path / "b.jsonl", verify=True)
    assert proved["messages"][5]["content"] == "Step 2.\n\n[steps left: 3]"
    for to in ("atif", "otel"):
        rows([folder], to, tmp_path / to)
    samples(folder, tmp_path / "a.json")


@pytest.mark.parametrize("word", ["NaN", "1e999", "-1", "true", '"many"', str(2**80)])
def test_forged_counts_are_no_counts(tmp_path: Path, word: str) -> None:
    with serve(calls(("add", {"by": 3}))) as endpoint:
        folder = with_model(tmp_path / "run", endpoint)
    path = folder / "sidecars" / "000000.json"
    text = path.read_text().replace('"tokens_in": 10', f'"tokens_in": {word}')
    path.write_text(text.replace('"seconds": ', f'"seconds": {word}, "was": '))
    (trajectory,) = rows([folder], "atif", tmp_path / "atif")
    assert "prompt_tokens" not in trajectory["steps"][2]["metrics"]
    (sample,) = samples(folder, tmp_path / "a.json")
    assert "usage" not in next(event for event in sample["events"] if event["event"] == "model")["output"]


def test_a_world_that_is_not_here_is_told_without_its_prompt(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Adder", COUNTER, episodes=1)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["envs"][0]["env_id"] = "elsewhere/Counter-v9"
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest) + b"\n")
    (row,) = rows([folder], "sft", tmp_path / "a.jsonl")
    assert _roles(row) == ["user", "assistant", "tool", "tool", "assistant"]
    assert row["messages"][1]["content"] == "two"
    assert row["tools"] is None


def test_times_of_a_scenario_are_epochs(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Climber", episodes=2, trials=2)
    told = samples(folder, tmp_path / "a.json")
    assert [(one["id"], one["epoch"]) for one in told] == [("few/0", 1), ("few/1", 1), ("few/0", 2), ("few/1", 2)]
    assert len({one["uuid"] for one in told}) == 4
    assert digest([one["messages"][2]["content"] for one in told]) == digest(["Action: up"] * 4)
