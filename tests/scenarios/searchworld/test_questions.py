"""Questions: of the kind and hops that were asked for, evaluated alike by two methods, and put into words."""

from functools import cache

import pytest

from agentenvs.core.errors import ContractError
from agentenvs.core.search import Tokenizer, build_from_words
from agentenvs.core.streams import Stream, scenario_key
from agentenvs_scenarios.searchworld import phrases, programs, questions
from agentenvs_scenarios.searchworld.build import build
from agentenvs_scenarios.searchworld.ladder import DECK, DIFFICULTIES, catalogue, deck
from agentenvs_scenarios.searchworld.reader import Reader, parse
from agentenvs_scenarios.searchworld.schema import TYPES, schema

KEY = scenario_key("searchworld", "tests", 0)


class Shelf:
    def __init__(self):
        self.universe, words = build(KEY, 500)
        self.names = programs.Names(self.universe)
        ids = [str(number) for number in range(len(self.universe))]
        self.index = build_from_words(ids, words.numbers, words.ends, words.vocabulary)
        self.title, self.text = self.universe.title, self.universe.text

    def find(self, title):
        entity = self.names.find(title)
        return None if entity is None else self.universe.document_of.item(entity)

    def mentions(self, name):
        found = [set(self.index.documents_with(word).tolist()) for word in Tokenizer().words(name)]
        return sorted(set.intersection(*found))


@cache
def shelf():
    return Shelf()


def drafts(kind, hops, count=6):
    for number in range(count):
        sampler = questions.Sampler(shelf().universe, Stream(KEY, f"{kind}/{hops}/{number}"))
        made = sampler.draft(kind, hops, number)
        if made is not None:
            yield made


CELLS = [(kind, hops) for kind in questions.KINDS for hops in (1, 2, 4, 6, 9, 14, 20) if hops >= questions.FEWEST[kind]]


@pytest.mark.parametrize(("kind", "hops"), CELLS)
def test_drafts_are_as_asked_for_and_two_methods_agree(kind, hops):
    universe, names, reader = shelf().universe, shelf().names, Reader(shelf())
    made = list(drafts(kind, hops))
    assert len(made) >= 3
    for draft in made:
        found = programs.run(universe, names, draft.program)
        assert reader.answers(draft.program) == found.values
        assert bool(found.values) == draft.answerable
        assert len(found.values) <= questions.MOST_ANSWERS
        needed = programs.supports(universe, names, draft.program, found)
        if draft.answerable:
            assert len(needed) >= hops
        for article in needed:
            assert programs.run(universe, names, draft.program, article).values != found.values
        sentence = programs.question(draft.program)
        assert sentence[0].isupper()
        assert sentence.endswith("?")
        assert phrases.read(sentence) == draft.program
        assert programs.tuples([list(draft.program)])[0] == draft.program


def test_kinds_ask_what_they_say():
    universe, names = shelf().universe, shelf().names
    assert all(len(programs.run(universe, names, draft.program).values) >= 2 for draft in drafts("set", 5))
    for draft in drafts("count", 5, 10):
        assert 2 <= int(programs.run(universe, names, draft.program).values[0]) <= 6
    for draft in drafts("constraint", 5):
        whole = programs.run(universe, names, draft.program[2]).values
        assert set(programs.run(universe, names, draft.program).values) < set(whole)
    for draft in drafts("intersection", 5):
        found = set(programs.run(universe, names, draft.program).values)
        assert all(found < set(programs.run(universe, names, side).values) for side in draft.program[1:])
    for draft in drafts("twin", 5, 10):
        twin = programs.run(universe, names, draft.twin)
        assert bool(twin.values) != draft.answerable
        assert draft.twin[3] == draft.program[3]


def test_nobody_is_at_the_edge_of_a_constraint_and_crowds_are_counted():
    universe, names = shelf().universe, shelf().names
    for draft in drafts("constraint", 5, 20):
        _, tests, base = draft.program
        for kind, name, low, high in tests:
            assert low < high
            attribute = schema().attribute(name)
            values = {
                universe.value(attribute, names.number(who)) for who in programs.run(universe, names, base).values
            }
            assert kind == "letters" or values.isdisjoint((str(low), str(high)))
        first = universe.first[schema().attribute(tests[0][1]).type]
        everybody = range(first, first + universe.counts[TYPES.index(schema().attribute(tests[0][1]).type)])
        runner = programs.Runner(universe, names.number)
        fits = [one for one in everybody if all(runner._holds(test, one) for test in tests)]
        assert programs.crowd(universe, tests) == len(fits) > 0


