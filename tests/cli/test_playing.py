"""``play`` on a pipe; at a terminal: test_main."""

from __future__ import annotations

import pytest

FIRST_WIN = ("go to drawer 3", "open drawer 3", "take creditcard 1 from drawer 3", "go to armchair 1")


def test_playing_a_whole_episode_by_pipe(cli):
    ran = cli("play", "household", "--split", "builtin", stdin="look\n:admissible\n:quit\n")
    assert ran.code == 0
    assert "Your task is to:" in ran.out
    assert "go to sofa 1" in ran.out
    assert "abandoned after 1 turns; reward 0; lost" in ran.out


def test_winning(cli):
    said = "\n".join([*FIRST_WIN, "move creditcard 1 to armchair 1", "look"])
    ran = cli("play", "household", "--split", "builtin", stdin=said)
    assert "terminated after 5 turns; reward 1; won" in ran.out


def test_the_end_of_input_abandons(cli):
    ran = cli("play", "household", "--json", stdin="look\n")
    assert ran.json["ending"] == "abandoned"
    assert ran.json["turns"] == 1
    assert "Your task is to:" in ran.err


def test_undo_takes_a_turn_back(cli):
    ran = cli("play", "household", "--json", stdin=":undo\nlook\ninventory\n:undo\n:quit\n")
    assert ran.json["turns"] == 1
    assert "There is nothing to take back." in ran.err


def test_undone_turns_are_not_in_the_record(cli, tmp_path):
    cli("play", "household", "--record", "mine.jsonl", stdin="look\ninventory\n:undo\n")
    assert "inventory" not in (tmp_path / "mine.jsonl").read_text()


def test_a_command_that_is_none_shows_the_help(cli):
    ran = cli("play", "household", "--json", stdin=":dance\n:help\n")
    assert ran.json["turns"] == 0
    assert "There is no :dance." in ran.err
    assert ran.err.count(":admissible  list") == 2


@pytest.mark.parametrize("line", ['{"tool": "inventory", "arguments": {}}', '[{"tool": "inventory"}]'])
def test_a_line_of_json_is_a_tool_call(cli, line):
    assert "You are not carrying anything." in cli("play", "household", stdin=line).out


@pytest.mark.parametrize("line", ['{"tool": ', "[" * 100_000, "", "\x00"])
def test_junk_is_a_turn_like_any_other(cli, line):
    assert cli("play", "household", "--json", stdin=f"{line}\n").json["turns"] == 1


def test_control_characters_never_reach_the_terminal(cli):
    ran = cli("play", "household", "-o", "admissible=true", stdin=":\x1b[31mlook\nlook\n")
    assert "\x1b" not in ran.out


def test_legal_actions_are_shown_where_asked_for(cli):
    assert "Legal actions: " in cli("play", "household", "-o", "admissible=true").out


def test_an_index_out_of_range_is_a_message(cli):
    ran = cli("play", "household", "--split", "dev", "--index", "999")
    assert ran.code == 2
    assert "split 'dev' has no index 999" in ran.err


@pytest.mark.parametrize(
    ("name", "message"),
    [("there.jsonl", "AE108 there.jsonl is there already"), ("no/where.jsonl", "AE108 there is no folder no")],
)
def test_a_record_that_cannot_be_written_is_told_before_playing(cli, tmp_path, name, message):
    (tmp_path / "there.jsonl").write_text("mine")
    ran = cli("play", "household", "--record", name)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.usefixtures("fixtures")
def test_a_dialogue_takes_words_and_tools(cli):
    ran = cli("play", "clerk", "--json", stdin='Which order?\n{"end": "bye"}\n')
    assert ran.json["ending"] == "terminated"
    assert ran.json["turns"] == 2
    assert "this environment takes" not in ran.err


@pytest.mark.usefixtures("fixtures")
def test_an_environment_that_cannot_list_actions(cli):
    assert "this environment cannot list them" in cli("play", "clerk", stdin=":admissible\n").out
