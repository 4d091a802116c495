"""``calibrate`` at the command line, of a world of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def world(cli, as_before):
    return f"./{cli('init', 'tea_room', '--minimal').out.strip()}"


def test_a_card_beside_a_world_of_ones_own(cli, world):
    args = ("calibrate", world, "--jobs", "1")
    ran = cli(*args, "--episodes", "4")
    assert ran.code == 0, ran.err
    assert "random" in ran.out
    assert "--write makes" in ran.err
    assert cli(*args, "--episodes", "4", "--check").code == 2
    ran = cli(*args, "--write", "--json")
    assert ran.code == 0, ran.err
    card = json.loads(ran.out)["card"]
    assert card.endswith(".card.toml")
    ran = cli(*args, "--quick", "--check")
    assert ran.code == 0, ran.out
    assert "rows are what" in ran.out
    path = Path(card)
    path.write_text(path.read_text(encoding="utf-8").replace('quick_outcomes = "', 'quick_outcomes = "0', 1))
    ran = cli(*args, "--quick", "--check")
    assert ran.code == 1
    assert "outcomes have moved" in ran.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("household", "--quick", "--write"), "a part of the episodes makes no card"),
        (("household", "--player", "nobody"), "there is nothing to measure"),
        (("household", "--card", "bad.toml"), "is no score card"),
        (("household", "--write", "--card", "no/card.toml"), "no/card.toml cannot be written"),
        (("household", "--add", "nowhere"), "there is no manifest at"),
        (("nowhere",), "AE101"),
    ],
)
def test_mistakes_get_a_message(cli, tmp_path, args, message):
    (tmp_path / "bad.toml").write_text("nothing")
    ran = cli("calibrate", *args)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