def test_counts_and_twins_are_dealt_evenly():
    universe, names = shelf().universe, shelf().names
    counts, answerable = [], []
    for number in range(10):
        stream = Stream(KEY, f"even/{number}")
        counts.append(questions.Sampler(universe, stream).draft("count", 4, number))
        answerable.append(questions.Sampler(universe, stream).draft("twin", 4, number))
    values = sorted(programs.run(universe, names, draft.program).values[0] for draft in counts)
    assert values == sorted(["2", "3", "4", "5", "6"] * 2)
    assert sum(draft.answerable for draft in answerable) == 5


def test_a_chain_visits_nobody_twice():
    universe, names = shelf().universe, shelf().names
    for draft in drafts("chain", 12, 20):
        seen, program = [], draft.program
        while program[0] == "step":
            seen += programs.run(universe, names, program).values
            program = program[3]
        assert len(seen) == len(set(seen))


def test_pick_and_count_of_more_or_fewer_than_one_say_nothing():
    universe, names, reader = shelf().universe, shelf().names, Reader(shelf())
    several = next(drafts("set", 3)).program
    nobody = ("called", "Nobody")
    for program in (
        ("pick", "birth", 0, several, nobody),
        ("count", "mentor", 1, several),
        ("count", "mentor", 1, nobody),
        ("value", "trade", nobody),
        ("both", ("step", "mentor", 1, nobody), ("step", "patron", 1, nobody)),
    ):
        assert programs.run(universe, names, program).values == reader.answers(program) == ()


@pytest.mark.parametrize(
    "sentence",
    ["", "Who?", "Who is Bren Dal?", "What is love?", "How many are there?", "Which of the pupils of X was?"],
)
def test_a_foreign_question_is_not_read(sentence):
    assert phrases.read(sentence) is None


def test_a_foreign_sentence_is_refused():
    with pytest.raises(ContractError, match="cannot be read back"):
        parse("Somebody", "Somebody likes tea.")


def test_wordings_can_be_told_apart():
    made = schema()
    texts = [text for item in made.relations for text in (*item.mine, *(() if item.symmetric else item.theirs))]
    texts += [text for item in made.attributes for text in item.mine]
    assert len(set(texts)) == len(texts)
    assert len({(head, tail) for head, tail in (text.split("{it}") for text in texts)}) == len(texts)
    assert all(len(text.replace("{me}", "\0").partition("{it}")[0]) >= 7 for text in texts)
    assert all(text.count(". ") == 0 and text.endswith(".") for text in (*texts, *made.fillers))
    for item in made.relations:
        assert len(item.mine) == 3
        assert item.symmetric or item.own == 100 or len(item.theirs) == 3
    for item in made.attributes:
        assert item.kind in ("words", "number", "alias")
        assert item.name == "alias" or item.name in made.filters


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_a_deck_holds_every_cell_as_often_as_its_weight_says(difficulty):
    known = catalogue()
    cards = deck(KEY, difficulty)
    assert len(cards) == DECK
    assert cards == deck(KEY, difficulty) != deck(KEY[::-1], difficulty)
    for kind, share in known.kinds.items():
        dealt = [card for card in cards if card.kind == kind]
        if difficulty in ("medium", "hard", "hardest"):
            assert len(dealt) == DECK * share // sum(known.kinds.values())
        assert all(card.hops >= questions.FEWEST[kind] for card in dealt)
    for card in cards:
        rung = known.rungs[card.rung]
        assert rung.least <= card.hops <= rung.most
        assert difficulty in ("mixed", card.rung)
    if difficulty == "mixed":
        weights = {name: rung.weight for name, rung in known.rungs.items()}
        found = {name: sum(card.rung == name for card in cards) for name in weights}
        assert found == {name: DECK * weight // sum(weights.values()) for name, weight in weights.items()}


def test_splits_are_whole_decks():
    for split in catalogue().splits.values():
        assert (split.size or split.questions) % DECK == 0
        assert DECK % split.questions == 0
