from __future__ import annotations

import json
import os
import subprocess
from collections import Counter as Tally
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.actions import Calls, End, Message, ToolCall
from agentenvs.core.canon import canonical, digest
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.core.record import read_records
from agentenvs.harness import folder as folders
from agentenvs.harness.collect import writing
from agentenvs.harness.collect.rules import REASONS, Rules
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.run import RunConfig, evaluate
from tests.harness import playroom
from tests.harness.endpoint import Endpoint, calls, serve, without_proxies, words
from tests.harness.toys import Counter, Desk

HERE = "tests.harness.test_collect"
PYTHON = "AGENTENVS_PEER_TRL"
SCRIPT = Path(__file__).parent / "peers" / "trl_sft.py"


class Climber(playroom.Climber):
    """The same, in this module."""


class Caller:
    """Climbs by calling a tool."""

    def reset(self, spec: Any, task: Any) -> None: ...
    def act(self, observation: Any) -> Any:
        return ToolCall("up", {})


class Clerk(Caller):
    """Asks for the hours, tells them, and ends."""

    def reset(self, spec: Any, task: Any) -> None:
        self.script = [ToolCall("hours", {}), Message("At nine."), End("done")]

    def act(self, observation: Any) -> Any:
        return self.script.pop(0)


class Adder(Caller):
    def act(self, observation: Any) -> Any:
        return Calls((ToolCall("add", {"by": 1}), ToolCall("add", {"by": 1})))


class Stumbler(Caller):
    """Stumbles once, then climbs."""

    def reset(self, spec: Any, task: Any) -> None:
        self.begun = False

    def act(self, observation: Any) -> Any:
        begun, self.begun = self.begun, True
        return "up" if begun else "trip"


class Mumbler(Stumbler):
    """Says what no line of text can hold, then climbs."""

    def act(self, observation: Any) -> Any:
        begun, self.begun = self.begun, True
        return "up" if begun else "down\nup"


class Loser(Caller):
    def act(self, observation: Any) -> Any:
        return "down"


def _run(tmp_path: Path, policy: str, env: str = "stairs", **more: Any) -> Path:
    name = policy if policy.islower() else f"{HERE}:{policy}"
    folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    return evaluate(RunConfig(**{"env": env, "policy": name, "out": folder, **more})).folder


