"""Real game files load, and whatever is wrong with one ends in an error that names it."""

import json
import os
from dataclasses import replace

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scenarios.household.load import MAX_BYTES, load_game, parse_game
from agentenvs_scenarios.household.model import TASK_TYPES
from tests.scenarios.household.gamefile import document, write_game


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
@pytest.mark.parametrize("version", ["0.3", "0.4"])
def test_a_written_game_loads_as_what_was_written(tmp_path, index, version):
    scenario = replace(builtin(index), text_version=version, name="task/trial")
    assert load_game(write_game(tmp_path / "task" / "trial", scenario)) == scenario


def test_a_caller_chooses_the_words(tmp_path):
    path = write_game(tmp_path, replace(builtin(0), text_version="0.3"))
    assert load_game(path, "0.4").text_version == "0.4"


def test_every_handed_game_loads(shared_data):
    paths = sorted((shared_data / "household").rglob("game.tw-pddl"))
    games = [load_game(path) for path in paths]
    assert len(games) == 34
    assert {game.goal.task for game in games} == set(TASK_TYPES)
    for path, game in zip(paths, games, strict=True):
        # The folder's name was not read; it must agree all the same.
        task, thing, _, target, _ = path.parts[-3].split("-")
        assert (game.goal.task, game.goal.thing, game.goal.target) == (task, thing.lower(), target.lower())
        assert game.text_version == "0.3"
        assert not any(receptacle.place == game.start for receptacle in game.receptacles)


def test_a_sentence_a_person_wrote_is_taken(tmp_path):
    scenario = builtin(0)
    scenario = replace(scenario, goal=replace(scenario.goal, sentence='Put a "card" on the chair.'))
    assert load_game(write_game(tmp_path, scenario)).goal == scenario.goal


def broken(**changes):
    return json.dumps({**document(builtin(4)), **changes}).encode()


PROBLEM = document(builtin(4))["pddl_problem"]
GRAMMAR = document(builtin(4))["grammar"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is no JSON"),
        (b"\x00\xff" * 50, "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[1]", "its JSON is no object"),
        (b"{}", "no text under the key 'grammar'"),
        (broken(pddl_problem=7), "no text under the key 'pddl_problem'"),
        (broken()[:5000], "it is no JSON"),
        (broken(pddl_problem=""), "0 expressions instead of one"),
        (broken(pddl_problem=PROBLEM[:3000]), "the text is cut off"),
        (broken(pddl_problem=PROBLEM + ")"), "a closing bracket too many"),
        (broken(pddl_problem="(" * 100_000), "nested deeper than 64"),
        (broken(pddl_problem="(define (:objects a - b))"), "there is no section :init"),
        (broken(pddl_problem="(define (:objects (a) - b) (:init) (:goal (x)))"), "a bracket among the objects"),
        (broken(pddl_problem="(define (:objects a -) (:init) (:goal (x)))"), "an object has no type"),
        (broken(pddl_problem="(define (:objects) (:init x) (:goal (x)))"), "a fact is no list"),
        (broken(pddl_problem="(define (:objects) (:init ((x))) (:goal (x)))"), "a fact has no predicate"),
        (broken(pddl_problem="(define (:objects) (:init) (:goal))"), "the goal is not one expression"),
        (broken(pddl_problem=PROBLEM.replace("(:goal (and", "(:goal (or")), "the goal uses 'or'"),
        (broken(pddl_problem=PROBLEM.replace("(:goal (and", "(:goal (and x")), "a part of the goal is no list"),
        (broken(pddl_problem=PROBLEM.replace("(isClean ?o)", "(not (isClean ?o))")), "the goal negates something"),
        (broken(pddl_problem=PROBLEM.replace("(isClean ?o)", "(isSliced ?o)")), "none of the six task types"),
        (broken(pddl_problem=PROBLEM.replace("?o spatulaType", "?o forkType")), "does not say what its goal says"),
        (broken(pddl_problem=PROBLEM.replace("(atLocation agent1", "(nowhere agent1")), "start at one place"),
        (broken(pddl_problem=PROBLEM.replace("(openable ", "(openable) (x ", 1)), "too few arguments"),
        (
            broken(pddl_problem=PROBLEM.replace("receptacleAtLocation ", "receptacleAtLocation x ", 1)),
            "too many values",
        ),
        (broken(grammar="{}"), "no task sentence"),
        (broken(grammar=GRAMMAR.replace("move {o} to {r}", "lay {o} by {r}")), "no known command for placing"),
    ],
)
def test_a_file_that_is_no_game_says_what_is_wrong(data, why):
    with pytest.raises(DataError) as caught:
        parse_game(data, "x/y", "the/file")
    assert caught.value.what == "the game file the/file cannot be used"
    assert why in caught.value.why
    assert caught.value.fix == "download it again, or take it out of the data folder"


def test_a_goal_of_two_classes_is_none(tmp_path):
    two = document(builtin(10))
    problem = two["pddl_problem"].replace("(objectType ?o2 pencilType)", "(objectType ?o2 penType)")
    with pytest.raises(DataError, match="objects of two classes"):
        parse_game(json.dumps({**two, "pddl_problem": problem}).encode(), "x", "x")


def test_a_game_cut_anywhere_never_raises_anything_else():
    data = broken()
    for end in range(0, len(data) - 1, 397):
        with pytest.raises(DataError):
            parse_game(data[:end], "x", "x")


def test_nothing_in_a_file_is_evaluated(tmp_path):
    trap = GRAMMAR + '\n{__import__("pathlib").Path("' + str(tmp_path / "trap") + '").touch()}'
    parse_game(broken(grammar=trap), "x", "x")
    assert not (tmp_path / "trap").exists()


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="it cannot be read"):
        load_game(tmp_path / "absent")
    with pytest.raises(DataError, match="it cannot be read"):
        load_game(tmp_path / "zero\x00byte")
    with pytest.raises(DataError, match="it is no regular file"):
        load_game(tmp_path)
    (tmp_path / "huge").write_bytes(b"")
    os.truncate(tmp_path / "huge", MAX_BYTES + 1)
    with pytest.raises(DataError, match="a game has less than"):
        load_game(tmp_path / "huge")
