"""``compare`` and ``report`` at the command line."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def runs(cli):
    for policy in ("noop", "oracle"):
        cli("eval", "household", "--policy", policy, "--episodes", "8", "--out", policy, "-o", "limit=20")
    return cli


def test_whether_two_runs_differ(runs, tmp_path):
    ran = runs("compare", "noop", "oracle", "--html", "page.html")
    assert ran.code == 0, ran.err
    assert "B is better than A by 100.0 points: p = 0.008 (McNemar, exact)" in ran.out
    assert "8 scenarios show a difference of" in ran.out
    assert "agent.privileged" in ran.out
    assert "--by kind" in ran.err
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "http://" not in page


def test_json_holds_all_of_it(runs):
    said = runs("compare", "noop", "oracle", "--json").json
    assert said["pairs"][0]["whole"]["outcomes"] == {"both": 0, "first": 0, "second": 8, "neither": 0}
    assert said["pairs"][0]["whole"]["real"] is True
    assert [run["name"] for run in said["runs"]] == ["noop", "oracle (the scenario)"]


@pytest.mark.parametrize(("order", "code"), [(("noop", "oracle"), 0), (("oracle", "noop"), 1)])
def test_a_gate_for_regressions(runs, order, code):
    assert runs("compare", *order, "--fail-if-worse").code == code
    assert runs("compare", *order).code == 0


def test_by_a_label(runs):
    assert "B - A by kind" in runs("compare", "noop", "oracle", "--by", "kind").out
    ran = runs("compare", "noop", "oracle", "--by", "colour")
    assert ran.code == 2
    assert "choose one of: kind" in ran.err


def test_runs_of_other_scenarios_are_refused_with_what_to_do(cli):
    for name, start in (("a", "0"), ("b", "1")):
        cli("eval", "household", "--policy", "noop", "--episodes", "2", "--start", start, "--out", name)
    ran = cli("compare", "a", "b")
    assert ran.code == 2
    assert "why: a: 2, b: 2; in common: 1" in ran.err
    assert "--only-common" in ran.err
    ran = cli("compare", "a", "b", "--only-common")
    assert ran.code == 0
    assert "1 episodes are left out" in ran.out


def test_runs_of_other_rules_are_refused_unless_that_is_what_is_compared(runs):
    runs("eval", "household", "--policy", "noop", "--episodes", "8", "--out", "short", "-o", "limit=3")
    ran = runs("compare", "noop", "short", "--json")
    assert ran.code == 2
    assert ran.json["error"]["why"] == "the option limit was 20 and 3"
    assert runs("compare", "noop", "short", "--across", "limit").code == 0


def test_a_report_over_runs(runs, tmp_path):
    (tmp_path / "noop" / "report.html").unlink()
    assert runs("report", "noop").code == 0
    assert (tmp_path / "noop" / "report.html").is_file()
    ran = runs("report", "noop", "oracle", "--html", "both.html", "--json")
    assert [row["policy"] for row in ran.json] == ["noop", "oracle"]
    assert ran.json[0]["infrastructure"]["episodes"] == 8
    assert "<svg" in (tmp_path / "both.html").read_text()
    assert "give --html FILE" in runs("report", "noop", "oracle").err


def test_mistakes_get_a_message(runs, tmp_path):
    for args, message in (
        (("compare", str(tmp_path)), "there is no manifest at"),
        (("compare", "noop"), "one run cannot be compared"),
        (("compare", "noop", "noop"), "are the same run"),
        (("compare", "noop", "oracle", "--html", "no/where.html"), "AE105 no/where.html cannot be read or written"),
        (("report", "noop", "--html", "no/where.html"), "AE105 no/where.html cannot be read or written"),
        (("compare", "noop", "oracle", "--cluster", "colour"), "cannot be clustered by 'colour'"),
    ):
        ran = runs(*args)
        assert (ran.code, message in ran.err) == (2, True), ran.err
        assert "Traceback" not in ran.err


def test_a_run_that_was_edited_is_refused(runs, tmp_path):
    table = tmp_path / "noop" / "episodes.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    table.write_text("".join(json.dumps({**row, "success": True}) + "\n" for row in rows))
    ran = runs("compare", "noop", "oracle")
    assert ran.code == 2
    assert "were changed after the run" in ran.err
