"""``agentenvs audit``: a table, a page, JSON, an exit code; and no traceback."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("fixtures")
SOUND = ("audit", "tests.audit.broken.common:Sound", "--quick", "--episodes", "4", "--split", "train")


def test_a_sound_world_passes(cli, tmp_path):
    ran = cli(*SOUND, "--html", "audit.html")
    assert ran.code == 0
    assert "hack.judge-text" in ran.out
    assert "grader.mutants" in ran.out
    assert "seed 0, 4 tasks" in ran.out
    assert "leave out --quick" in ran.err
    assert (tmp_path / "audit.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_breach_is_told_and_is_the_exit_code(cli):
    report = cli("audit", "tests.audit.broken.pays_noop:Broken", "--quick", "-n", "3", "--split", "train", "--json")
    assert report.code == 1
    assert not report.json["passed"]
    assert "hack.no-op" in [row["row"] for row in report.json["rows"] if row["verdict"] == "breach"]


def test_what_init_writes_passes(cli):
    assert cli("init", "my_world", "--minimal").code == 0
    ran = cli("audit", "./my_world.py", "--quick", "-n", "6", "-q")
    assert ran.code == 0, ran.out


def test_a_world_that_is_not_deterministic_nor_forkable_is_audited(cli):
    ran = cli("audit", "clerk", "--quick", "-n", "4", "--json", "-q")
    rows = {row["row"]: row for row in ran.json["rows"]}
    assert rows["hack.no-op"]["verdict"] == "held"
    assert rows["anchor.oracle"]["verdict"] == "held"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit", "nowhere"), "there is no environment 'nowhere'"),
        (("audit", "household", "--split", "nowhere"), "has no split"),
        (("audit", "household", "-n", "0"), "0 episodes are none"),
        (("audit", "household", "-o", "nothing=1"), "no option"),
    ],
)
def test_a_mistake_shows_no_traceback(cli, words, said):
    ran = cli(*words)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_page_that_cannot_be_written_does_not_cost_the_table(cli):
    ran = cli("audit", "tests.audit.broken.common:Sound", "--quick", "-n", "1", "--html", "nowhere/audit.html")
    assert (ran.code, "cannot be read or written" in ran.err) == (2, True)
    assert "hack.judge-text" in ran.out
