"""Every recorded transcript of the real engine replays in ``original``: replies, admissible lists, reward, end."""

import gzip
import json
import os
from pathlib import Path

import pytest

from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.load import load_game

DATA = Path(os.environ.get("AGENTENVS_TEST_DATA") or Path(__file__).parents[4] / "shared" / "data") / "household"
FILES = ("transcripts-0.3.jsonl.gz", "transcripts-0.4.jsonl.gz")


def transcripts():
    for name in FILES:
        if (DATA / name).is_file():
            with gzip.open(DATA / name, "rt") as lines:
                for line in lines:
                    game = json.loads(line)
                    for part in ("ep", "walk"):
                        if part in game:
                            yield pytest.param(game["game"], game["version"], game[part], id=f"{game['game']}-{part}")


CASES = list(transcripts()) or [
    pytest.param("", "", [], marks=pytest.mark.skip(reason="the recorded transcripts are not in ../shared/data"))
]


@pytest.mark.parametrize(("game", "version", "steps"), CASES)
def test_transcript_replays_exactly(game, version, steps):
    scenario = load_game(DATA / "json_2.1.1" / game / "game.tw-pddl")
    world = World(Layout(scenario, "original", version))
    assert world.opening() == steps[0]["obs"]
    assert list(world.admissible()) == steps[0]["adm"]
    for number, step in enumerate(steps[1:], 1):
        reply, event = world.step(step["cmd"])
        found = (reply, list(world.admissible()), int(world.won), world.won)
        assert found == (step["obs"], step["adm"], step["r"], step["d"]), f"step {number}: {step['cmd']}"
        # In this game "Nothing happens." is said of what failed, and of nothing else.
        assert (event[3] is not None) == (reply == "Nothing happens.")


def test_all_handed_transcripts_are_there():
    if not DATA.is_dir():
        pytest.skip("the recorded transcripts are not in ../shared/data")
    assert len(CASES) == 64
