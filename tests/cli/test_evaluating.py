"""``eval`` and ``compare``: tables, folders, exit codes."""

from __future__ import annotations

import json

import pytest


def test_the_oracle_wins_and_everything_is_left_behind(cli, tmp_path):
    ran = cli("eval", "household", "--policy", "oracle", "--out", "run", "--concurrency", "2")
    assert ran.code == 0, ran.err
    assert "100.0" in ran.out
    for name in ("manifest.json", "episodes.jsonl", "summary.json", "report.html"):
        assert (tmp_path / "run" / name).is_file()
    assert cli("replay", "run").code == 0
    assert cli("rescore", "run").code == 0


def test_json_is_all_there_is_on_stdout(cli):
    ran = cli("eval", "household", "--policy", "noop", "--episodes", "2", "--out", "run", "--json")
    assert ran.json["summary"]["successes"] == 0
    assert ran.json["clean"] is True
    assert ran.json["manifest"]["agent"]["name"] == "noop"


def test_fail_under_sets_the_exit_code(cli):
    args = ("eval", "household", "--policy", "noop", "--episodes", "1", "--fail-under", "0.5", "--out", "run")
    assert cli(*args).code == 1


def test_a_policy_of_ones_own_from_the_working_folder(cli, tmp_path):
    (tmp_path / "mine_to_play.py").write_text(
        "class P:\n    def reset(self, spec, task): ...\n    def act(self, observation): return 'look'\n"
    )
    ran = cli("eval", "household", "--policy", "mine_to_play:P", "--episodes", "1", "--out", "run", "--json")
    assert ran.json["summary"]["endings"] == {"truncated": 1}


def test_a_policy_that_raises_makes_the_run_unclean(cli, tmp_path):
    (tmp_path / "raises.py").write_text(
        "class P:\n    def reset(self, spec, task): ...\n    def act(self, observation): raise RuntimeError('oh')\n"
    )
    ran = cli("eval", "household", "--policy", "raises:P", "--episodes", "2", "--out", "run")
    assert ran.code == 1
    assert "RuntimeError: oh" in ran.err
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--policy", "oracel"), "did you mean 'oracle'"),
        (("--policy", "nowhere:P"), "cannot be imported"),
        (("--policy", "json:nothing"), "cannot be found"),
        (("--policy", "noop", "--split", "test9"), "has no split 'test9'"),
        (("--policy", "noop", "--episodes", "99"), "has 12 scenarios"),
        (("--policy", "noop", "--episodes", "0"), "AE108"),
        (("--policy", "noop", "--concurrency", "0"), "AE108"),
        (("--policy", "noop", "--model", "m"), "--model has no effect here"),
        (("--policy", "noop", "--stream", "a,b"), "is no order of episodes"),
        (("--policy", "openai"), "needs a model"),
        (("--policy", "openai", "--model", "m", "--protocol", "chat"), "chat"),
        (("--policy", "openai", "--model", "m", "--history", "some"), "history"),
    ],
)
def test_mistakes_get_a_message_and_exit_code_2(cli, args, message):
    ran = cli("eval", "household", *args)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_an_option_from_the_environment(cli, monkeypatch):
    monkeypatch.setenv("AGENTENVS_EVAL_EPISODES", "3")
    assert cli("eval", "household", "--policy", "noop", "--dry-run", "--json").json["episodes"] == 3


def test_a_dry_run_writes_nothing(cli, tmp_path):
    assert cli("eval", "household", "--policy", "expert", "--dry-run").code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_never_overwritten(cli, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    ran = cli("eval", "household", "--policy", "noop", "--episodes", "1", "--out", "run")
    assert ran.code == 2
    assert "is not empty" in ran.err


def test_a_stream_plays_a_declared_order(cli, tmp_path):
    (tmp_path / "order.txt").write_text("3 1\n2\n")
    cli("eval", "household", "--policy", "noop", "--stream", "order.txt", "--out", "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert [row["index"] for row in rows] == [3, 1, 2]
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["harness"]["order"] == [3, 1, 2]


def test_compare_lays_runs_side_by_side(cli, tmp_path):
    for policy in ("noop", "random"):
        cli("eval", "household", "--policy", policy, "--episodes", "2", "--out", policy, "-o", "admissible=true")
    ran = cli("compare", "noop", "random", "--report", "both.html")
    assert ran.code == 0
    assert "noop" in ran.out
    assert "random" in ran.out
    page = (tmp_path / "both.html").read_text()
    assert "<svg" in page
    assert "http://" not in page


def test_comparing_what_is_no_run_is_a_message(cli, tmp_path):
    ran = cli("compare", str(tmp_path))
    assert ran.code == 2
    assert "there is no manifest at" in ran.err


def test_real_games_name_their_panel(cli, shared_data):
    args = ("eval", "household", "--policy", "noop", "--split", "valid_seen", "--data", str(shared_data / "household"))
    ran = cli(*args, "--out", "run", "--json")
    assert ran.json["summary"]["episodes"] == 8
    assert len(ran.json["panel"]) == 64
