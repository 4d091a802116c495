"""The page on rewards tells the truth: each of its ten mistakes is caught by a check that it names for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentenvs.core.task import TaskRef
from agentenvs.harness.check import CHECKS, check_env
from agentenvs.harness.check.run import QUICK, find, made
from tests.check.mistakes import MISTAKES, PLACES, SOUND
from tests.check.test_broken import BROKEN

PAGE = Path(__file__).parents[2] / "docs" / "rewards.md"
NAMED = {f"{check.theme}.{check.name}": check for check in CHECKS}
ROWS = {
    int(row[1]): re.findall(r"`(\w+\.\w+)`", row[0].rsplit("|", 2)[1])
    for row in re.finditer(r"^\| (\d+)\. .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
}
WORDS = 3
"""The mistake that only a player of one's own shows."""


def test_there_are_ten():
    assert list(ROWS) == list(MISTAKES) == list(range(1, 11))


def test_without_a_mistake_the_world_passes():
    report = check_env(SOUND, quick=True)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("number", "made_in"), [(number, made_in) for number, worlds in MISTAKES.items() for made_in in worlds]
)
def test_a_mistake_is_caught_by_what_the_page_names(number, made_in):
    if number == WORDS:
        assert ROWS[number] == []
        return
    subject = find(made_in, {}, QUICK)
    findings = [made(NAMED[name], subject) for name in ROWS[number]]
    subject.end()
    assert "failed" in [finding.status for finding in findings], findings


def test_every_check_that_the_page_names_catches_something():
    caught = {wanted[0] for wanted in BROKEN.values()} | {"determinism.twin_runs", "hosting.undone"}
    assert {name for names in ROWS.values() for name in names} <= caught


def test_paying_for_words_is_shown_by_a_player_that_says_everything():
    earned = []
    for world in (SOUND, *MISTAKES[WORDS]):
        env = world()
        env.reset(TaskRef("dev", 0))
        env.step(f"take {' '.join(PLACES)}")
        earned.append(env.finish("abandoned").reward)
    assert earned == [0.0, 1.0]
