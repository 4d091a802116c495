from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError, DataError, ServiceError
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay
from agentenvs.core.streams import Stream
from agentenvs.harness import folder as folders
from agentenvs.harness import resuming, run
from agentenvs.harness.report import read_run
from agentenvs.harness.run import Again, RunConfig, RunResult, evaluate
from tests.harness.playroom import Climber

HERE = "tests.harness.test_resuming"


class Weather:
    """What fails, and how often still."""

    storms: dict[int, int] = {}  # noqa: RUF012 - tests set it
    error: Callable[[], BaseException] = lambda: ServiceError("the endpoint stays away")
    played: list[int] = []  # noqa: RUF012


class Sailor(Climber):
    """Fails at some indices for a while."""

    def act(self, observation: Any) -> Any:
        index = self.task.ref.index
        if observation.text.startswith("You are at the foot"):
            Weather.played.append(index)
            if Weather.storms.get(index, 0) > 0:
                Weather.storms[index] -= 1
                raise Weather.error()
        return "up"


class Spender(Climber):
    """Uses 60 tokens an episode, worth 3 millionths of a dollar."""

    usage = {"tokens_in": 50, "tokens_out": 10, "cost_microusd": 3}  # noqa: RUF012


class Silent(Climber):
    usage = {"tokens_in": 50, "tokens_out": None}  # noqa: RUF012


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weather, "storms", {})
    monkeypatch.setattr(Weather, "played", [])
    monkeypatch.setattr(Weather, "error", staticmethod(lambda: ServiceError("the endpoint stays away")))


def _begin(tmp_path: Path, policy: str = "Sailor", **more: Any) -> RunResult:
    return evaluate(RunConfig("stairs", f"{HERE}:{policy}", out=tmp_path / "run", **more))


def _go_on(tmp_path: Path, again: Again | None = None) -> RunResult:
    again = again or Again()
    return run.resume(run.config_of(tmp_path / "run", again), retry_errors=again.retry_errors)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _check(folder: Path, planned: int = 6) -> None:
    """Hold that a finished run adds up."""
    found = read_run(folder)
    assert [episode["number"] for episode in found.episodes] == list(range(planned))
    records = list(read_records(folder))
    assert [record.digest for record in records] == [episode["record"] for episode in found.episodes]
    assert all(replay(record).equal for record in records)
    assert len(list((folder / "sidecars").iterdir())) == planned
    summary = json.loads((folder / "summary.json").read_text())
    begun = len(_rows(folder / "attempts.jsonl"))
    earlier = _rows(folder / "earlier" / "episodes.jsonl") if (folder / "earlier").exists() else []
    failed = [row for row in earlier if row["fault"] in ("service", "environment")]
    assert begun == planned + len(failed) + summary["restarted"]
    assert summary["retried"] == len({row["number"] for row in failed})


def _kill(folder: Path, after: int, torn: bytes = b"") -> None:
    """Leave a folder as a process leaves it that was killed when so many episodes had ended."""
    for name in ("manifest.json", "summary.json", "report.html"):
        (folder / name).unlink()
    lines = (folder / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "episodes.jsonl").write_bytes(b"".join(lines[:after]) + torn)
    for number in range(after + 1, len(lines)):
        folders.record_path(folder, number).unlink()
        folders.sidecar_path(folder, number).unlink()
    begun = (folder / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "attempts.jsonl").write_bytes(b"".join(begun[: after + 1]) + b'{"attem')


@pytest.mark.parametrize("torn", [b"", b'{"number":2,"split":"few"'])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, torn: bytes) -> None:
    whole = _begin(tmp_path)
    _kill(tmp_path / "run", 2, torn)
    Weather.played.clear()
    result = _go_on(tmp_path)
    assert Weather.played == [2, 3, 4, 5]
    assert (result.complete, result.clean, result.summary["restarted"]) == (True, True, 1)
    assert result.manifest.run_id == whole.manifest.run_id
    assert result.manifest.created == whole.manifest.created
    assert [episode.attempt for episode in result.episodes] == [1, 1, 2, 1, 1, 1]
    assert result.manifest.merkle_root == whole.manifest.merkle_root
    _check(tmp_path / "run")


