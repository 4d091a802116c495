from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, DataError, PolicyError, SplitError
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.harness import folder as folders
from agentenvs.harness import rollout, workers
from agentenvs.harness.manifest import merkle_root, read_manifest
from agentenvs.harness.policies import resolve
from agentenvs.harness.report import read_run
from agentenvs.harness.rollout import play
from agentenvs.harness.run import RunConfig, RunResult, evaluate, plan, shown_episode, shown_reward
from tests.harness import playroom

HERE = "tests.harness.playroom"


@pytest.fixture(autouse=True)
def _let_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "WIND_DOWN_SECONDS", 0.2)
    monkeypatch.setattr(rollout, "CUT_SECONDS", 0.05)
    playroom.WAIT.clear()
    playroom.Pupil.made.clear()
    yield
    playroom.WAIT.set()
    for thread in threading.enumerate():
        if thread.name == "agentenvs-worker":
            thread.join(5)


def _run(tmp_path: Path, policy: str, **more: Any) -> RunResult:
    name = policy if policy.islower() else f"{HERE}:{policy}"
    return evaluate(RunConfig(**{"env": "stairs", "policy": name, "out": tmp_path / "run", **more}))


def test_a_run_leaves_a_folder_that_can_be_checked(tmp_path: Path) -> None:
    result = _run(tmp_path, "oracle", concurrency=2)
    folder = tmp_path / "run"
    assert result.folder == folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "attempts.jsonl", "episodes.jsonl", "manifest.json", "plan.json", "records", "report.html",
        "sidecars", "summary.json",
    ]  # fmt: skip
    assert (result.complete, result.clean, result.interrupted, result.planned) == (True, True, False, 6)
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert sorted(lines, key=lambda line: line["number"]) == [episode.to_json() for episode in result.episodes]
    assert json.loads((folder / "summary.json").read_text()) == result.summary
    records = list(read_records(folder))
    assert [record.digest for record in records] == [episode.record for episode in result.episodes]
    assert all(replay(record).equal and rescore(record).equal for record in records)
    manifest = read_manifest(folder / "manifest.json")
    assert manifest == result.manifest
    assert manifest.merkle_root == merkle_root((folder / "records" / f"{n:06d}.jsonl").read_bytes() for n in range(6))
    sidecar = json.loads((folder / "sidecars" / "000002.json").read_text())
    assert [turn["action"] for turn in sidecar["turns"]] == ["up", "up", "up"]
    assert sidecar["wall_seconds"] >= 0


def test_concurrency_changes_nothing_but_the_order_of_writing(tmp_path: Path) -> None:
    runs = [_run(tmp_path / str(many), "random", concurrency=many, split="train", episodes=20) for many in (1, 4)]
    assert runs[0].episodes == runs[1].episodes
    assert runs[0].summary == runs[1].summary
    assert runs[0].manifest.merkle_root == runs[1].manifest.merkle_root
    assert runs[0].manifest.episode_table_digest == runs[1].manifest.episode_table_digest
    assert [run.manifest.harness.concurrency for run in runs] == [1, 4]


def test_the_default_folder_is_named_by_world_policy_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = evaluate(RunConfig("stairs", f"{HERE}:Climber", episodes=1))
    assert result.folder.parent == Path("runs/stairs--tests.harness.playroom-Climber")
    assert evaluate(RunConfig("stairs", f"{HERE}:Climber", episodes=1)).folder != result.folder


