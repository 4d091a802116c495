"""``play`` on a pipe, and ``replay`` and ``rescore`` of what it wrote."""

from __future__ import annotations

import json


def test_playing_a_whole_episode_by_pipe(cli):
    ran = cli("play", "household", stdin="look\n:admissible\n:quit\n")
    assert ran.code == 0
    assert "Your task is to:" in ran.out
    assert "go to sofa 1" in ran.out
    assert "abandoned after 1 turns; reward 0; lost" in ran.out


def test_the_end_of_input_abandons(cli):
    ran = cli("play", "household", "--json", stdin="look\n")
    assert ran.json["ending"] == "abandoned"
    assert ran.json["turns"] == 1


def test_undo_takes_a_turn_back(cli):
    ran = cli("play", "household", "--json", stdin="look\ninventory\n:undo\n:quit\n")
    assert ran.json["turns"] == 1


def test_a_line_of_json_is_a_tool_call(cli):
    ran = cli("play", "household", stdin='{"tool": "inventory", "arguments": {}}\n')
    assert "You are not carrying anything." in ran.out


def test_broken_json_is_a_turn_like_any_other(cli):
    ran = cli("play", "household", "--json", stdin='{"tool": \n')
    assert ran.json["turns"] == 1


def test_control_characters_never_reach_the_terminal(cli):
    ran = cli("play", "household", stdin="\x1b[31mlook\n")
    assert "\x1b" not in ran.out


def test_a_recorded_episode_replays_and_rescores(cli):
    cli("play", "household", "--record", "mine.jsonl", stdin="look\njunk\n:quit\n")
    assert "1 of 1 records replay equal" in cli("replay", "mine.jsonl").out
    assert cli("rescore", "mine.jsonl", "--json").json["equal"] == 1


def test_a_changed_record_is_refused(cli, tmp_path):
    cli("play", "household", "--record", "mine.jsonl", stdin="look\n:quit\n")
    path = tmp_path / "mine.jsonl"
    path.write_text(path.read_text().replace('"action":"look"', '"action":"help"'))
    ran = cli("replay", "mine.jsonl")
    assert ran.code == 2
    assert "line 2 of mine.jsonl breaks the chain" in ran.err


def test_a_record_that_diverges_names_turn_field_and_values(cli, tmp_path):
    from agentenvs.core.record import _chain

    cli("play", "household", "--record", "mine.jsonl", stdin="look\n:quit\n")
    path = tmp_path / "mine.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("h")
    lines[1]["action"] = "inventory"
    links = _chain(lines)
    path.write_text("".join(json.dumps({**line, "h": link}) + "\n" for line, link in zip(lines, links, strict=True)))
    ran = cli("replay", "mine.jsonl")
    assert ran.code == 1
    assert "turn 1, observation: recorded" in ran.out


def test_no_records_at_a_path_is_a_message(cli):
    ran = cli("replay", "nowhere")
    assert ran.code == 2
    assert "there are no records at nowhere" in ran.err


def test_an_index_out_of_range_is_a_message(cli):
    ran = cli("play", "household", "--index", "99")
    assert ran.code == 2
    assert "split 'builtin' has no index 99" in ran.err