def test_an_episode_whose_record_is_torn_or_gone_is_played_again(tmp_path: Path) -> None:
    _begin(tmp_path)
    record = folders.record_path(tmp_path / "run", 1)
    record.write_bytes(record.read_bytes()[:-9])
    folders.record_path(tmp_path / "run", 4).unlink()
    Weather.played.clear()
    assert _go_on(tmp_path).summary["restarted"] == 2
    assert Weather.played == [1, 4]
    _check(tmp_path / "run")


def test_a_run_that_is_whole_is_left_as_it_is(tmp_path: Path) -> None:
    first = _begin(tmp_path)
    second = _go_on(tmp_path)
    assert first.manifest == second.manifest
    assert first.summary == second.summary
    assert len(Weather.played) == 6


def test_only_what_the_service_or_the_world_failed_is_retried_and_stays_on_record(tmp_path: Path) -> None:
    Weather.storms = {1: 1, 3: 2}
    first = _begin(tmp_path)
    assert (first.summary["errors"], first.summary["infrastructure"], first.clean) == (2, 2, False)
    second = _go_on(tmp_path, Again(retry_errors=True))
    assert (second.summary["retried"], second.summary["infrastructure"]) == (2, 1)
    third = _go_on(tmp_path, Again(retry_errors=True))
    assert (third.clean, third.summary["retried"], third.summary["restarted"]) == (True, 2, 0)
    assert [episode.attempt for episode in third.episodes] == [1, 2, 1, 3, 1, 1]
    earlier = tmp_path / "run" / "earlier"
    assert [(row["number"], row["attempt"]) for row in _rows(earlier / "episodes.jsonl")] == [(1, 1), (3, 1), (3, 2)]
    assert sorted(path.name for path in (earlier / "records").iterdir()) == [
        "000001.1.jsonl", "000003.1.jsonl", "000003.2.jsonl",
    ]  # fmt: skip
    assert third.manifest.harness.retried == 2
    _check(tmp_path / "run")


def test_a_players_own_failure_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weather, "error", staticmethod(lambda: ZeroDivisionError("a banana skin")))
    Weather.storms = {1: 1}
    _begin(tmp_path)
    second = _go_on(tmp_path, Again(retry_errors=True))
    assert (second.episodes[1].fault, second.episodes[1].attempt, second.summary["retried"]) == ("policy", 1, 0)


def test_a_world_that_failed_is_retried(tmp_path: Path) -> None:
    _begin(tmp_path, "Sailor", options={"fault": "act", "at": 2})
    second = _go_on(tmp_path, Again(retry_errors=True))
    assert (second.episodes[2].fault, second.episodes[2].attempt) == ("environment", 2)
    assert second.summary["retried"] == 1


def test_what_was_cut_at_the_keyboard_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _begin(tmp_path)
    cut = replace(result.episodes[5], ending="abandoned", stopped="interrupted", success=False, reward=0.0)
    rows = [*result.episodes[:5], cut]
    (tmp_path / "run" / "episodes.jsonl").write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
    again = _go_on(tmp_path)
    assert (again.complete, again.summary["restarted"], again.summary["retried"]) == (True, 1, 0)
    assert again.episodes[5].attempt == 2
    _check(tmp_path / "run")


@pytest.mark.parametrize("stage", ["copied", "listed"])
def test_a_retry_that_is_killed_while_it_clears_up_can_be_retried(tmp_path: Path, stage: str) -> None:
    Weather.storms = {1: 1}
    _begin(tmp_path)
    folder = tmp_path / "run"
    before = (folder / "episodes.jsonl").read_bytes()
    standing = resuming.look(folder, run.planfile.read(folder), retry_errors=True)
    resuming.clear(folder, standing)
    (folder / "episodes.jsonl").write_bytes(before)
    if stage == "copied":
        (folder / "earlier" / "episodes.jsonl").unlink()
        record = folder / "earlier" / "records" / "000001.1.jsonl"
        folders.record_path(folder, 1).write_bytes(record.read_bytes())
    result = _go_on(tmp_path, Again(retry_errors=stage == "copied"))
    assert (result.clean, result.summary["retried"], result.summary["restarted"]) == (True, 1, 0)
    _check(folder)