def test_a_run_never_overwrites_another(tmp_path: Path) -> None:
    _run(tmp_path, "noop", episodes=1)
    with pytest.raises(ConfigError, match="is not empty"):
        _run(tmp_path, "noop", episodes=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        _run(tmp_path, "noop", episodes=1, out=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"concurrency": 0}, ConfigError, "concurrency 0 makes no sense"),
        ({"episodes": 0}, ConfigError, "0 episodes make no run"),
        ({"episodes": 7}, ConfigError, "6 scenarios from index 0, not 7"),
        ({"start": 4, "episodes": 3}, ConfigError, "ask for at most 2"),
        ({"start": 6}, ConfigError, "no scenario at index 6"),
        ({"trials": 10**12}, ConfigError, "too many for one run"),
        ({"start": 2**63}, ConfigError, "is too large"),
        ({"split": "many"}, SplitError, "has no split 'many'"),
        ({"order": ()}, ConfigError, "the order of the stream is empty"),
        ({"order": (1, 6)}, ConfigError, "does not have"),
        ({"order": (1, 2), "start": 1}, ConfigError, "leave out --start"),
        ({"order": (1, 2), "episodes": 3}, ConfigError, "names 2 episodes, not 3"),
        ({"reward_visible": "true"}, ConfigError, "give --stream"),
        ({"episode_seconds": 0.0}, ConfigError, "leaves no time"),
        ({"episode_seconds": 1e308}, ConfigError, "leave it out"),
        ({"policy": "nobody"}, PolicyError, "no policy 'nobody'"),
        ({"policy": f"{HERE}:unmakeable"}, PolicyError, "cannot make a policy"),
    ],
)
def test_a_mistake_is_told_before_anything_is_played(
    tmp_path: Path, more: dict[str, Any], error: Any, said: str
) -> None:
    with pytest.raises(error) as told:
        evaluate(RunConfig(**{"env": "stairs", "policy": "noop", "out": tmp_path / "run", **more}))
    assert said in str(told.value)
    assert not (tmp_path / "run").exists()


def test_a_plan_lists_the_episodes() -> None:
    assert plan(RunConfig("stairs", "noop", start=2)).indices == (2, 3, 4, 5)
    assert len(plan(RunConfig("stairs", "noop", split="train")).indices) == 100
    assert plan(RunConfig("stairs", "noop", order=(5, 5, 0), episodes=2)).indices == (5, 5)
    assert plan(RunConfig("stairs", "noop", split="train", start=-3, episodes=2)).indices == (-3, -2)


def test_failures_count_and_make_the_run_unclean_and_the_others_go_on(tmp_path: Path) -> None:
    result = _run(tmp_path, "Climber", options={"fault": "act", "at": 3})
    assert [episode.ending for episode in result.episodes].count("aborted") == 1
    assert result.episodes[3].ending == "aborted"
    assert (result.complete, result.clean, result.summary["episodes"], result.summary["errors"]) == (True, False, 6, 1)
    assert result.summary["successes"] == 5


def test_a_policy_gets_the_options_it_wants_unless_the_caller_says_otherwise(tmp_path: Path) -> None:
    wanted = _run(tmp_path / "a", "random", split="train", episodes=9)
    assert '"admissible":true' in wanted.manifest.envs[0].options
    assert wanted.summary["invalid_rate"] > 0.1
    refused = _run(tmp_path / "b", "random", split="train", episodes=9, options={"admissible": False})
    assert '"admissible":false' in refused.manifest.envs[0].options
    assert refused.summary["invalid_rate"] == 0.0
    assert all(record.header["options"]["admissible"] for record in read_records(tmp_path / "a" / "run"))


