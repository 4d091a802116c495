"""Exports, read back by those they are for: Inspect, Harbor, OpenTelemetry, TRL."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agentenvs.adapters.exports import writing
from tests.adapters.exports.runs import COUNTER, DESK, HOSTILE, PLAYERS, rows, run, with_model
from tests.adapters.plugs.conftest import ROOT, SECONDS, peer
from tests.adapters.plugs.conftest import run as started
from tests.harness.endpoint import calls, serve, without_proxies, words

pytestmark = [pytest.mark.peer, pytest.mark.timeout(SECONDS)]

PEERS = ROOT / "tests" / "adapters" / "exports" / "peers"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs of every kind of player, end and world."""
    without_proxies(monkeypatch)
    made = [run(tmp_path / player, player, episodes=3) for player in PLAYERS]
    made.append(run(tmp_path / "broken", "Climber", episodes=3, options={"fault": "begin", "at": 1}))
    made.append(run(tmp_path / "adder", "Adder", COUNTER, episodes=1))
    made.append(run(tmp_path / "clerk", "Clerk", DESK, episodes=1))
    made.append(run(tmp_path / "house", "expert", "household", episodes=2, trials=2))
    answers = (calls(("add", {"by": 1}), text="one"), words(f"hm {HOSTILE}"), calls(("add", {"by": 2})))
    with serve(*answers) as endpoint:
        made.append(with_model(tmp_path / "model", endpoint))
    return made


def _read(name: str, variable: str, needs: str, *paths: Path, cwd: Path) -> Any:
    said = started(peer(variable, needs), PEERS / name, *paths, cwd=cwd, PYTHONPATH="")
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_inspect_reads_its_logs(tmp_path: Path, folders: list[Path], kind: str) -> None:
    logs = []
    for place, folder in enumerate(folders):
        logs.append(tmp_path / f"{place}.{kind}")
        writing.export([folder], "inspect", logs[-1], verify=True)
    read = _read("read_inspect.py", "AGENTENVS_PEER_INSPECT", "inspect-ai", *logs, cwd=tmp_path)
    told = rows(folders, "sft", tmp_path / "told.jsonl", verify=True)
    seen = [sample for log in read for sample in log["samples"]]
    assert len(seen) == len(told)
    of = {(one["metadata"]["run_id"], one["metadata"]["number"]): one for one in seen}
    for row in told:
        name, number = row["id"].split("/")
        sample = of[name, int(number)]
        spoken = [[message["role"], message["content"]] for message in row["messages"]]
        assert sample["messages"][: len(spoken)] == spoken
        assert sample["scores"]["verdict"][0] == row["reward"]
        assert sample["scores"]["success"][0] == float(row["success"])
        assert sample["metadata"]["ending"] == row["ending"]
    for log in read:
        began, ended = map(datetime.fromisoformat, log["times"])
        took = sum(sample["seconds"] for sample in log["samples"])
        assert abs((ended - began).total_seconds() - took) < 0.001
    log = read[-1]
    assert (log["model"], log["samples"][0]["shown"]) == ("m", [2, 4, 6])
    assert log["samples"][0]["usage"]["m"]["total_cost"] == 6e-5
    assert log["samples"][0]["calls"] == [["add", {"by": 1}], ["add", {"by": 2}]]
    assert [(one["id"], one["epoch"]) for one in read[-2]["samples"]] == [
        ("dev/0", 1), ("dev/1", 1), ("dev/0", 2), ("dev/1", 2)
    ]  # fmt: skip


def test_inspects_commands_take_them(tmp_path: Path, folders: list[Path]) -> None:
    python = peer("AGENTENVS_PEER_INSPECT", "inspect-ai")
    writing.export(folders[-3:], "inspect", tmp_path / "logs")
    log = next((tmp_path / "logs").glob("*.eval"))
    inspect = python.parent / "inspect"
    dumped = json.loads(started(inspect, "log", "dump", log, cwd=tmp_path, PYTHONPATH=""))
    assert dumped["version"] == 2
    assert len(dumped["samples"]) == dumped["results"]["total_samples"]
    www = tmp_path / "www"
    started(inspect, *f"view bundle --log-dir {tmp_path}/logs --output-dir {www}".split(), cwd=tmp_path, PYTHONPATH="")
    assert (www / "index.html").is_file()
    assert len(list(www.rglob("*.eval"))) == 3


def test_harbor_takes_every_trajectory(tmp_path: Path, folders: list[Path]) -> None:
    told = rows(folders, "atif", tmp_path / "atif", verify=True)
    read = _read("read_atif.py", "AGENTENVS_PEER_ATIF", "harbor", tmp_path / "atif", cwd=tmp_path)
    assert [one["errors"] for one in read] == [[]] * len(told)
    for one, document in zip(read, told, strict=True):
        assert one["steps"] == [[step["source"], step["message"]] for step in document["steps"]]
        assert one["ending"] == document["extra"]["state"]["ending"]
    by_model = next(one for one in read if one["cost"] is not None)
    assert (by_model["tokens"], by_model["cost"]) == (30, 6e-5)
    assert by_model["calls"] == [["add", {"by": 1}], ["add", {"by": 2}]]


def test_opentelemetry_reads_every_trace(tmp_path: Path, folders: list[Path]) -> None:
    told = rows(folders, "otel", tmp_path / "spans.jsonl", verify=True)
    read = _read("read_otlp.py", "AGENTENVS_PEER_OTLP", "opentelemetry-proto", tmp_path / "spans.jsonl", cwd=tmp_path)
    assert len(read) == len(told)
    assert {spans[0]["status"] for spans in read} == {0, 2}
    top, *inner = read[-1]
    assert [span["name"] for span in inner if span["kind"] == 3] == ["chat m"] * 3
    assert top["attributes"]["gen_ai.usage.input_tokens"] == 30
    assert top["events"][0]["gen_ai.evaluation.score.label"] == "pass"
    asked = [json.loads(span["attributes"]["gen_ai.output.messages"]) for span in inner if span["kind"] == 3]
    assert asked[1][0]["parts"][0]["content"] == f"hm {HOSTILE}"
    tool = next(span["attributes"] for span in inner if span["kind"] == 1)
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"by": 1}


def test_trl_trains_on_what_the_spans_name(tmp_path: Path, folders: list[Path]) -> None:
    python = peer("AGENTENVS_PEER_TRL", "trl 1.16 and torch")
    file = tmp_path / "won.jsonl"
    writing.export([folders[0], folders[4], folders[-4]], "sft", file, only_won=True, verify=True)
    script = ROOT / "tests" / "harness" / "peers" / "trl_sft.py"
    said = json.loads(started(python, script, file, cwd=tmp_path, PYTHONPATH="").splitlines()[-1])
    assert (said["wrong"], said["loss"] > 0) == ([], True)
    assert said["rows"] == len(file.read_text().splitlines()) == 7
