from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import SplitError
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Verdict
from agentenvs.harness.rollout import Episode, counted, play
from agentenvs.harness.summary import summarize
from tests.harness import playroom

TALL = TaskRef("few", 2)  # three steps


def _play(policy: Any, ref: TaskRef = TALL, env: str = "stairs", **options: Any) -> Episode:
    return play(registry.make(env, **options), policy, ref)


def _checked(episode: Episode) -> Episode:
    """Hold what is so of every episode, however it went: its record is whole, replays and rescores."""
    (record,) = parse_records(episode.record)
    assert record.footer is not None
    assert record.digest == episode.summary.record
    assert replay(record).equal
    assert rescore(record).equal
    return episode


@pytest.mark.parametrize("env", ["stairs", "escalator"])
@pytest.mark.parametrize("policy", [playroom.Climber, playroom.Dreamer, playroom.Oracle])
def test_an_episode_in_step_and_out_of_step(env: str, policy: Any) -> None:
    summary = _checked(_play(policy(), env=env)).summary
    told = (summary.ending, summary.success, summary.reward, summary.episode_return, summary.turns, summary.error)
    assert told == ("terminated", True, 1.0, 1.0, 3, None)
    assert (summary.kind, summary.par, summary.scenario, summary.invalid) == ("<long>", 3, "few-2", 0)


def test_a_privileged_player_is_shown_the_scenario_and_the_record_says_so() -> None:
    privileged = [
        parse_records(_play(policy).record)[0].header["privileged"]
        for policy in (playroom.Oracle(), playroom.Climber())
    ]
    assert privileged == [True, False]


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (playroom.Faller, "ZeroDivisionError: a banana skin"),
        (playroom.Leaver, "SystemExit: 3"),
        (playroom.Unready, "LookupError: no shoes"),
    ],
)
def test_a_player_that_fails_has_abandoned_its_episode_and_earns_nothing(policy: Any, error: str) -> None:
    episode = _checked(_play(policy()))
    summary = episode.summary
    assert (summary.ending, summary.success, summary.reward, summary.episode_return) == ("abandoned", False, 0.0, 0.0)
    assert summary.error == error
    assert "Traceback" in episode.sidecar["error"]


class _Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (_Speechless(), "_Speechless"),
        (ValueError("\ud800"), "ValueError: ?"),
        (GeneratorExit(), "GeneratorExit: "),
        (BaseException("odd"), "BaseException: odd"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
    ],
)
def test_whatever_a_player_raises_costs_its_episode_only(error: BaseException, said: str) -> None:
    with ThreadPoolExecutor(1) as pool:  # as in a run: the keyboard interrupts the main thread only
        episode = _checked(pool.submit(_play, playroom.Thrower(error)).result())
    assert (episode.summary.ending, episode.summary.error) == ("abandoned", said)


def test_an_interrupt_from_the_keyboard_is_no_failure_of_a_player() -> None:
    with pytest.raises(KeyboardInterrupt):
        _play(playroom.Thrower(KeyboardInterrupt()))


