"""``list``, ``info``, ``doctor``, help, and what happens when a name is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentenvs._version import __version__


def test_list_names_the_household(cli):
    ran = cli("list")
    assert ran.code == 0
    assert "agentenvs/Household-v0" in ran.out
    assert "builtin (12)" in ran.out


def test_list_as_json_is_the_spec(cli):
    specs = cli("list", "--json").json
    assert "agentenvs/Household-v0" in [spec["id"] for spec in specs]


def test_info_shows_tools_options_and_splits(cli):
    ran = cli("info", "household")
    for word in ("go_to", "profile", "builtin", "forkable", "oracle"):
        assert word in ran.out


def test_info_finds_the_splits_of_a_data_folder(cli, shared_data):
    ran = cli("info", "household", "--data", str(shared_data / "household"), "--json")
    assert ran.json["found_splits"]["valid_seen"]["size"] == 8
    assert len(ran.json["found_splits"]["valid_train"]["panel"]) == 64


def test_a_misspelt_environment_gets_a_suggestion_and_no_traceback(cli):
    ran = cli("info", "houshold")
    assert ran.code == 2
    assert "AE101" in ran.err
    assert "did you mean 'household'" in ran.err
    assert "Traceback" not in ran.err


def test_a_mistake_with_json_is_json(cli):
    ran = cli("info", "houshold", "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "AE101"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("limit", "'limit' is no option"),
        ("limit=many", "option 'limit' does not take 'many'"),
        ("limit=-1", "option 'limit' does not take -1"),
        ("profile=fast", "choose one of: original, compat, native"),
        ("admissible=perhaps", "it is a bool"),
        ("colour=red", "has no option 'colour'"),
    ],
)
def test_a_wrong_option_says_what_and_why(cli, option, message):
    ran = cli("info", "household", "-o", option)
    assert ran.code == 2
    assert message in ran.err


def test_a_data_folder_that_is_not_there_is_a_message(cli, tmp_path):
    ran = cli("info", "household", "--data", str(tmp_path / "nowhere"))
    assert ran.code == 2
    assert "AE105" in ran.err
    assert "Traceback" not in ran.err


def test_doctor_finds_nothing_broken(cli):
    ran = cli("doctor", "--json")
    states = {item["state"] for item in ran.json}
    assert ran.code == 0
    assert states <= {"ok", "warn"}
    assert any("Household-v0 loads" in item["what"] for item in ran.json)


def test_doctor_fails_on_data_that_was_asked_for(cli, tmp_path):
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == 1
    assert "fail" in ran.out


def test_version(cli):
    assert cli("--version").out.strip() == f"agentenvs {__version__}"


@pytest.mark.parametrize("verb", ["list", "info", "play", "eval", "compare", "replay", "rescore", "doctor"])
def test_every_verb_has_help_with_an_example(cli, verb):
    ran = cli(verb, "--help")
    assert ran.code == 0
    assert f"Example: agentenvs {verb}" in ran.out
    assert "--json" in ran.out


def test_help_tells_the_exit_codes(cli):
    assert "130" in cli("--help").out


def test_help_imports_nothing_heavy():
    code = (
        "import sys, agentenvs.cli.main; heavy = ('numpy', 'gymnasium', 'pydantic', 'fastapi', 'httpx', 'jinja2'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_completion_is_offered(cli):
    ran = cli("--show-completion", "bash")
    assert "_AGENTENVS_COMPLETE" in ran.out or ran.code == 0


def test_an_unknown_verb_is_a_usage_error(cli):
    ran = cli("fly")
    assert ran.code == 2
    assert "No such command" in ran.err
