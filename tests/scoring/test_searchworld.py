"""The score of an answer: exact sets, F1, the gate on evidence, and a verdict on facts of any form."""

import pytest

from agentenvs_scenarios.searchworld.model import Question, Scenario
from agentenvs_scoring.searchworld import judge

ONE = Scenario("x", "0" * 64, Question("Who?", "set", 3, (("Bren Dal",), ("Sea", "The Ocean")), ("e1", "e2")))
NONE = Scenario("x", "0" * 64, Question("Who?", "twin", 3, (), ("e1",)))


def facts(answer, **more):
    return {"turns": 4, "answer": answer, "opened": ["e1", "x"], "seen": [True], "rule": "exact", "gate": False, **more}


@pytest.mark.parametrize(
    ("answer", "exact", "f1"),
    [
        (["Bren Dal", "Sea"], 1, 1.0),
        (["the ocean", "BREN  DAL."], 1, 1.0),
        (["Sea", "sea", "Bren Dal"], 1, 1.0),
        (["Sea"], 0, 2 / 3),
        (["Sea", "Ocean"], 0, 0.5),
        (["Sea", "The Ocean", "Bren Dal"], 0, 0.8),
        (["Sea, Bren Dal"], 0, 0.0),
        (["Bren Dal or Sea"], 0, 0.0),
        (["Bren"], 0, 0.0),
        ([], 0, 0.0),
        (["none"], 0, 0.0),
        (["Sea", "Bren Dal", *map(str, range(9))], 0, 0.0),
    ],
)
def test_answers(answer, exact, f1):
    assert judge(ONE, facts(answer), "terminated").reward == exact
    verdict = judge(ONE, facts(answer, rule="f1"), "terminated")
    assert verdict.reward == pytest.approx(f1)
    assert verdict.success == bool(exact)


@pytest.mark.parametrize(("answer", "reward"), [([], 1), (["None"], 1), (["unanswerable"], 1), (["Sea"], 0), (None, 0)])
def test_where_nothing_answers(answer, reward):
    for rule in ("exact", "f1"):
        assert judge(NONE, facts(answer, rule=rule), "terminated").reward == reward


@pytest.mark.parametrize("ending", ["truncated", "abandoned", "aborted"])
def test_only_an_answer_earns(ending):
    assert judge(ONE, facts(["Bren Dal", "Sea"]), ending).reward == 0
    assert judge(ONE, facts(None), "terminated").reward == 0
    assert judge(ONE, facts(["Bren Dal", "Sea"], turns=0), "terminated").reward == 0


@pytest.mark.parametrize(
    ("gold", "said", "reward"),
    [("U.S.", "US", 1), ("Jean-Luc", "jean luc", 1), ("The The", "the the", 1), ("!!!", "!!!", 1), ("A", "the", 0)],
)
def test_where_words_end_is_not_looked_at(gold, said, reward):
    asked = Scenario("x", "0" * 64, Question("Who?", "chain", 3, ((gold,),)))
    assert judge(asked, facts([said]), "terminated").reward == reward
    assert judge(asked, facts([said, gold]), "terminated").reward == reward


def test_many_answers_can_be_given_where_there_are_many():
    names = [f"Name {number}" for number in range(40)]
    asked = Scenario("x", "0" * 64, Question("Who?", "chain", 3, tuple((name,) for name in names)))
    assert judge(asked, facts(names), "terminated").reward == 1
    assert judge(asked, facts(names[:30], rule="f1"), "terminated").reward == pytest.approx(60 / 70)
    assert judge(asked, facts([*names, *map(str, range(41))], rule="f1"), "terminated").reward == 0


@pytest.mark.parametrize(("kind", "reward"), [("set", 2 / 3), ("chain", 2 / 3), ("count", 0), ("comparison", 0)])
def test_who_asks_for_one_thing_pays_for_no_list(kind, reward):
    asked = Scenario("x", "0" * 64, Question("Which?", kind, 3, (("Bren Dal",),), ("e1",)))
    verdict = judge(asked, facts(["Bren Dal", "Sea"], rule="f1"), "terminated")
    assert verdict.reward == pytest.approx(reward)
    assert judge(asked, facts(["Bren Dal"], rule="f1"), "terminated").reward == 1


def test_evidence_is_a_component_and_a_gate():
    right = ["Bren Dal", "Sea"]
    open_half = judge(ONE, facts(right), "terminated")
    assert open_half.components["evidence"] == 0.5
    assert open_half.components["evidence_precision"] == 0.5
    assert (open_half.reward, open_half.components["grounded"]) == (1.0, 0.0)
    gated = judge(ONE, facts(right, gate=True), "terminated")
    assert (gated.reward, gated.success, gated.components["exact"]) == (0.0, False, 1.0)
    assert "without all of the evidence" in gated.reasons[-1]
    full = judge(ONE, facts(right, gate=True, opened=["e1", "e2"]), "terminated")
    assert (full.reward, full.components["grounded"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"answer": 7, "turns": 1},
        {"answer": [7, None, ["x"]], "turns": 1},
        {"answer": ["x"], "turns": "1", "opened": {"e1": 1}, "seen": "yes"},
        {"answer": "Bren Dal", "turns": 1, "opened": [["e1"], 3], "seen": [1, "true"], "rule": [], "gate": "yes"},
    ],
)
def test_facts_of_any_form_get_a_verdict(facts):
    for ending in ("terminated", "truncated"):
        verdict = judge(ONE, facts, ending)
        assert verdict.reward == 0
        assert not verdict.success


def test_reasons_say_what_was_right():
    said = judge(ONE, facts(["Sea", "Land"]), "terminated").reasons
    assert said == ("1 of 2 answers are right, 1 given are not among them", "50% of the evidence was opened")
    assert judge(ONE, facts(None), "truncated").reasons == ("no answer was given; the episode was truncated",)
    assert judge(NONE, facts(["x"]), "terminated").reasons[0] == "nothing answers the question"
    assert judge(NONE, facts([]), "terminated").reasons[0] == "nothing answers the question, and that was said"
