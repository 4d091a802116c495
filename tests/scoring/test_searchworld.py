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
