"""The credit audit: its truth against enumeration, its measures against their definitions, and the way back."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentenvs.core.errors import CapabilityError, ConfigError, ContractError
from agentenvs.train.batch import Array
from agentenvs.train.credit_audit import agreement, audit, branching, opening
from agentenvs.train.credit_audit.agreement import Compared, Levels, Turns
from agentenvs.train.credit_audit.credited import Credited
from agentenvs.train.credit_audit.settings import AuditSettings, budget
from agentenvs.train.credit_audit.truth import Truth, from_form, returned
from agentenvs.train.interfaces import RolloutHook
from agentenvs.train.records import Episode
from agentenvs.train.rollout import Branch
from agentenvs.train.run import train
from tests.train.tabular import Letters, advantages, played, rollouts
from tests.train.test_run import small


def measured(branches: int, groups: int = 12, size: int = 2) -> tuple[list[Episode], list[Truth]]:
    over = rollouts()
    episodes = played(over, groups, size)
    return episodes, [branching.measure(over, one, index, branches) for index, one in enumerate(episodes)]


@pytest.fixture(scope="module")
def game() -> tuple[list[Episode], list[Truth], Array]:
    """Episodes of the game, their truth of 64 continuations, and their exact advantages."""
    episodes, truths = measured(64)
    return episodes, truths, np.concatenate([advantages(one) for one in episodes])


# ---- the truth -----------------------------------------------------------------------------------------------------


def test_the_truth_is_what_enumeration_says_within_its_error(game: tuple[list[Episode], list[Truth], Array]) -> None:
    _, truths, exact = game
    found = np.concatenate([one.advantages for one in truths])
    error = np.concatenate([one.errors for one in truths])
    known = error == 0  # both arms never differed
    assert len(exact) > 60
    assert np.ptp(exact) > 0.5
    z = (found - exact)[~known] / error[~known]
    assert np.abs(z).max() < 5
    assert 0.6 < float((z**2).mean()) < 1.6
    assert np.abs((found - exact)[known]).max(initial=0.0) < 0.25


def test_the_truth_converges() -> None:
    def off(branches: int) -> float:
        episodes, truths = measured(branches, groups=8)
        exact = np.concatenate([advantages(one) for one in episodes])
        return float(np.sqrt(np.mean((np.concatenate([one.advantages for one in truths]) - exact) ** 2)))

    few, many = off(8), off(128)
    assert many < 0.06
    assert few / many == pytest.approx(4.0, rel=0.5)  # as the root of 128 / 8


def test_arms_share_their_chance_so_the_same_action_has_no_difference() -> None:
    over = rollouts()
    (episode,) = played(over, 1, 1)
    truth = branching.measure(over, episode, 0, 32)
    nodes = branching.nodes(over, episode)
    for place, node in enumerate(nodes):
        copies = [Episode("letters", episode.ref, 0, one, turns=episode.turns[:place]) for one in range(32)]
        over.go_on([Branch(copy, node.ids, node.env) for copy in copies], branching.BRANCH_STEP)
        assert [sum(turn.reward for turn in one.turns[place:]) for one in copies] == truth.returns[place].tolist()
        same = [number for number, one in enumerate(copies) if one.turns[place].text == episode.turns[place].text]
        assert same
        assert truth.differences[place, same].tolist() == [0.0] * len(same)
    paired, apart = truth.spread_without_pairs()
    assert paired < apart
    assert truth.joined + truth.continuations == 32 * len(nodes)


def test_joined_continuations_take_over_what_follows() -> None:
    found, joined = returned([0.0, 0.0, 1.0], [[None, 0.0], [None, 1.0], [0.5, None]])
    assert found.tolist() == [[0.5, 0.0], [0.5, 1.0], [0.5, 1.0]]
    assert joined == 3
    truth = Truth(3, np.array([0.0, 0.0, 1.0]), found)
    assert truth.differences.tolist() == [[0.0, 1.0], [0.0, 0.0], [0.5, 0.0]]
    assert truth.errors[0] == pytest.approx(0.5)
    again = from_form(json.loads(truth.to_line()))
    assert again.returns.tolist() == found.tolist()
    assert again.episode == 3


def test_a_continuation_with_the_episode_s_own_chance_is_the_episode(tmp_path: Path) -> None:
    parts = opening.opened(trained(tmp_path))
    over = parts.rollouts
    assignments = audit._assignments(parts.config, AuditSettings(episodes=4, group_size=2))
    for episode in over.play(assignments, 2, 7):
        for place, node in enumerate(branching.nodes(over, episode)):
            copy = Episode(episode.env, episode.ref, episode.group, episode.sample, turns=episode.turns[:place])
            over.go_on([Branch(copy, node.ids, node.env)], 7)
            assert [turn.text for turn in copy.turns] == [turn.text for turn in episode.turns]
            assert [turn.reward for turn in copy.turns] == [turn.reward for turn in episode.turns]
            ids = [len(node.ids), *copy.segments[-1].ids]
            assert ids[1:] == episode.segments[0].ids.tolist()
            assert (copy.success, copy.ending) == (episode.success, episode.ending)
    parts.close()


def test_worlds_that_cannot_fork_are_refused() -> None:
    class Stuck(Letters):  # type: ignore[misc, valid-type]
        spec = replace(Letters.spec, capabilities=replace(Letters.spec.capabilities, forkable=False))

    class Moody(Letters):  # type: ignore[misc, valid-type]
        spec = replace(Letters.spec, capabilities=replace(Letters.spec.capabilities, deterministic=False))

    for kind, said in ((Stuck, "cannot be forked"), (Moody, "the same to the same")):
        with pytest.raises(CapabilityError, match=said):
            branching.check(rollouts(kind))


def test_hooks_that_step_in_turn_by_turn_are_refused() -> None:
    class Advice(RolloutHook):
        name = "advice"

        def before_turn(self, episode: Any, observation: Any) -> str:
            return "hurry"

    over = rollouts()
    over.hooks = [Advice()]
    with pytest.raises(ConfigError, match="turn by turn"):
        branching.check(over)


def test_a_world_that_does_something_else_is_noticed() -> None:
    over = rollouts()
    episode = next(one for one in played(over, 8, 1) if len(one.turns) > 2)
    episode.turns[0].text = "b" if episode.turns[0].text != "b" else "c"
    episode.turns[-1].reward += 1.0
    with pytest.raises(ContractError, match="something else"):
        branching.measure(over, episode, 0, 2)


# ---- agreement -----------------------------------------------------------------------------------------------------


def rows_of(game: tuple[list[Episode], list[Truth], Array], values: Array) -> dict[str, agreement.Estimate]:
    episodes, truths, _ = game
    counts = np.cumsum([len(one.turns) for one in episodes])[:-1]
    said = [Credited("mine", np.split(values, counts))]
    return audit.compared(truths, episodes, said, AuditSettings(episodes=24, group_size=2))[1]["mine"]


def test_who_says_the_truth_agrees_with_it(game: tuple[list[Episode], list[Truth], Array]) -> None:
    found = rows_of(game, game[2])
    assert found["pearson"].value is not None
    assert found["pearson"].value > 0.95
    assert found["corrected"].value == pytest.approx(1.0, abs=0.03)
    assert found["clear"].value == 1.0
    assert found["within"].value is not None
    assert found["within"].value > 0.95
    assert found["top"].value is not None
    assert found["top"].value > 0.6


def test_who_says_noise_does_not(game: tuple[list[Episode], list[Truth], Array]) -> None:
    found = rows_of(game, np.random.default_rng(0).normal(size=len(game[2])))
    for name, middle in (("pearson", 0.0), ("spearman", 0.0), ("within", 0.0), ("sign", 0.5)):
        one = found[name]
        assert one.low is not None
        assert one.high is not None
        assert one.low < middle < one.high


def test_one_number_an_episode_tells_no_turns_apart(game: tuple[list[Episode], list[Truth], Array]) -> None:
    outcomes = np.concatenate([[one.outcome] * len(one.turns) for one in game[0]])
    found = rows_of(game, outcomes)
    assert found["within"].value is None
    assert found["pearson"].value is not None
    assert rows_of(game, np.zeros(len(outcomes)))["sign"].value == 0.5


def turns(truth: Array, cluster: Array | None = None) -> Turns:
    nothing = np.zeros(len(truth))
    where = np.zeros(len(truth), np.int64) if cluster is None else cluster.astype(np.int64)
    return Turns(truth, nothing, truth, truth, where, where)


def test_weights_are_copies() -> None:
    rng = np.random.default_rng(1)
    truth, values = np.round(rng.normal(size=30), 1), np.round(rng.normal(size=30), 1)
    weight = rng.integers(0, 4, size=30)
    rows = np.repeat(np.arange(30), weight)
    found = Compared(turns(truth), values, 0.2).measure(weight.astype(np.float64))
    plain = Compared(turns(truth[rows]), values[rows], 0.2).measure(np.ones(len(rows)))
    assert found["pearson"] == pytest.approx(float(np.corrcoef(truth[rows], values[rows])[0, 1]))
    for name in ("pearson", "spearman", "sign", "top"):
        assert found[name] == pytest.approx(plain[name])


def test_ranks_and_tops_share_ties() -> None:
    levels = Levels(np.array([3.0, 1.0, 3.0, 2.0]))
    assert levels.ranks(np.ones(4)).tolist() == [3.0, 0.5, 3.0, 1.5]
    assert levels.top(np.ones(4), 1.0).tolist() == [0.5, 0.0, 0.5, 0.0]
    assert levels.top(np.ones(4), 3.0).tolist() == [1.0, 0.0, 1.0, 1.0]


def test_a_sign_of_nought_counts_one_half() -> None:
    truth, values = np.array([1.0, -1.0, 0.0, 2.0]), np.array([0.5, 0.0, 3.0, -1.0])
    assert agreement.same_sign(truth, values, np.ones(4)) == pytest.approx(1.5 / 3)
    assert math.isnan(agreement.same_sign(np.zeros(2), np.ones(2), np.ones(2)))


def test_reliability_is_the_share_that_is_no_error() -> None:
    rng = np.random.default_rng(2)
    true = rng.normal(size=20_000)
    even, odd = true + rng.normal(size=20_000), true + rng.normal(size=20_000)
    nothing = np.zeros(20_000, np.int64)
    one = Turns((even + odd) / 2, np.ones(20_000), even, odd, nothing, nothing)
    assert agreement.reliability(one, np.ones(20_000)) == pytest.approx(1 / 1.5, abs=0.02)


def test_intervals_are_seeded_and_drawn_by_groups() -> None:
    cluster = np.repeat(np.arange(12), 5)
    first, again, other = (agreement.resampled(cluster, 50, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert all(np.ptp(row[cluster == 3]) == 0 and row.sum() == 60 for row in first)


# ---- audits --------------------------------------------------------------------------------------------------------


def trained(folder: Path) -> Any:
    """Return the configuration of a run that was trained in a folder."""
    run = folder / "run"
    if not run.exists():
        train(small(method="grpo", steps=1, worlds=WORLDS, rollout={"constrained": True}, save={"every": 1}), run)
    return opening.configured(run, None)


WORLDS = {"household": {"env": "household", "options": {"difficulty": "easiest", "limit": 4}}}
SETTINGS = AuditSettings(episodes=4, group_size=2, branches=4, warmup=1, passes=2, resamples=40)
PAGES = ("credit.md", "credit.csv", "credit.json", "credit.svg", "turns.csv", "report.html")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and an audit of it that was not disturbed."""
    folder = tmp_path_factory.mktemp("audits")
    audit.audit(trained(folder), SETTINGS, folder / "whole", start=opening.start_of(folder / "run"))
    return folder


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in one.items() if name != "cpu"} for one in found]


