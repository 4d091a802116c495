"""The three fixture worlds, long and slow and talkative, through a whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.record import read_records
from agentenvs.core.replay import replay, rescore
from agentenvs.harness.run import RunConfig, RunResult, evaluate
from tests.envs.fixtures import register_fixtures

register_fixtures()

HERE = "tests.harness.test_fixtures"


class Breaker:
    """Does with the slow tool what no world should have to bear."""

    calls: tuple[Any, ...] = ({"tool": "nap", "arguments": {"milliseconds": 5000}},)

    def reset(self, spec: Any, task: Any) -> None:
        self.turn = 0

    def act(self, observation: Any) -> Any:
        self.turn += 1
        return self.calls[(self.turn - 1) % len(self.calls)]


class Destroyer(Breaker):
    calls = (
        {"tool": "crash", "arguments": {}},
        {"tool": "add", "arguments": {"count": 1}},
        {"tool": "explode", "arguments": {}},
        {"tool": "add", "arguments": {"count": 1}},
    )


def _run(tmp_path: Path, env: str, policy: str, episodes: int = 2) -> RunResult:
    result = evaluate(RunConfig(env, policy, episodes=episodes, concurrency=2, out=tmp_path / "run"))
    records = list(read_records(tmp_path / "run"))
    assert [record.digest for record in records] == [episode.record for episode in result.episodes]
    assert all(replay(record).equal and rescore(record).equal for record in records)
    assert result.complete
    return result


@pytest.mark.parametrize("env", ["clerk", "ledger", "slow_tool"])
def test_the_oracle_wins(tmp_path: Path, env: str) -> None:
    result = _run(tmp_path, env, "oracle")
    assert (result.clean, result.summary["successes"]) == (True, 2)
    assert result.manifest.agent.privileged


@pytest.mark.parametrize(("env", "policy"), [("clerk", "noop"), ("clerk", "random"), ("slow_tool", "noop")])
def test_the_floor_earns_nothing_and_breaks_nothing(tmp_path: Path, env: str, policy: str) -> None:
    result = _run(tmp_path, env, policy)
    assert (result.clean, result.summary["successes"]) == (True, 0)


def test_a_world_that_dies_now_and_then_is_brought_back(tmp_path: Path) -> None:
    result = _run(tmp_path, "slow_tool", f"{HERE}:Destroyer", episodes=1)
    assert (result.clean, result.summary["successes"]) == (True, 1)
    assert result.summary["invalid_rate"] == pytest.approx(0.5, abs=0.1)


def test_a_world_that_cannot_be_brought_back_makes_the_run_unclean(tmp_path: Path) -> None:
    result = _run(tmp_path, "slow_tool", f"{HERE}:Breaker", episodes=1)
    (episode,) = result.episodes
    assert (episode.ending, episode.success, result.clean) == ("aborted", False, False)
    assert episode.error == "the environment failed and its world is lost"
