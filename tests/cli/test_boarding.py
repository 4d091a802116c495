"""``leaderboard`` at the command line; what boards do is tested in tests/leaderboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RUN = ("household", "--split", "test", "--episodes", "4")


@pytest.fixture
def run(cli) -> str:
    assert cli("eval", *RUN, "--policy", "expert", "--out", "run", "-q").code == 0
    return "run"


def test_a_run_is_verified_packed_sent_shown_and_built(cli, run):
    board = cli("leaderboard", "create", *RUN, "--store", "b", "--anchors", "none", "--title", "Four rooms").out.strip()
    assert board.startswith("household-v0-test-")
    assert cli("leaderboard", "create", *RUN, "--store", "b").err.startswith("the board is there already")
    assert cli("leaderboard", "verify", run).out == "4 of 4 records happen again: 4 won (100.0 %)\n"
    assert cli("leaderboard", "pack", run, "--name", "Ada", "--out", "a.zip").out.startswith("a.zip  ")
    told = cli("leaderboard", "verify", "a.zip", "--board", "b", "--json").json
    assert (told["board"], told["successes"]) == (board, 4)
    sent = cli("leaderboard", "submit", run, "--board", "b", "--name", "Ada", "--agent", "searcher")
    assert sent.out == "Ada  searcher  100.0 % (51.0 to 100.0)  place 1  replayed  attempt 1\n"
    again = cli("leaderboard", "submit", run, "--board", "b", "--name", "Mallory")
    assert (again.code, again.err.splitlines()[-3].startswith("refused: LB401")) == (1, True)
    assert (
        cli("leaderboard", "submit", run, "--board", "b", "--name", "Eve", "--json").json["refused"]["code"] == "LB401"
    )
    assert cli("leaderboard", "ls", "--store", "b").out == f"{board}  Four rooms  1 entries  open\n"
    assert cli("leaderboard", "build", "--store", "b", "--out", "site").code == 0
    rows = json.loads(Path("site", "boards", board, "entries.json").read_text())["entries"]
    assert [row["contestant"] for row in rows] == ["Ada"]
    assert "is not empty" in cli("leaderboard", "build", "--store", "b", "--out", "site").err
    same = cli("leaderboard", "rescore", board, "--store", "b")
    assert (same.code, "has the scoring that is installed here" in same.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ls", "--store", "none"), "there are no boards in none"),
        (("build", "--store", "none", "--out", "x"), "there are no boards in none"),
        (("create", "household", "--anchors", "all"), "anchors cannot be 'all'"),
        (("create", "household", "--split", "test", "--episodes", "501"), "501 scenarios from index 0 make no board"),
        (("create", "household", "--split", "test", "--episodes", "5", "--trials", "0"), "0 trials make no board"),
        (("create", "household", "--split", "test", "--episodes", "5", "--attempts", "0"), "at least one attempt"),
        (("create", "household", "--split", "none"), "no split 'none'"),
        (("create", "household", "--episodes", "2", "--title", "a\u202eb"), "LB112 the title holds U+202E"),
        (("verify", "none.zip"), "none.zip"),
        (("submit", "none", "--board", "b", "--name", "Ada"), "there is no manifest"),
        (("serve", "--store", "b", "--host", "0.0.0.0"), "would take submissions of everybody"),
        (("serve", "--store", "b", "--workers", "0"), "0 workers verify nothing"),
        (("serve", "--store", "b", "--tokens", "none.txt"), "none.txt cannot be read"),
        (("serve", "--store", "b", "-o", "data"), "'data' is no option"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(cli, arguments, said):
    ran = cli("leaderboard", *arguments)
    assert ran.code == 2
    assert said in ran.err


def test_a_file_of_tokens(cli):
    Path("short.txt").write_text("# comment\n\nabc Ada\n")
    assert "line 3 of short.txt is no token" in cli("leaderboard", "serve", "--tokens", "short.txt").err
    Path("alike.txt").write_text(f"{'a' * 16} Ali\n{'b' * 16} ALI\n{'c' * 16} Ali\n")
    assert "line 2 of alike.txt names ALI" in cli("leaderboard", "serve", "--tokens", "alike.txt").err


def test_a_name_that_cannot_be_shown(cli, run):
    ran = cli("leaderboard", "pack", run, "--name", "<b>", "--out", "a.zip")
    assert (ran.code, "LB112" in ran.err) == (2, True)
    ran = cli("leaderboard", "pack", run, "--name", "Ada", "--image", "latest", "--out", "a.zip")
    assert (ran.code, "the submission cannot be made" in ran.err) == (2, True)