@pytest.mark.parametrize(
    ("budget", "ended_by", "played"),
    [
        ({"tokens": 120}, "tokens", 2),
        ({"tokens": 121}, "tokens", 3),
        ({"dollars": Decimal("0.000006")}, "dollars", 2),
        ({"seconds": 1e-9}, "seconds", 0),
        ({"tokens": 10**9}, None, 6),
    ],
)
def test_a_budget_ends_a_run_and_the_rest_is_said(tmp_path: Path, budget: Any, ended_by: Any, played: int) -> None:
    result = _begin(tmp_path, "Spender", budget=run.Budget(**budget))
    said = result.summary
    assert (said["ended_by"], said["episodes"], said["not_started"], said["planned"]) == (
        ended_by, played, 6 - played, 6,
    )  # fmt: skip
    assert result.complete is (ended_by is None)
    assert result.manifest.ended_by == ended_by
    assert said["budget"]["used_tokens"] == 60 * played
    assert _go_on(tmp_path).complete
    _check(tmp_path / "run")


def test_a_budget_counts_what_was_used_before(tmp_path: Path) -> None:
    _begin(tmp_path, "Spender", budget=run.Budget(tokens=100))
    again = _go_on(tmp_path, Again(budget=run.Budget(tokens=180)))
    assert (again.summary["episodes"], again.summary["budget"]["used_tokens"]) == (3, 180)


@pytest.mark.parametrize("name", ["tokens", "dollars"])
def test_what_cannot_be_counted_ends_a_run_with_such_a_budget(tmp_path: Path, name: str) -> None:
    result = _begin(tmp_path, "Silent", budget=run.Budget(**{name: 10**6}))
    assert (result.summary["ended_by"], result.summary["episodes"]) == (name, 1)
    assert result.summary["budget"][f"used_{'tokens' if name == 'tokens' else 'microusd'}"] is None


@pytest.mark.parametrize("value", [0, -1, float("nan"), 10**15])
def test_a_budget_of_nothing_makes_no_sense(value: Any) -> None:
    with pytest.raises(ConfigError, match="makes no sense"):
        run.Budget(seconds=value)


def test_trials_play_each_scenario_again(tmp_path: Path) -> None:
    result = _begin(tmp_path, episodes=2, trials=3)
    assert [episode.index for episode in result.episodes] == [0, 1] * 3
    entry = result.manifest.envs[0]
    assert (entry.tasks, entry.trials, result.complete) == (2, 3, True)
    _kill(tmp_path / "run", 3)
    _go_on(tmp_path)
    _check(tmp_path / "run")


