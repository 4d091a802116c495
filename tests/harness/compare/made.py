"""Run folders made of outcomes, without playing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentenvs.core.canon import canonical, digest
from agentenvs.harness import manifest as manifests
from agentenvs.harness.report import Run, read_run
from agentenvs.harness.rollout import EpisodeSummary
from agentenvs.harness.summary import summarize

_ENV = manifests.EnvEntry(
    env_id="tests/Coin-v0",
    env_version="1",
    spec_digest="0" * 64,
    generator_hash="1" * 64,
    policy_doc_hash=None,
    scorer_hash="2" * 64,
    tool_schema_hash="3" * 64,
    split="dev",
    panel=None,
    seed_commitment=None,
    tasks=1,
    trials=1,
    budgets=[manifests.Budget(name="steps", amount=9)],
    options='{"admissible":false,"limit":9}',
)


def episode(index: int, success: bool = False, **more: Any) -> EpisodeSummary:
    """Return a line of a run; ``more`` replaces fields."""
    form: dict[str, Any] = {
        "number": index,
        "split": "dev",
        "index": index,
        "scenario": f"coin-{index}",
        "scenario_digest": digest(index),
        "record": digest([index, success]),
        "kind": None,
        "par": None,
        "ending": "terminated",
        "success": success,
        "reward": float(success),
        "episode_return": float(success),
        "turns": 3,
        "invalid": 0,
    }
    return EpisodeSummary(**{**form, **more})


def run(
    folder: Path,
    episodes: Sequence[EpisodeSummary],
    *,
    name: str = "player",
    entry: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Write a run folder, as far as it is compared, and read it."""
    folder.mkdir()
    lines = [one.to_json() for one in episodes]
    agent = manifests.AgentEntry(
        name=name, version=None, source=None, source_hash=None, lock_hash=None, prompts_hash=None,
        tools_modified=False, training_data=None, privileged=False,
    )  # fmt: skip
    form: dict[str, Any] = {
        "run_id": folder.name,
        "submission_id": None,
        "created": "2026-01-01T00:00:00Z",
        "suite": manifests.Suite(version="0", git_commit=None, dirty=None, wheel_sha256=None),
        "envs": [_ENV.model_copy(update=dict(entry or {}))],
        "user": None,
        "agent": agent,
        "model": None,
        "harness": manifests.HarnessEntry(
            version="0", concurrency=1, retries=0, episode_milliseconds=None, stream=False, order=None,
            reward_visible="none",
        ),
        "machine": manifests.machine_entry(),
        "price_table": None,
        "results": manifests.results(summarize(episodes)),
        "complete": True,
        "episode_table_digest": digest(sorted(lines, key=lambda line: line["number"])),
        "merkle_root": "0" * 64,
        "signatures": [],
        "exclusions": [],
    }  # fmt: skip
    (folder / "manifest.json").write_bytes(manifests.Manifest(**{**form, **more}).to_bytes())
    (folder / "episodes.jsonl").write_text("".join(canonical(line) + "\n" for line in lines), encoding="utf-8")
    return read_run(folder)


def outcomes(wins: str, **more: Any) -> list[EpisodeSummary]:
    """Return episodes from a word of 1 and 0."""
    return [episode(index, char == "1", **more) for index, char in enumerate(wins)]
