"""``eval --resume``, ``--retry-errors``, and budgets on the command line."""

from __future__ import annotations

import json

import pytest

FLAKY = """
from pathlib import Path
from agentenvs.core.errors import ServiceError

class P:
    usage = {"tokens_in": 40, "tokens_out": 10}
    def reset(self, spec, task): self.index = task.ref.index
    def act(self, observation):
        if self.index == 1 and not Path("calm").exists():
            raise ServiceError("the endpoint stays away")
        return "look"
"""


@pytest.fixture
def flaky(tmp_path):
    (tmp_path / "flaky_player.py").write_text(FLAKY)
    return ("eval", "household", "--policy", "flaky_player:P", "--episodes", "3", "--out", "run")


def test_what_failed_outside_the_player_is_played_again(cli, flaky, tmp_path):
    first = cli(*flaky)
    assert first.code == 1
    assert "agentenvs eval --resume run --retry-errors" in first.err
    (tmp_path / "calm").touch()
    second = cli("eval", "--resume", "run", "--retry-errors")
    assert second.code == 0, second.err
    assert "again:  0 attempt(s) lost and begun again, 1 episode(s) retried" in second.out
    assert cli("replay", "run").code == 0
    assert cli("eval", "--resume", "run", "--json").json["summary"]["retried"] == 1


def test_a_budget_ends_a_run_with_its_own_exit_code(cli, flaky):
    ran = cli(*flaky, "--budget-tokens", "50")
    assert ran.code == 4
    assert "ended:  the budget of tokens; 2 of 3 not started" in ran.out
    assert "Go on with it: agentenvs eval --resume run" in ran.err
    again = cli("eval", "--resume", "run", "--json", "--budget-seconds", "1000", "--concurrency", "2")
    assert (again.json["summary"]["episodes"], again.json["complete"]) == (3, True)


def test_trials_on_the_command_line(cli):
    args = ("eval", "household", "--policy", "noop", "--episodes", "2", "--trials", "2", "-o", "limit=2")
    assert cli(*args, "--dry-run", "--json").json["trials"] == 2
    assert cli(*args, "--out", "run", "--json").json["summary"]["episodes"] == 4


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("household",), "Missing option '--policy'."),
        (("--policy", "noop"), "Missing argument 'ENV'."),
        (("household", "--policy", "noop", "--retry-errors"), "name the run: --resume RUN"),
        (("household", "--policy", "noop", "--budget-tokens", "0"), "a budget of 0 tokens makes no sense"),
        (("household", "--policy", "noop", "--budget-dollars", "ten"), "a budget of 'ten' dollars makes no sense"),
        (("--resume", "nothing"), "there is no plan at nothing"),
        (("household", "--resume", "run"), "ENV has no effect with --resume"),
        (("--resume", "run", "--episodes", "9"), "--episodes has no effect with --resume"),
        (("--resume", "run", "--model", "m"), "--model has no effect with --resume"),
        (("--resume", "run", "-o", "limit=3"), "the option 'limit' belongs to the run"),
    ],
)
def test_mistakes_are_told(cli, args, said):
    if "run" in args:
        cli("eval", "household", "--policy", "noop", "--episodes", "1", "--out", "run", "-o", "limit=2")
    ran = cli("eval", *args)
    assert ran.code == 2
    assert said in ran.err


def test_prices_of_ones_own_are_named_in_the_manifest(cli, tmp_path):
    ran = cli("eval", "household", "--policy", "openai", "--model", "m", "--prices", "none.toml")
    assert "the prices none.toml cannot be read" in ran.err
    model = ("--policy", "openai", "--model", "gpt-4.1", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    ran = cli("eval", "household", *model, "--price-in", "1", "--price-out", "2", "--episodes", "1", "--out", "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["price_table"] == "given: 1 in, 1 cached, 2 out"
