"""Every question that is asked has passed every gate, and each gate refuses what it is there for."""

import pytest

from agentenvs.core.streams import Stream, derive
from agentenvs.core.task import TaskRef
from agentenvs.envs.searchworld import holdings, propose, prove, shortcuts
from agentenvs.envs.searchworld.env import SearchWorldEnv
from agentenvs.envs.searchworld.holdings import Place
from agentenvs.envs.searchworld.prove import GATES
from agentenvs.envs.searchworld.spec import SPEC
from agentenvs_scenarios.searchworld import programs
from agentenvs_scenarios.searchworld.answers import holds, normalise
from agentenvs_scenarios.searchworld.ladder import deck
from agentenvs_scenarios.searchworld.questions import Draft, Sampler

HELD = holdings.universe(SPEC, Place("train", 0, 500), None)


def proved(count, universes=1, people=500):
    """Yield questions about some universes, so many about each, dealt from decks of their own."""
    for number in range(universes):
        place = Place("train", number, people)
        held, key = holdings.universe(SPEC, place, None), holdings.universe_key(place)
        cards = [card for turn in range(2) for card in deck(derive(key, f"gates/{turn}"), "mixed")]
        for index, card in enumerate(cards[:count]):
            yield propose.propose(held, held.shelf, derive(key, f"gates/question/{index}"), card, "train"), held


def look_over(made, held):
    """Look at a question again, in other ways than the gates do."""
    asked, universe, names = made.scenario.question, held.shelf.universe, held.shelf.names
    assert made.proof.holds
    assert list(made.proof.to_json()) == list(GATES)
    answers = [texts[0] for texts in asked.answers]
    assert not any(normalise(answer) in normalise(asked.sentence).split() for answer in answers)
    assert held.reader.answers(asked.program) == tuple(answers)
    assert len(asked.supports) >= asked.hops
    titles = {held.library.title(held.library.number_of(name)) for name in asked.supports}
    program = asked.program if answers else asked.program[3]
    wanted = programs.run(universe, names, program).values
    for title in titles if answers else titles - set(wanted):
        assert programs.run(universe, names, program, names.number(title)).values != wanted


def test_questions_pass_every_gate():
    for made, held in proved(150, universes=2):
        look_over(made, held)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_universes_of_five_hundred_questions_pass_every_gate():
    cells, libraries = set(), {}
    for made, held in proved(500, universes=20, people=5000):
        look_over(made, held)
        cells.add((made.card.kind, made.card.hops))
        libraries[held.library.digest] = libraries.get(held.library.digest, 0) + 1
    assert len(cells) > 100
    assert list(libraries.values()) == [500] * 20


def drafted(kind, hops, number=0):
    return Sampler(HELD.shelf.universe, Stream(bytes(32), f"{kind}/{number}")).draft(kind, hops, number)


def faults(draft, sentence=None):
    return prove.prove(HELD, draft, sentence or programs.question(draft.program)).faults


def test_a_question_that_holds_its_answer_is_refused():
    draft = drafted("chain", 4)
    answer = programs.run(HELD.shelf.universe, HELD.shelf.names, draft.program).values[0]
    assert "silence" in faults(draft, f"Is it {answer}?")
    assert "silence" not in faults(draft)


def test_a_draft_that_says_more_hops_than_it_has_is_refused():
    assert "hops" in faults(drafted("chain", 4)._replace(hops=9))


def test_an_answer_that_is_there_is_no_twin():
    assert "answers" in faults(drafted("chain", 4)._replace(answerable=False))


def test_methods_that_differ_are_refused(monkeypatch):
    monkeypatch.setattr(HELD.reader, "answers", lambda program: ("Somebody Else",))
    assert "methods" in faults(drafted("chain", 4))


def test_a_chain_back_to_its_anchor_is_refused():
    universe = HELD.shelf.universe
    way = next(way for way in Sampler(universe, Stream(bytes(32), "x"))._ways(0) if way.phrase == "spouse of")
    person = next(entity for entity in range(500) if universe.degree(way, entity))
    there = ("step", "spouse", 0, ("entity", universe.name(person)))
    back = ("step", "spouse", 0, there)
    assert "loops" in faults(Draft("chain", 3, back))
    assert "hops" in faults(Draft("chain", 3, there))


def test_constraints_that_few_hold_to_are_refused():
    universe = HELD.shelf.universe
    draft = next(
        found for number in range(99) if "constraints" not in faults(found := drafted("constraint", 5, number))
    )
    kind, name, low, high = draft.program[1][0]
    narrow = ("range", "birth", 400, 402), *draft.program[1]
    assert programs.crowd(universe, draft.program[1]) >= prove.LEAST_CROWD
    assert "constraints" in faults(draft._replace(program=("where", narrow, draft.program[2])))
    assert (kind, low < high) in (("range", True), ("letters", True)), name


def test_the_end_of_a_long_question_is_searched_for_too():
    assert shortcuts.queries("Who?") == ("Who?",)
    assert shortcuts.queries("x" * 150 + "y" * 150) == ("x" * 150 + "y" * 150, "x" * 50 + "y" * 150)


def test_one_search_that_is_enough_is_refused():
    library = HELD.library
    sentence = programs.question(drafted("chain", 3).program)
    titles = [library.title(number) for number in shortcuts.one_query(library, sentence)]
    fresh = [title for title in titles if not holds(sentence, title)]
    assert set(prove._of_shortcuts(library, (fresh[0],), sentence)) == {"one-query", "two-query"}
    assert not list(prove._of_shortcuts(library, ("Somebody Else",), sentence))


def test_a_corpus_has_no_proof():
    assert prove.prove(holdings.Holding(HELD.library), drafted("chain", 3), "Who?").faults == GATES


def test_what_cannot_be_drafted_says_so(monkeypatch):
    monkeypatch.setattr(propose, "MOST_PROPOSALS", 0)
    with pytest.raises(Exception, match="none of 0 drafts"):
        propose.propose(HELD, HELD.shelf, bytes(32), propose.card_of("train", 0, 500, "mixed"), "train")


@pytest.mark.parametrize("difficulty", ["easiest", "easy", "medium", "hard", "hardest"])
def test_every_rung_can_be_played(difficulty):
    env = SearchWorldEnv(people="500", difficulty=difficulty)
    for index in range(4):
        env.reset(TaskRef("train", index))
        assert env.labels()["difficulty"] == difficulty
