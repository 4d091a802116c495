"""Scenarios go to JSON and back, hide what they must, and refuse nonsense; answers are told apart and compared."""

import json
from dataclasses import fields, replace

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.searchworld.answers import holds, normalise, normalised, split
from agentenvs_scenarios.searchworld.model import Question, Scenario

QUESTION = Question(
    "Who is it?", "chain", 3, (("A B",), ("C", "Sea")), ("abc234", "def567"), ("entity", "A B"), "Who is not?"
)
SCENARIO = Scenario("chain-3", "0" * 64, QUESTION)


def test_json_round_trip():
    again = Scenario.from_json(json.loads(json.dumps(SCENARIO.to_json())))
    assert again == SCENARIO
    assert again.digest == SCENARIO.digest


def test_the_digest_covers_everything():
    changed = [
        replace(SCENARIO, name="other"),
        replace(SCENARIO, library="1" * 64),
        *(
            replace(SCENARIO, question=replace(QUESTION, **{name: value}))
            for name, value in {
                "sentence": "Who?",
                "kind": "set",
                "hops": 4,
                "answers": (("A B",),),
                "supports": (),
                "program": None,
                "twin": "",
            }.items()
        ),
    ]
    assert len({item.digest for item in (SCENARIO, *changed)}) == len(changed) + 1


def test_only_the_sentence_is_open():
    def shown(cls):
        return {item.name for item in fields(cls) if item.init and not item.metadata.get("secret")}

    assert shown(Scenario) == {"question"}
    assert shown(Question) == {"sentence"}


@pytest.mark.parametrize(
    "change",
    [
        {"sentence": ""},
        {"sentence": None},
        {"sentence": "x" * 5000},
        {"hops": -1},
        {"hops": "3"},
        {"answers": [[]]},
        {"answers": [[""]]},
        {"answers": [[7]]},
        {"answers": [["x"]] * 300},
        {"supports": [3]},
        {"kind": 3},
    ],
)
def test_nonsense_is_refused(change):
    form = SCENARIO.to_json()
    with pytest.raises(DataError, match="search scenario"):
        Scenario.from_json({**form, "question": {**form["question"], **change}})
    with pytest.raises(DataError, match="this is no search scenario"):
        Scenario.from_json({"name": "x"})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("  The  Sea ", "sea"),
        ("\uff21\uff22", "ab"),
        ("D.C.", "d c"),
        ("a", "a"),
        ("...", "..."),
        ("Straße", "strasse"),
        ("12", "12"),
        ("An\u200bna", "na"),
    ],
)
def test_normal_forms(text, wanted):
    assert normalise(text) == wanted


def test_lists_of_answers():
    assert normalised(["D B", "d  b", "", 7, None, "C"]) == ("d b", "c")
    assert normalised(["None"]) == normalised(["unanswerable"]) == normalised([]) == normalised("text") == ()
    assert normalised(["none", "X"]) == ("none", "x")


@pytest.mark.parametrize(
    ("text", "comma", "wanted"),
    [
        ("One; Two", False, ["One", "Two"]),
        ("One\nTwo;", False, ["One", "Two"]),
        ("One, Two", False, ["One, Two"]),
        ("One, Two", True, ["One", "Two"]),
        ('["One", "Two; Three"]', False, ["One", "Two; Three"]),
        ("[One", False, ["[One"]),
        ("[1, 2]", False, ["[1, 2]"]),
        (" ", False, []),
    ],
)
def test_splitting(text, comma, wanted):
    assert split(text, comma) == wanted


def test_holding_is_by_whole_words():
    assert holds("Who is the mentor of Bren Dal?", "bren dal")
    assert not holds("Who is the mentor of Bren Dalmor?", "Bren Dal")
    assert not holds("anything", "")