def test_progress_is_told_of_every_episode(tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    config = RunConfig("stairs", f"{HERE}:Climber", concurrency=3, out=tmp_path / "run")
    evaluate(config, lambda *now: told.append(now))
    assert told == [(done, 6, done) for done in range(1, 7)]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_interrupt_closes_what_was_started_and_keeps_what_ended(tmp_path: Path, concurrency: int) -> None:
    result = _run(tmp_path, "Interrupter", concurrency=concurrency)
    assert (result.interrupted, result.complete, result.clean) == (True, False, False)
    by_index = {episode.index: episode for episode in result.episodes}
    assert (by_index[2].ending, by_index[2].stopped, by_index[2].success) == ("abandoned", "interrupted", False)
    assert by_index[0].success
    assert read_manifest(tmp_path / "run" / "manifest.json").complete is False
    assert all(replay(record).equal for record in read_records(tmp_path / "run"))


def test_a_player_that_hangs_is_cut_and_another_plays_on(tmp_path: Path) -> None:
    started = time.monotonic()
    result = _run(tmp_path, "Sleeper", episode_seconds=0.15)
    assert time.monotonic() - started < 10
    slept = result.episodes[1]
    assert (slept.ending, slept.stopped, slept.error) == ("truncated", "the wall limit of 0.15 s", None)
    assert [episode.success for episode in result.episodes] == [True, False, True, True, True, True]
    assert result.clean
    assert result.manifest.harness.episode_milliseconds == 150
    playroom.WAIT.set()
    time.sleep(0.05)
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 6


def test_a_world_that_hangs_is_aborted(tmp_path: Path) -> None:
    result = _run(tmp_path, "Climber", episode_seconds=0.15, options={"fault": "hang", "at": 1}, concurrency=2)
    assert (result.episodes[1].ending, result.clean, result.complete) == ("aborted", False, True)
    assert "still at work" in (result.episodes[1].error or "")
    assert all(replay(record).equal for record in read_records(tmp_path / "run") if record.footer["turns"])


def test_a_stream_hands_each_ended_episode_to_one_policy(tmp_path: Path) -> None:
    result = _run(tmp_path, "Pupil", order=(4, 2, 4), reward_visible="true", concurrency=3)
    (pupil,) = playroom.Pupil.made
    assert [episode.index for episode in result.episodes] == [4, 2, 4]
    assert [episode.success for episode in result.episodes] == [False, True, True]
    assert pupil.told == pupil.heard == [0.0, 1.0, 1.0]
    libraries = [record.header["library"] for record in read_records(tmp_path / "run")]
    assert len(set(libraries)) == 3
    harness = result.manifest.harness
    assert (harness.stream, harness.order, harness.reward_visible, harness.concurrency) == (True, [4, 2, 4], "true", 1)


def test_outside_a_stream_nobody_is_told_of_ended_episodes(tmp_path: Path) -> None:
    _run(tmp_path, "Pupil")
    assert playroom.Pupil.made[0].told == []


@pytest.mark.parametrize(("kind", "told"), [("none", [None, None]), ("flipped", [1.0, 0.0])])
def test_what_a_stream_shows_of_the_reward(tmp_path: Path, kind: Any, told: list[float | None]) -> None:
    _run(tmp_path, "Pupil", order=(0, 1), reward_visible=kind)
    assert playroom.Pupil.made[0].told == told


def test_a_random_reward_is_either_end_and_the_same_for_everybody(tmp_path: Path) -> None:
    result = _run(tmp_path, "noop", split="train", episodes=30)
    draws = [[shown_reward("random", playroom.Stairs.spec, each) for each in result.episodes] for _ in range(2)]
    assert draws[0] == draws[1]
    assert set(draws[0]) == {0.0, 1.0}


def test_a_stream_whose_policy_cannot_go_on_ends_and_keeps_what_ended(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="raised MemoryError"):
        _run(tmp_path, "Forgetter", order=(0, 1))
    assert len(list(read_records(tmp_path / "run"))) == 1
    assert read_manifest(tmp_path / "run" / "manifest.json").complete is False


def test_a_policy_cannot_end_the_program_from_a_stream(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="raised SystemExit"):
        _run(tmp_path, "Dropout", order=(0, 1))


def test_a_library_is_named_by_a_digest(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="returned no digest"):
        _run(tmp_path, "Scribbler", order=(0, 1))


def test_a_failure_in_any_words_can_be_read_back(tmp_path: Path) -> None:
    result = _run(tmp_path, "Wordy", episodes=2)
    assert {episode["error"] for episode in read_run(result.folder).episodes} == {"ValueError: one\u2028two\x85three?"}


def test_two_runs_that_begin_together_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.make_folder(tmp_path / "run", "stairs", "noop")
    monkeypatch.setattr(Path, "iterdir", lambda path: iter(()))  # as the second saw it before the first had made it
    with pytest.raises(ConfigError, match="was taken at this moment"):
        folders.make_folder(tmp_path / "run", "stairs", "noop")


def test_a_stream_cannot_replace_a_policy_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="overran the wall limit"):
        _run(tmp_path, "Sleeper", order=(1, 0), episode_seconds=0.15)


def test_a_full_disk_is_told_of_and_what_is_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "000002.jsonl":
            raise OSError("no space left")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match="no space left"):
        _run(tmp_path, "noop")
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 2


def test_a_door_that_sticks_costs_nothing(tmp_path: Path) -> None:
    assert not _run(tmp_path, "Untidy").interrupted


@pytest.mark.parametrize("kind", ["none", "true", "flipped", "random"])
def test_a_learner_gets_rewards_in_the_record_only_where_it_may_see_them(kind: Any) -> None:
    spec = registry.spec("household")
    episode = play(registry.make_from(spec), resolve("oracle", spec)(), TaskRef("builtin", 0))
    record, reward = shown_episode(kind, spec, episode)
    assert (b"verdict" in record) is (kind == "true")
    assert reward == {"none": None, "true": 1.0, "flipped": 0.0}.get(kind, reward)