def test_an_audit_leaves_its_pages(whole: Path) -> None:
    folder = whole / "whole"
    assert all((folder / name).read_text(encoding="utf-8") for name in PAGES)
    told = json.loads((folder / "credit.json").read_text(encoding="utf-8"))
    assert told["measured"] == told["episodes"] == 4
    assert "it has no credit" in told["missing"]["clone"]
    assert set(told["methods"]) | set(told["missing"]) >= {"grpo", "gigpo", "wpm", "vetta", "spo++", "klpo", "opdvr"}
    assert ("nothing can be compared" in " ".join(told["said"])) == (told["truth"]["reliability"]["value"] is None)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org", "")


def test_an_audit_that_was_cut_goes_on_as_if_nothing_had_been(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(whole / "whole", cut)
    text = (cut / "truth.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (cut / "truth.jsonl").write_text(text[0] + text[1][:40], encoding="utf-8")  # killed in the middle of a line
    audit.audit(trained(whole), SETTINGS, cut, start=opening.start_of(whole / "run"))
    assert lines(cut) == lines(whole / "whole")
    assert (cut / "turns.csv").read_bytes() == (whole / "whole" / "turns.csv").read_bytes()
    assert (cut / "credit.csv").read_bytes() == (whole / "whole" / "credit.csv").read_bytes()


def test_an_audit_that_is_killed_goes_on(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    code = f"""
from pathlib import Path
from tests.train.test_credit_audit import SETTINGS, audit, opening
run = Path({str(whole / "run")!r})
audit.audit(opening.configured(run, None), SETTINGS, Path({str(folder)!r}), start=opening.start_of(run))
"""
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    deadline = time.monotonic() + 240
    while not (folder / "truth.jsonl").exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    audit.audit(trained(whole), SETTINGS, folder, start=opening.start_of(whole / "run"))
    assert lines(folder) == lines(whole / "whole")
    assert (folder / "credit.csv").read_bytes() == (whole / "whole" / "credit.csv").read_bytes()


def test_a_spent_budget_ends_an_audit_between_episodes(whole: Path, tmp_path: Path) -> None:
    said: list[str] = []
    settings = replace(SETTINGS, budget=budget(["continuations=1"]), methods=("grpo", "wpm"))
    result = audit.audit(trained(whole), settings, tmp_path / "cut", tell=said.append)
    assert (len(result.truths), result.cut) == (1, "continuations 1")
    assert lines(tmp_path / "cut") == lines(whole / "whole")[:1]
    assert "3 episodes are not measured" in (tmp_path / "cut" / "credit.md").read_text(encoding="utf-8")
    assert any("budget is spent" in one for one in said)


def test_a_folder_holds_one_audit(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another audit"):
        audit.audit(trained(whole), replace(SETTINGS, branches=6), whole / "whole")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="not empty"):
        audit.audit(trained(whole), SETTINGS, tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"episodes": 5, "group_size": 2}, "groups of 2"),
        ({"branches": 3}, "halved"),
        ({"top": 0.0}, "top share"),
        ({"resamples": 3}, "make no sense"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        AuditSettings(**changes)


def test_budgets_are_read_from_words() -> None:
    found = budget(["20", "tokens=1000", "cpu=1.5"])
    assert (found.continuations, found.tokens, found.cpu) == (20, 1000, 1.5)
    assert found.spent(19, 999, 1.4) is None
    assert found.spent(19, 1000, 0.0) == "tokens 1000"
    for word in ("soon", "days=3", "cpu=-1", "tokens="):
        with pytest.raises(ConfigError, match="no budget"):
            budget([word])


def test_what_cannot_be_audited_is_said(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no run"):
        opening.configured(tmp_path, None)
    (tmp_path / "a.toml").write_text('worlds.household = {env = "household"}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="no model"):
        opening.configured(tmp_path / "a.toml", None)
    with pytest.raises(ConfigError, match="own configuration"):
        opening.configured(whole / "run", None, ("seed=1",))
    with pytest.raises(ConfigError, match="no method"):
        audit.audit(trained(whole), replace(SETTINGS, methods=("gripo",)), tmp_path / "audit")
