"""``eval``: tables, folders, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest


def test_the_oracle_wins_and_everything_is_left_behind(cli, tmp_path):
    ran = cli("eval", "household", "--policy", "oracle", "--out", "run", "--concurrency", "2", "--split", "builtin")
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


@pytest.mark.parametrize(("policy", "least", "code"), [("noop", "0.5", 1), ("noop", "0", 0), ("oracle", "1", 0)])
def test_fail_under_sets_the_exit_code(cli, policy, least, code):
    args = ("eval", "household", "--policy", policy, "--episodes", "1", "--fail-under", least, "--out", "run")
    assert cli(*args).code == code


def test_an_endpoint_nobody_can_reach_is_exit_code_3(cli):
    model = ("--policy", "openai", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    ran = cli("eval", "household", *model, "--episodes", "2", "--out", "run", "--json")
    assert ran.code == 3
    assert "dev/0 abandoned: the model endpoint at 127.0.0.1 stays away" in ran.err
    assert ran.json["summary"]["errors"] == 2


def test_what_to_do_next_is_a_command_line_that_works(cli):
    ran = cli("eval", "household", "--policy", "noop", "--episodes", "1", "--out", "run", "-o", "limit=3")
    (line,) = [line for line in ran.err.splitlines() if "agentenvs play" in line]
    command = line.partition("agentenvs ")[2].split()
    assert command[-2:] == ["-o", "limit=3"]
    assert cli(*command).code == 0


def test_an_interrupted_run_keeps_what_ended(cli, tmp_path):
    (tmp_path / "presses.py").write_text(
        "import os, signal, time\n"
        "class P:\n"
        "    def reset(self, spec, task): self.index = task.ref.index\n"
        "    def act(self, observation):\n"
        "        if self.index == 1:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            time.sleep(0.3)\n"
        "        return 'look'\n"
    )
    ran = cli("eval", "household", "--policy", "presses:P", "--out", "run", "--json")
    assert ran.code == 130
    assert ran.json["complete"] is False
    assert ran.json["summary"]["episodes"] == 2


def test_a_policy_of_ones_own_from_the_working_folder(cli, tmp_path):
    (tmp_path / "mine_to_play.py").write_text(
        "class P:\n    def reset(self, spec, task): ...\n    def act(self, observation): return 'look'\n"
    )
    ran = cli("eval", "household", "--policy", "mine_to_play:P", "--episodes", "1", "--out", "run", "--json")
    assert ran.json["summary"]["endings"] == {"truncated": 1}


def test_what_a_policy_prints_is_not_among_the_results(cli, tmp_path):
    (tmp_path / "prints.py").write_text(
        "import os\n\n\nclass P:\n    def reset(self, spec, task): ...\n"
        "    def act(self, observation):\n        print('loud')\n        os.write(1, b'low')\n        return 'look'\n"
    )
    ran = cli("eval", "household", "--policy", "prints:P", "--episodes", "1", "--out", "run", "--json")
    assert ran.json["clean"]
    assert "loud" in ran.err


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
        (("--policy", "noop", "--episodes", "999"), "has 200 scenarios"),
        (("--policy", "noop", "--episodes", "0"), "AE108"),
        (("--policy", "noop", "--concurrency", "0"), "AE108"),
        (("--policy", "noop", "--model", "m"), "--model has no effect here"),
        (("--policy", "noop", "--stream", "a,b"), "is no order of episodes"),
        (("--policy", "noop", "--stream", "split", "--split", "test9"), "has no split 'test9'"),
        (("--policy", "noop", "--stream", "junk"), "AE105 a file that should be text is none"),
        (("--policy", "noop", "--reward-visible", "true"), "give --stream as well"),
        (("--policy", "noop", "--fail-under", "50"), "AE108 Invalid value for '--fail-under'"),
        (("--policy", "noop", "--episode-seconds", "0"), "leaves no time"),
        (("--policy", "noop", "--out", "junk/run"), "AE108 the run folder junk/run cannot be made"),
        (("--policy", "openai"), "needs a model"),
        (("--policy", "openai", "--model", "m", "--protocol", "chat"), "chat"),
        (("--policy", "openai", "--model", "m", "--history", "some"), "history"),
    ],
)
def test_mistakes_get_a_message_and_exit_code_2(cli, tmp_path, args, message):
    (tmp_path / "junk").write_bytes(b"\xff")
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


def test_a_dry_run_says_what_would_be_played(cli):
    model = ("--policy", "openai", "--model", "m", "--protocol", "verl-agent", "-o", "limit=9")
    said = cli("eval", "household", *model, "--start", "2", "--dry-run", "--json").json
    assert (said["episodes"], said["first"], said["last"], said["budgets"]) == (198, 2, 199, {"steps": 9})
    assert (said["protocol"], said["options"]["admissible"]) == ("verl-agent", True)
    assert 'budgets      {"steps": 9}' in cli("eval", "household", *model, "--dry-run").out


@pytest.mark.usefixtures("fixtures")
@pytest.mark.parametrize("env", ["clerk", "ledger", "slow_tool"])
def test_environments_of_other_kinds(cli, env):
    ran = cli("eval", env, "--policy", "noop", "--episodes", "1", "--out", "run", "--json")
    assert (ran.code, ran.json["summary"]["successes"]) == (0, 0)
    assert cli("replay", "run").code == 0
    assert cli("rescore", "run").code == 0


@pytest.mark.usefixtures("fixtures")
@pytest.mark.parametrize(("more", "episodes"), [(("--episodes", "3"), 3), ((), 100)])
def test_a_stream_through_an_endless_split(cli, more, episodes):
    ran = cli("eval", "clerk", "--policy", "noop", "--stream", "split", "--dry-run", "--json", *more)
    assert ran.json["episodes"] == episodes


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


def test_real_games_name_their_panel(cli, shared_data):
    args = ("eval", "household", "--policy", "noop", "--split", "valid_seen", "--data", str(shared_data / "household"))
    ran = cli(*args, "--out", "run", "--json")
    assert ran.json["summary"]["episodes"] == 8
    assert len(ran.json["panel"]) == 64


def test_a_run_that_lost_a_record_does_not_check(cli, tmp_path):
    cli("eval", "household", "--policy", "noop", "--episodes", "3", "--out", "run")
    (tmp_path / "run" / "records" / "000001.jsonl").unlink()
    for verb in ("replay", "rescore"):
        ran = cli(verb, "run")
        assert ran.code == 1
        assert "dev/1: listed in episodes.jsonl, but its record is not here" in ran.out


def test_a_terminated_run_closes_its_episodes(tmp_path):
    slow = (
        "import time\nclass P:\n    def reset(self, spec, task): ...\n"
        "    def act(self, observation):\n        time.sleep(0.2)\n        return ''\n"
    )
    (tmp_path / "sleepy.py").write_text(slow)
    command = [sys.executable, "-m", "agentenvs.cli", "eval", "household", "--policy", "sleepy:P", "--out", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (tmp_path / "run").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.terminate()
    assert process.wait(timeout=30) == 130
    rows = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["ending"] == "abandoned"
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["complete"] is False
