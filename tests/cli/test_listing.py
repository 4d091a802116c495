"""``list`` and ``info``, and what happens when a name or an option is wrong."""

from __future__ import annotations

import pytest


def test_list_names_the_household(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    ran = cli("list")
    assert ran.code == 0
    for part in ("agentenvs/Household-v0", "household", "builtin (12)", "forkable", "execution inline"):
        assert part in ran.out


def test_list_fits_a_narrow_terminal(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for ran in (cli("list"), cli("info", "household")):
        assert max(map(len, ran.out.splitlines())) <= 80
        assert "agentenvs/Household-v0" in ran.out


def test_list_as_json_is_the_spec(cli):
    for _ in range(2):
        specs = cli("list", "--json").json
        assert [spec["id"] for spec in specs].count("agentenvs/Household-v0") == 1


def test_info_shows_tools_options_and_splits(cli):
    ran = cli("info", "household")
    for part in ("go_to", '{"receptacle": "fridge 1"}', "(original, compat, native)", "builtin", "oracle", "steps 50"):
        assert part in ran.out
    assert ran.err == "Play it: agentenvs play household\n"


def test_info_with_an_option(cli):
    assert "budgets: steps 7" in cli("info", "household", "-o", "limit=7").out


@pytest.mark.usefixtures("fixtures")
def test_info_of_an_environment_that_promises_less(cli):
    ran = cli("info", "slow_tool")
    assert "execution process (0.5 s a step)" in ran.out
    assert "endless" in ran.out


def test_info_tells_a_scenario_in_words(cli):
    ran = cli("info", "searchworld", "--seed", "7", "-o", "people=500")
    for part in ("a universe of 500 people", "relations", "question ", "proof", "articles it rests on"):
        assert part in ran.out
    told = cli("info", "searchworld", "--seed", "7", "-o", "people=500", "--json").json
    assert told["description"] == ran.out.rstrip("\n")
    assert (told["split"], told["index"]) == ("train", 7)


def test_info_of_a_scenario_that_has_no_words(cli):
    ran = cli("info", "household", "--seed", "7")
    assert ran.code == 2
    assert "agentenvs/Household-v0 has no words for its scenarios" in ran.err
    assert cli("info", "searchworld", "--split", "dev", "--seed", "300").code == 2


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
