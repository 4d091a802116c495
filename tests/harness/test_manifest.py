from __future__ import annotations

import json
import uuid
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentenvs.core.errors import DataError
from agentenvs.harness import manifest as manifests
from agentenvs.harness.run import RunConfig, evaluate
from tests.harness import playroom

LEAVES = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]


@pytest.mark.parametrize(
    ("count", "root"),
    [
        (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        (2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
        (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
        (4, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
        (5, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
        (6, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
        (7, "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
    ],
)
def test_merkle_roots_are_those_of_certificate_transparency(count: int, root: str) -> None:
    assert manifests.merkle_root(iter(LEAVES[:count])) == root


def test_run_ids_are_of_version_7_and_rise_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for seconds in (1_000, 2_000):
        monkeypatch.setattr(manifests.time, "time_ns", lambda seconds=seconds: seconds * 10**9)
        made.append(uuid.UUID(manifests.uuid7()))
    assert all(one.version == 7 and one.variant == uuid.RFC_4122 for one in made)
    assert made[0] < made[1]
    assert made[0].int >> 80 == 1_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manifest") / "run"
    evaluate(RunConfig("stairs", "oracle", episodes=3, out=folder))
    return folder / "manifest.json"


def test_every_field_stands_there_null_where_nothing_fills_it(path: Path) -> None:
    form = json.loads(path.read_bytes())
    assert set(form) == {
        "schema_version", "run_id", "submission_id", "created", "suite", "envs", "user", "agent", "model", "harness",
        "machine", "price_table", "results", "complete", "episode_table_digest", "merkle_root", "signatures",
        "exclusions", "ended_by",
    }  # fmt: skip
    unfilled = ("submission_id", "user", "model", "price_table")
    assert [form[name] for name in unfilled] == [None] * 4
    assert (form["signatures"], form["exclusions"]) == ([], [])
    assert set(form["envs"][0]) == {
        "env_id", "env_version", "spec_digest", "generator_hash", "policy_doc_hash", "scorer_hash", "tool_schema_hash",
        "split", "panel", "seed_commitment", "tasks", "trials", "budgets", "options",
    }  # fmt: skip
    assert set(form["agent"]) == {
        "name", "version", "source", "source_hash", "lock_hash", "prompts_hash", "tools_modified", "training_data",
        "privileged",
    }  # fmt: skip
    assert form["agent"]["privileged"] is True
    assert form["agent"]["source"] == "tests.harness.playroom:Oracle"
    assert form["envs"][0]["budgets"] == [{"name": "steps", "amount": 5}]
    assert form["results"] == {
        "episodes": 3, "successes": 3, "success_rate_millionths": 1_000_000, "mean_return_millionths": 1_000_000,
        "invalid_rate_millionths": 0,
    }  # fmt: skip


def test_it_is_canonical_and_holds_no_float(path: Path) -> None:
    def floats(value: object) -> bool:
        if isinstance(value, dict | list):
            return any(map(floats, value.values() if isinstance(value, dict) else value))
        return isinstance(value, float)

    data = path.read_bytes()
    form = json.loads(data)
    assert not floats(form)
    assert data == json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"complete": 1}, "complete: Input should be a valid boolean"),
        ({"merkle_root": "AB"}, "merkle_root: String should match pattern"),
        ({"schema_version": 2}, "schema_version: Input should be 1"),
        ({"exclusions": None}, "exclusions: Input should be a valid array"),
    ],
)
def test_what_is_not_of_the_schema_is_refused(path: Path, tmp_path: Path, change: dict[str, object], said: str) -> None:
    changed = tmp_path / "manifest.json"
    changed.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with pytest.raises(DataError) as told:
        manifests.read_manifest(changed)
    assert said in str(told.value)


def test_scores_are_whole_numbers() -> None:
    with pytest.raises(ValidationError):
        manifests.Budget(name="steps", amount=1.5)  # type: ignore[arg-type]


def test_no_manifest_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no manifest at"):
        manifests.read_manifest(tmp_path / "manifest.json")
    (tmp_path / "episodes.jsonl").touch()
    with pytest.raises(DataError, match="did not come to an end"):
        manifests.read_manifest(tmp_path / "manifest.json")
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="written again: agentenvs eval --resume"):
        manifests.read_manifest(tmp_path / "manifest.json")


def test_a_world_from_elsewhere_is_known_by_its_file(path: Path) -> None:
    (entry,) = manifests.read_manifest(path).envs
    assert entry.scorer_hash == sha256(Path(playroom.__file__).read_bytes()).hexdigest()


def test_the_sources_of_the_suite_have_hashes() -> None:
    everything = manifests._source_hash("agentenvs_scoring", "*.py")
    assert everything != manifests._source_hash("agentenvs_scoring", "stats.py") is not None
    assert manifests._source_hash("agentenvs_scoring", "nothing.py") is None
    assert manifests._source_hash("agentenvs_nowhere", "*.py") is None
