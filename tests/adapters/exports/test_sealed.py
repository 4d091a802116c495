"""Of a sealed scenario nothing is exported that its server would not hand out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.record import parse_records, redacted
from agentenvs.harness.run import RunConfig, evaluate
from tests.adapters.exports.runs import rows, samples
from tests.servers.rooms import SECRET, SPEC


class Looker:
    """Looks, then wins."""

    def reset(self, spec: Any, task: Any) -> None:
        self.script = ["look", "win"]

    def act(self, observation: Any) -> Any:
        return self.script.pop(0)


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    registry.register(SPEC)
    policy = "tests.adapters.exports.test_sealed:Looker"
    return evaluate(RunConfig(env="room", policy=policy, split="vault", episodes=1, out=tmp_path / "run")).folder


def _redact(folder: Path) -> None:
    """Leave what a server hands out: the redacted record, and lines that name it."""
    path = folder / "records" / "000000.jsonl"
    path.write_bytes(redacted(path.read_bytes()))
    record = parse_records(path.read_bytes())[0]
    (line,) = [json.loads(text) for text in (folder / "episodes.jsonl").read_text().splitlines()]
    line["record"] = record.digest
    (folder / "episodes.jsonl").write_bytes(canonical_bytes(line) + b"\n")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["episode_table_digest"] = digest([line])
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest) + b"\n")


@pytest.mark.parametrize("whole", [True, False], ids=["whole records", "redacted records"])
@pytest.mark.parametrize("verify", [False, True])
def test_nothing_hidden_is_told(tmp_path: Path, vault: Path, whole: bool, verify: bool) -> None:
    scenario = json.loads((vault / "episodes.jsonl").read_text())["scenario_digest"]
    if not whole:
        _redact(vault)
    told: dict[str, Any] = {
        to: rows([vault], to, tmp_path / to, verify=verify)[0]
        for to in ("sft", "atif", "otel")  # type: ignore[dict-item]
    }
    (told["inspect"],) = samples(vault, tmp_path / "a.json", verify=verify)
    for form in told.values():
        text = json.dumps(form)
        assert SECRET not in text
        assert scenario not in text
        assert "You look." in text
    assert (told["sft"]["reward"], told["sft"]["success"], told["sft"]["components"]) == (1.0, True, "{}")
    assert told["atif"]["steps"][2]["extra"]["reward"] is None
    assert told["atif"]["extra"]["verdict"] == {
        "reward": 1.0, "success": True, "components": {}, "reasons": [], "facts": {}
    }  # fmt: skip
    assert told["atif"]["extra"]["state"]["sealed"] is True
    if verify:
        assert told["sft"]["verified"] is whole


def test_an_unknown_world_with_a_split_of_that_name_is_taken_for_sealed(tmp_path: Path, vault: Path) -> None:
    manifest = json.loads((vault / "manifest.json").read_text())
    manifest["envs"][0] |= {"env_id": "elsewhere/Room-v0", "split": "sealed"}
    (vault / "manifest.json").write_bytes(canonical_bytes(manifest) + b"\n")
    assert SECRET not in json.dumps(rows([vault], "atif", tmp_path / "atif"))