def _edited(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    form = json.loads((folder / name).read_text())
    change(form)
    (folder / name).write_text(json.dumps(form))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda form: form.update(version="0.0.1"), "begun: version"),
        (lambda form: form["entry"].update(scorer_hash="0" * 64), "begun: entry.scorer_hash"),
        (lambda form: form["agent"].update(source_hash="0" * 64), "begun: agent.source_hash"),
        (lambda form: form.update(indices=[0, 1, 2, 3, 4, 7]), "begun: indices"),
        (lambda form: form.update(stream=True), "cannot go on"),
        (lambda form: form.update(served=True), "give its --url again"),
        (lambda form: form.update(machine_options=["data"]), "give -o data=VALUE again"),
        (lambda form: form.update(surprise=1), "surprise"),
        (lambda form: form.update(env="nowhere"), "nowhere"),
    ],
)
def test_a_run_goes_on_only_as_it_was_begun(tmp_path: Path, change: Any, said: str) -> None:
    _begin(tmp_path)
    _edited(tmp_path / "run", "plan.json", change)
    with pytest.raises(Exception, match=said):
        _go_on(tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no json", "line 7 of"),
        ("[]", "it is no object"),
        ('{"number": 9}', "9 is the number of no episode"),
        ('{"number": true}', "True is the number of no episode"),
        ('{"number": 1, "color": "red"}', "color"),
        ('{"number": [1]}', "is the number of no episode"),
        ('{"number": 1, "split": "\\ud800"}', "surrogate"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_changed(tmp_path: Path, line: str, said: str) -> None:
    _begin(tmp_path)
    with (tmp_path / "run" / "episodes.jsonl").open("a") as table:
        table.write(line + "\n")
    with pytest.raises(DataError, match=said):
        _go_on(tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize(
    "change", [{"usage": []}, {"reward": "1"}, {"turns": None}, {"success": 1}, {"usage": {"a": "b"}}]
)
def test_a_line_of_other_types_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    _begin(tmp_path)
    table = tmp_path / "run" / "episodes.jsonl"
    first, *rest = table.read_text().splitlines()
    table.write_text("\n".join([json.dumps({**json.loads(first), **change}), *rest, ""]))
    with pytest.raises(DataError, match="line 1 of"):
        _go_on(tmp_path)


@pytest.mark.parametrize("change", [{"success": False}, {"reward": 0.5}, {"turns": 10**25}, {"ending": "truncated"}])
def test_no_new_manifest_is_made_over_a_line_that_is_not_what_its_record_says(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    _begin(tmp_path)
    table = tmp_path / "run" / "episodes.jsonl"
    first, *rest = table.read_text().splitlines()
    table.write_text("\n".join([json.dumps({**json.loads(first), **change}), *rest, ""]))
    with pytest.raises(DataError, match=f"it says {next(iter(change))} .*, its record "):
        _go_on(tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()


def test_a_line_that_stands_twice_is_named(tmp_path: Path) -> None:
    _begin(tmp_path)
    table = tmp_path / "run" / "episodes.jsonl"
    table.write_text(table.read_text() + table.read_text().splitlines()[0] + "\n")
    with pytest.raises(DataError, match="listed twice"):
        _go_on(tmp_path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no plan at"):
        _go_on(tmp_path)


def test_two_cannot_play_into_one_folder(tmp_path: Path) -> None:
    _begin(tmp_path)
    config = run.config_of(tmp_path / "run", Again())
    with folders.held(tmp_path / "run"), pytest.raises(ConfigError, match="is being played"):
        run.resume(config)
    assert run.resume(config).complete


def test_a_disk_that_is_full_at_the_end_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(folders, "write_json", full)
    with pytest.raises(DataError, match="the end of the run") as told:
        _begin(tmp_path)
    assert f"agentenvs eval --resume {tmp_path / 'run'}" in told.value.fix
    monkeypatch.undo()
    assert _go_on(tmp_path).clean


def test_half_a_line_is_taken_back_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.append(tmp_path / "t", {"a": 1})

    class Full:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 3

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError("no space left")
            done, self.left = self.file.write(data[: self.left]), 0
            return int(done)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            self.file.close()

    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args, **more: Full(opened(path, *args, **more)))
    with pytest.raises(OSError, match="no space"):
        folders.append(tmp_path / "t", {"b": 2})
    monkeypatch.undo()
    assert (tmp_path / "t").read_text() == '{"a":1}\n'


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_accounts_for_every_episode(tmp_path: Path) -> None:
    (tmp_path / "slow_player.py").write_text(
        "import time\nclass P:\n    def reset(self, spec, task): ...\n"
        "    def act(self, observation):\n        time.sleep(0.01)\n        return 'look'\n"
    )
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    verb = [sys.executable, "-m", "agentenvs.cli", "eval", "-q"]
    begin = ["household", "--policy", "slow_player:P", "-o", "limit=8", "--episodes", "40", "--concurrency", "2"]
    draw = Stream(bytes(32), "kills")
    arguments, begun = [*begin, "--out", "run"], tmp_path / "run" / "attempts.jsonl"
    for _ in range(10):
        before = begun.stat().st_size if begun.exists() else 0
        process = subprocess.Popen([*verb, *arguments], cwd=tmp_path, env=surroundings, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (begun.stat().st_size if begun.exists() else 0) <= before:
            time.sleep(0.01)
        time.sleep(draw.below(200) / 1000)
        process.kill()
        process.wait()
        arguments = ["--resume", "run"]
    done = subprocess.run([*verb, *arguments], cwd=tmp_path, env=surroundings, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["restarted"] >= 10
    _check(tmp_path / "run", 40)