@pytest.mark.parametrize("junk", ["abc", 7, {"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {(1, 2): 3}])
def test_junk_among_a_players_counts_costs_the_counts_only(junk: Any) -> None:
    summary = _checked(_play(playroom.Muddled(junk, junk, {(1, 2): 3}))).summary
    assert summary.success
    assert summarize([summary])["metrics"] == {}
    assert list(summary.usage.values()) == [None]


@pytest.mark.parametrize(
    ("fault", "turns", "begun"),
    [("act", 0, True), ("begin", 0, False), ("scenario", 0, False)],
)
def test_an_environment_that_fails_has_aborted_the_episode(fault: str, turns: int, begun: bool) -> None:
    episode = _checked(_play(playroom.Climber(), fault=fault, at=2))
    summary = episode.summary
    assert (summary.ending, summary.success, summary.reward, summary.turns) == ("aborted", False, 0.0, turns)
    assert (summary.scenario_digest is not None) == (fault != "scenario")
    assert (summary.scenario != "") == begun
    assert "lost" in (summary.error or "") or "broke" in (summary.error or "")


def test_an_environment_that_cannot_judge_has_aborted_whoever_failed_first() -> None:
    assert _play(playroom.Climber(), fault="judge", at=2).summary.ending == "aborted"
    summary = _play(playroom.Faller(), fault="judge", at=2).summary
    assert (summary.ending, summary.error) == ("aborted", "ZeroDivisionError: a banana skin")


def test_an_environment_that_cannot_label_its_episode_costs_the_label_only() -> None:
    summary = _checked(_play(playroom.Climber(), fault="labels", at=2)).summary
    assert (summary.success, summary.kind, summary.par) == (True, None, None)


def test_the_scenario_of_an_earlier_episode_is_not_taken_for_the_one_that_failed() -> None:
    env = registry.make("stairs", fault="scenario", at=2)
    play(env, playroom.Climber(), TaskRef("few", 1))
    summary = play(env, playroom.Climber(), TALL).summary
    assert (summary.index, summary.scenario_digest, summary.scenario) == (2, None, "")


def test_an_address_that_names_nothing_starts_nothing() -> None:
    with pytest.raises(SplitError):
        _play(playroom.Climber(), TaskRef("few", 99))


@pytest.mark.parametrize(("ending", "reward"), [("truncated", 1 / 3), ("abandoned", 0.0)])
def test_a_player_may_stop_by_its_own_rules_without_an_error(ending: Any, reward: float) -> None:
    policy = playroom.Quitter()
    policy.ending = ending
    summary = _checked(_play(policy)).summary
    assert (summary.ending, summary.reward, summary.stopped, summary.error) == (ending, reward, "tired", None)


def test_a_player_cannot_choose_the_worlds_own_ending() -> None:
    policy = playroom.Quitter()
    policy.ending = "terminated"
    summary = _checked(_play(policy)).summary
    assert (summary.ending, summary.reward) == ("abandoned", 0.0)
    assert "cannot make an episode 'terminated'" in (summary.error or "")


def test_a_run_may_stop_an_episode_between_turns() -> None:
    asked: list[bool] = []
    episode = play(registry.make("stairs"), playroom.Climber(), TALL, stop=lambda: asked.append(True) or len(asked) > 2)
    summary = _checked(episode).summary
    assert (summary.ending, summary.turns, summary.stopped, summary.error) == ("abandoned", 2, "interrupted", None)


def test_what_a_player_counts_is_kept_and_what_it_cannot_tell_costs_nothing() -> None:
    episode = _checked(_play(playroom.Talker()))
    assert episode.summary.usage == {"tokens_in": 7, "tokens_out": None}
    assert episode.summary.metrics == {"height": 0, "said": "much"}
    assert episode.summary.invalid == episode.summary.turns == 5
    assert episode.sidecar["policy"] == {"raw": "…"}
    untidy = _checked(_play(playroom.Untidy()))
    assert untidy.summary.success
    assert "lost the notes" in untidy.sidecar["policy"]["error"]


@pytest.mark.parametrize(
    "junk", ["", None, 3.5, float("nan"), [], {}, {"tool": 1}, object(), "\ud800", b"up", [["up"]]]
)
def test_junk_is_a_turn(junk: Any) -> None:
    policy = playroom.Climber()
    policy.act = lambda observation: junk  # type: ignore[method-assign]
    summary = _checked(_play(policy)).summary
    assert (summary.ending, summary.turns, summary.invalid, summary.error) == ("truncated", 5, 5, None)


@pytest.mark.parametrize(
    ("ending", "reward", "kept"),
    [
        ("terminated", 0.5, 0.5),
        ("truncated", 0.5, 0.5),
        ("abandoned", 0.5, 0.0),
        ("aborted", 0.5, 0.0),
        ("abandoned", -1.0, -1.0),
    ],
)
def test_what_counts(ending: Any, reward: float, kept: float) -> None:
    assert counted(ending, Verdict(reward, True)) == (kept, ending in ("terminated", "truncated"))


def test_two_plays_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = _play(playroom.Talker()), _play(playroom.Talker())
    assert first.record == second.record
    assert first.summary == second.summary