def _collect(tmp_path: Path, *runs: Path, **rules: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    out = tmp_path / f"data{len(list(tmp_path.iterdir()))}.jsonl"
    came = writing.collect(runs, out, Rules(**rules), {})
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    said = json.loads(writing.manifest_path(out).read_text())
    assert (said["kept"], said["played"]) == (came.kept, came.played) == (len(rows), came.kept + came.dropped.total())
    assert said["sha256"] == sha256(out.read_bytes()).hexdigest()
    return rows, said


def _own(row: dict[str, Any]) -> list[Any]:
    return [row["messages"][span["message"]][span["part"]][span["start"] : span["end"]] for span in row["spans"]]


def test_a_player_of_text_is_told_line_by_line(tmp_path: Path) -> None:
    rows, said = _collect(tmp_path, _run(tmp_path, "oracle"))
    assert [row["turns"] for row in rows] == [1, 2, 3, 1, 2, 3]
    row = rows[2]
    assert [message["role"] for message in row["messages"]] == [
        "system",
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]
    assert row["messages"][1]["content"] == "You are at the foot of the stairs.\n\n[steps left: 5]"
    assert row["messages"][3]["content"] == "Step 1.\n\n[steps left: 4]"
    assert _own(row) == ["Action: up"] * 3
    assert row["tools"] is None
    assert (row["privileged"], said["privileged"], row["player"]) == (True, 6, "oracle")
    assert said["rules"]["won"] is True
    assert said["verified"] is True


def test_a_player_of_tools_is_told_in_calls(tmp_path: Path) -> None:
    (row, *_), said = _collect(tmp_path, _run(tmp_path, "Caller", start=2))
    (call,) = _own(row)[0]
    assert call["function"] == {"name": "up", "arguments": "{}"}
    assert [message["role"] for message in row["messages"]][-3:] == ["assistant", "tool", "assistant"]
    assert row["messages"][3]["tool_call_id"] == call["id"]
    assert [tool["function"]["name"] for tool in json.loads(row["tools"])] == ["up"]
    assert (row["privileged"], said["privileged"]) == (False, 0)


def test_words_calls_and_the_end_of_a_dialogue(tmp_path: Path) -> None:
    (row,), _ = _collect(tmp_path, _run(tmp_path, "Clerk", f"{Desk.__module__}:Desk", episodes=1))
    asked, told, ended = _own(row)
    assert asked[0]["function"]["name"] == "hours"
    assert told == "At nine."
    assert ended[0]["function"] == {"name": "end_episode", "arguments": '{"reason": "done"}'}


def test_several_calls_of_a_turn_each_get_their_result(tmp_path: Path) -> None:
    (row,), _ = _collect(tmp_path, _run(tmp_path, "Adder", f"{Counter.__module__}:Counter", episodes=1))
    assert [len(calls) for calls in _own(row)] == [2, 2]
    roles = [message["role"] for message in row["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize(
    ("policy", "rules", "kept", "dropped"),
    [
        ("Climber", {}, 6, {}),
        ("Loser", {}, 0, {"not_won": 6}),
        ("Loser", {"won": False}, 0, {"invalid_turn": 6}),
        ("Loser", {"won": False, "valid": False}, 6, {}),
        ("Loser", {"won": False, "valid": False, "min_reward": 0.5}, 0, {"low_reward": 6}),
        ("Climber", {"max_turns": 2}, 4, {"too_long": 2}),
        ("Stumbler", {}, 0, {"invalid_turn": 6}),
        ("Stumbler", {"valid": False}, 6, {}),
        ("Mumbler", {"valid": False}, 0, {"not_sayable": 6}),
        ("tests.harness.playroom:Faller", {}, 2, {"failed": 4}),
        ("tests.harness.playroom:Quitter", {}, 2, {"failed": 4}),
    ],
)
def test_rules_say_what_is_dropped_and_why(
    tmp_path: Path, policy: str, rules: Any, kept: int, dropped: dict[str, int]
) -> None:
    name = policy if ":" in policy else f"{HERE}:{policy}"
    rows, said = _collect(tmp_path, evaluate(RunConfig("stairs", name, out=tmp_path / "run")).folder, **rules)
    assert (len(rows), said["dropped"]) == (kept, dropped)
    assert set(said["reasons"]) == set(dropped) <= set(REASONS)


def test_the_same_course_is_kept_once_and_a_scenario_so_often(tmp_path: Path) -> None:
    one, two = _run(tmp_path, "Climber", trials=2), _run(tmp_path, "Stumbler")
    rows, said = _collect(tmp_path, one, two, valid=False)
    assert (len(rows), said["dropped"]) == (12, {"duplicate": 6})
    rows, said = _collect(tmp_path, one, two, valid=False, distinct=False, per_scenario=1)
    assert (len(rows), said["dropped"]) == (6, {"over_the_cap": 12})
    assert Tally(row["scenario"] for row in rows).most_common(1)[0][1] == 1
    assert [run["player"] for run in said["runs"]] == [f"{HERE}:Climber", f"{HERE}:Stumbler"]


def _forge(folder: Path, number: int, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change a record so that its chain, its line and the manifest agree again."""
    path = folders.record_path(folder, number)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("h")
    change(lines)
    before, spelled = "", []
    for line in lines:
        before = sha256(before.encode() + canonical(line).encode()).hexdigest()
        spelled.append(canonical({**line, "h": before}) + "\n")
    path.write_text("".join(spelled))
    rows = sorted(
        (json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()),
        key=lambda row: row["number"],
    )
    rows[number]["record"] = before
    (folder / "episodes.jsonl").write_text("".join(canonical(row) + "\n" for row in rows))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["episode_table_digest"] = digest(rows)
    (folder / "manifest.json").write_text(canonical(manifest) + "\n")


def test_a_forged_or_lost_record_is_not_believed(tmp_path: Path) -> None:
    folder = _run(tmp_path, "Climber")
    _forge(folder, 2, lambda lines: lines[1].update(action="down"))
    _forge(folder, 3, lambda lines: lines[-1]["verdict"].update(reward=9.0))
    folders.record_path(folder, 4).unlink()
    folders.record_path(folder, 5).write_text("nothing")
    rows, said = _collect(tmp_path, folder)
    assert ([row["index"] for row in rows], said["dropped"]) == ([0, 1], {"not_replayed": 4})


def _model(tmp_path: Path, endpoint: Endpoint, env: str = f"{Counter.__module__}:Counter", **more: Any) -> Path:
    settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, timeout=5.0, **more)
    return evaluate(
        RunConfig(env, "openai", episodes=1, settings=settings, out=tmp_path / f"run{len(list(tmp_path.iterdir()))}")
    ).folder


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


def test_a_models_own_words_are_told_as_it_was_shown_them(tmp_path: Path) -> None:
    said = "<think>one more</think>\nAction: add"
    with serve(default=words(said)) as endpoint:
        (row,), _ = _collect(tmp_path, _model(tmp_path, endpoint, tools="text"))
    assert _own(row) == [said] * 3
    assert row["messages"][:-1] == endpoint.requests[-1]["messages"]
    with serve(calls(("add", {"by": 2}), text="two"), calls(("add", {}))) as endpoint:
        (row,), _ = _collect(tmp_path, _model(tmp_path, endpoint))
    assert _own(row)[0] == "two"
    assert row["messages"][:-1] == endpoint.requests[-1]["messages"]
    assert json.loads(row["tools"]) == endpoint.requests[-1]["tools"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda call: call.update(prompt_digest="0" * 64), "other_prompt"),
        (lambda call: call["said"].update(content="Action: help"), "other_prompt"),
        (lambda call: call.update(failure="no_action_line"), "unreadable_reply"),
        (lambda call: call.pop("said"), "unreadable_reply"),
        (lambda call: call.update(turn=2), "unreadable_reply"),
        (lambda call: call["said"].update(content="(nothing)"), "unreadable_reply"),
    ],
)
def test_what_does_not_fit_the_sidecar_is_dropped(tmp_path: Path, change: Any, reason: str) -> None:
    with serve(default=words("Action: add")) as endpoint:
        folder = _model(tmp_path, endpoint, tools="text")
    path = folders.sidecar_path(folder, 0)
    form = json.loads(path.read_text())
    change(form["policy"]["calls"][0])
    path.write_text(json.dumps(form))
    rows, said = _collect(tmp_path, folder)
    assert (rows, said["dropped"]) == ([], {reason: 1})
    path.write_text("torn")
    assert _collect(tmp_path, folder)[1]["dropped"] == {"unreadable_reply": 1}


def test_a_model_that_was_not_shown_everything_is_refused(tmp_path: Path) -> None:
    with serve(default=words("Action: add")) as endpoint:
        folder = _model(tmp_path, endpoint, tools="text", history="last:1")
    with pytest.raises(ConfigError, match="showed its model no whole conversations"):
        _collect(tmp_path, folder)


def test_data_are_never_overwritten_and_nothing_half_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _run(tmp_path, "Climber")
    (tmp_path / "there.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        writing.collect([folder], tmp_path / "there.jsonl", Rules(), {})
    with pytest.raises(ConfigError, match="there is no folder"):
        writing.collect([folder], tmp_path / "no" / "x.jsonl", Rules(), {})
    with pytest.raises(DataError):
        writing.collect([tmp_path], tmp_path / "x.jsonl", Rules(), {})
    monkeypatch.setattr(writing, "tell", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        writing.collect([folder], tmp_path / "x.jsonl", Rules(), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0", "there.jsonl"]


@pytest.mark.parametrize("rules", [{"max_turns": 0}, {"per_scenario": 0}, {"min_reward": float("nan")}])
def test_rules_that_keep_nothing_make_no_sense(rules: Any) -> None:
    with pytest.raises(ConfigError):
        Rules(**rules)


def test_runs_of_another_environment_are_refused(tmp_path: Path) -> None:
    folder = _run(tmp_path, "Climber")
    with pytest.raises(ConfigError, match=r"a run is of .*, not of agentenvs/WebShop-v0"):
        writing.collect([folder], tmp_path / "x.jsonl", Rules(), {}, env="agentenvs/WebShop-v0")
    assert not (tmp_path / "x.jsonl").exists()


def test_the_records_are_those_of_the_run(tmp_path: Path) -> None:
    folder = _run(tmp_path, "Climber")
    rows, _ = _collect(tmp_path, folder)
    assert [row["record"] for row in rows] == [record.digest for record in read_records(folder)]


@pytest.mark.peer
def test_trl_trains_on_what_the_spans_name(tmp_path: Path) -> None:
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(f"${PYTHON} names no Python with trl 1.16 and torch: scripts/peers.sh FOLDER trl makes one")
    files = []
    for policy, env in (("oracle", "household"), ("Caller", "stairs"), ("Adder", f"{Counter.__module__}:Counter")):
        out = tmp_path / f"{policy}.jsonl"
        writing.collect([_run(tmp_path, policy, env, episodes=3)], out, Rules(distinct=False), {})
        files.append(str(out))
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for file in files:
        done = subprocess.run(
            [python, str(SCRIPT), file],
            capture_output=True,
            text=True,
            check=False,
            env={**surroundings, "HF_HUB_OFFLINE": "1"},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["wrong"] == []
        assert (said["rows"], said["loss"] > 0) == (3, True)
        assert 0 < said["trained"] < said["tokens"]
