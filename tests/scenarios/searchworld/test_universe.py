"""Universes: invented words, facts stated once, articles of one length, and bytes that depend on the key alone."""

import itertools
from functools import cache

import numpy as np
import pytest

from agentenvs.core.search import Tokenizer
from agentenvs.core.search.bundle import Bundle
from agentenvs.core.streams import scenario_key
from agentenvs_scenarios.searchworld import vocabulary
from agentenvs_scenarios.searchworld.build import build, generator
from agentenvs_scenarios.searchworld.draws import Draws, zipf
from agentenvs_scenarios.searchworld.ids import Ids
from agentenvs_scenarios.searchworld.programs import Names
from agentenvs_scenarios.searchworld.reader import parse
from agentenvs_scenarios.searchworld.schema import FORWARD, INVERSE, directions, reverse, schema
from agentenvs_scenarios.searchworld.universe import KIND, Universe

SEEDS = range(3)


@cache
def built(seed: int = 0, people: int = 500):
    return build(scenario_key("searchworld", "tests", seed), people)


def universe(seed: int = 0) -> Universe:
    return built(seed).universe


def test_a_key_is_one_universe_and_another_key_another():
    again = build(scenario_key("searchworld", "tests", 0), 500).universe
    assert again.digest == universe().digest
    assert len({universe(seed).digest for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("people", [100, 500, 2000])
def test_sizes(people):
    made = built(0, people).universe
    assert made.people == made.counts[0] == people
    assert len(made) == sum(made.counts) == len(made.texts) == len(made.names)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_word_is_one_of_ours(seed):
    made = universe(seed)
    known = vocabulary.known_words()
    forms = {word.lower() for kind in schema().kinds.values() for form in kind.forms for word in form.split()}
    words = {word.lower() for number in range(len(made)) for word in made.name(number).split()} - forms
    words |= {word.lower() for column in made.words for word in column}
    assert len(words) > 500
    assert not words & known
    assert {"mentor", "london", "alice", "smith", "dubai", "rifle"} <= known
    assert not [word for word in words for crude in schema().sounds.crude if crude in word]


def test_universes_share_hardly_a_name():
    names = [{made.name(number) for number in range(len(made))} for made in map(universe, SEEDS)]
    assert not names[0] & names[1] & names[2]
    assert len(names[0] & names[1]) < 10


def test_names_are_unique():
    made = universe()
    assert len({made.name(number) for number in range(len(made))}) == len(made)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fact_stands_in_one_article_and_reads_back(seed):
    made = universe(seed)
    names = Names(made)
    told = []
    for document in range(len(made)):
        title = made.title(document)
        for name, mine, other in parse(title, made.text(document)):
            told.append((title, name, other) if mine else (other, name, title))
    facts = []
    for item, links in zip(schema().relations, made.links, strict=True):
        for place, target in enumerate(links.objects.tolist()):
            if target >= 0 and (not item.symmetric or links.mine.item(place)):
                facts.append((made.name(made.first[item.subject] + place), item.name, made.name(target)))
    for item in schema().attributes:
        first = made.first[item.type]
        for place in range(len(made.values[item.number])):
            value = made.value(item, first + place)
            if value is not None:
                facts.append((made.name(first + place), item.name, value))
    assert sorted(told) == sorted(facts)
    assert len(set(facts)) == len(facts)
    assert all(names.find(subject) is not None for subject, _, _ in facts)


def test_articles_are_about_as_long_as_one_another_and_end_in_a_full_stop():
    made = universe()
    texts = [made.text(document) for document in range(len(made))]
    lengths = sorted(map(len, texts))
    assert lengths[0] >= 450
    assert lengths[len(lengths) * 95 // 100] <= 800
    assert all(text.endswith(".") and text == text.strip() and ".." not in text for text in texts)


def test_the_words_for_the_index_are_those_of_title_and_text():
    made, words = built()
    cut = Tokenizer().words
    for document in range(0, len(made), 7):
        start = words.ends.item(document - 1) if document else 0
        numbers = words.numbers[start : words.ends.item(document)].tolist()
        wanted = cut(f"{made.title(document)} {made.text(document)}")
        assert [words.vocabulary[number] for number in numbers] == wanted
    assert set(words.numbers.tolist()) == set(range(len(words.vocabulary)))


def test_a_relation_and_its_inverse_are_each_other():
    made = universe()
    for ways in directions().values():
        for way in ways:
            back = reverse(way)
            assert reverse(back) == way
            for entity in range(made.first[way.source], made.first[way.source] + 40):
                if entity >= sum(made.counts) or made.type_of(entity) != way.source:
                    continue
                edges = made.edges(way, entity)
                assert len(edges) == made.degree(way, entity)
                assert all((entity, article) in made.edges(back, target) for target, article in edges)


def test_nobody_shares_an_object_with_more_than_the_schema_says():
    made = universe()
    for item, links in zip(schema().relations, made.links, strict=True):
        if item.most and not item.symmetric:
            assert np.diff(links.starts).max() <= item.most
        assert item.draw in ("even", "zipf", "skew", "older")


def test_parents_and_mentors_are_older():
    made = universe()
    birth = schema().attribute("birth")
    for name in ("parent", "mentor"):
        item = schema().relation(name)
        for child, elder in enumerate(made.links[item.number].objects.tolist()):
            if elder >= 0:
                assert made.number(birth, elder) + 15 <= made.number(birth, child)


def test_a_bundle_holds_the_whole_universe(tmp_path):
    made = universe()
    made.bundle.save(tmp_path / "universe.bin")
    again = Universe.from_bundle(Bundle.open(tmp_path / "universe.bin", KIND))
    assert again.digest == made.digest
    assert [again.text(document) for document in range(9)] == [made.text(document) for document in range(9)]
    assert again.words == made.words
    ways = directions()["person"]
    assert [again.edges(way, 7) for way in ways] == [made.edges(way, 7) for way in ways]


def test_documents_stand_in_no_order_of_making():
    made = universe()
    places = made.document_of[: made.counts[0]].tolist()
    rising = sum(left < right for left, right in itertools.pairwise(places))
    assert 0.4 < rising / len(places) < 0.6


def test_frequencies_are_skewed_and_having_counts():
    made = universe()
    trade = schema().attribute("trade")
    frequencies = made.frequencies[trade.number]
    assert frequencies.sum() == made.counts[0]
    assert frequencies.max() > 4 * np.median(frequencies)
    pupils = next(way for way in directions()["person"] if way.phrase == "pupils of" and way.way == INVERSE)
    for count in (1, 2, 3):
        found = made.having(pupils, count)
        assert len(found)
        assert all(made.degree(pupils, entity) == count for entity in found.tolist())


def test_a_byname_is_somebodys():
    made = universe()
    alias = schema().attribute("alias")
    person = next(number for number in range(made.counts[0]) if made.value(alias, number))
    assert made.called(made.value(alias, person)) == person
    assert made.called("Nobody") is None


def test_draws_are_in_bounds_and_reproducible():
    key = bytes(32)
    drawn = Draws(key, "a").below(5000, 7)
    assert set(drawn.tolist()) == set(range(7))
    assert drawn.tolist() == Draws(key, "a").below(5000, 7).tolist() != Draws(key, "b").below(5000, 7).tolist()
    assert sorted(Draws(key, "c").order(100).tolist()) == list(range(100))
    weights = zipf(50)
    counts = np.bincount(Draws(key, "d").weighted(20_000, weights), minlength=50)
    assert counts[0] > counts[10] > counts[49] > 0
    assert 0.2 < Draws(key, "e").percent(10_000, 25).mean() < 0.3


def test_ids_are_a_permutation_that_hides_the_order():
    ids = Ids(b"key", 5000)
    spelled = [ids.spell(number) for number in range(5000)]
    assert len(set(spelled)) == 5000
    assert [ids.number(text) for text in spelled] == list(range(5000))
    assert Ids(b"other", 5000).spell(0) != spelled[0]
    assert ids.number(ids.spell(5000)) is None
    assert [ids.number(text) for text in ("", "abc", "ABCDEF", "abcdefg", "aaaa1l", "ünicod")] == [None] * 6
    assert sum(left < right for left, right in itertools.pairwise(spelled)) < 2700


def test_the_generator_has_a_name():
    assert generator() == generator()
    assert FORWARD != INVERSE
