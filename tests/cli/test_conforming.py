"""``agentenvs check``: a table, what is wrong and how to mend it, what it may be used for; and no traceback."""

from __future__ import annotations

import pytest

from agentenvs.harness.check import CHECKS

pytestmark = pytest.mark.usefixtures("fixtures")


def test_a_sound_environment_passes(cli):
    ran = cli("check", "household", "--quick", "-o", "profile=native", "--split", "builtin")
    assert ran.code == 0
    assert "scenarios that differ only in secrets look the same" in ran.out
    assert f"{len(CHECKS)} checks passed, 0 failed, 0 skipped" in ran.out
    assert "ranked boards                      yes" in ran.out
    assert "leave out --quick" in ran.err


def test_a_class_that_breaks_a_promise_fails_and_says_how_to_mend_it(cli):
    ran = cli("check", "tests.check.broken.shared_fork:Broken", "--quick")
    assert ran.code == 1
    assert "failed: branching.fork" in ran.out
    assert "playing the fork changes the original" in ran.out
    assert "fix: copy in _own() all that a turn changes" in ran.out
    assert "credit audit by branching          no (failed: branching.fork)" in ran.out
    assert "evaluation                         yes" in ran.out


def test_what_is_not_declared_is_told(cli):
    ran = cli("check", "clerk", "--quick", "--quiet")
    assert ran.code == 0
    assert "skipped: branching.fork" in ran.out
    assert "What it does not declare costs its users:" in ran.out
    assert ran.err == ""


def test_the_report_as_json(cli):
    report = cli("check", "tests.check.broken.weak_oracle:Broken", "--quick", "--json").json
    assert report["passed"] is False
    assert report["counts"]["failed"] == 1
    (failed,) = [item for item in report["findings"] if item["status"] == "failed"]
    assert failed["check"] == "oracle"
    assert set(failed["faults"][0]) == {"what", "where", "fix"}


@pytest.mark.parametrize(
    ("target", "words", "code"),
    [
        ("nothing", "AE101 there is no environment 'nothing'", 2),
        ("nowhere.at:All", "'nowhere.at:All' cannot be imported", 2),
        ("tests.check.broken.sound:Missing", "cannot be found", 2),
        ("tests.check.broken.sound:Room", "is no environment", 2),
        ("json:JSONDecoder", "is no environment", 2),
        ("http://127.0.0.1:9", "stays away", 3),
        (":", "is no entry point", 2),
    ],
)
def test_a_bad_target_gets_a_message(cli, target, words, code):
    ran = cli("check", target, "--quick")
    assert ran.code == code
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_bad_options_get_a_message(cli):
    assert "has no option 'colour'" in cli("check", "household", "-o", "colour=red").err
    assert "has no split 'nowhere'" in cli("check", "household", "--split", "nowhere").err
    assert "reads no data" in cli("check", "clerk", "--data", "folder").err
