"""Generated shops and goals: the same from the same seed, near misses in every family, splits kept apart."""

import re
from dataclasses import replace

import numpy as np
import pytest

from agentenvs.core.errors import ContractError
from agentenvs.core.streams import scenario_key
from agentenvs.envs.webshop.propose import propose
from agentenvs_scenarios.webshop.columns import Columns
from agentenvs_scenarios.webshop.families import BASE, CHEAPER, DEARER, EQUAL, PRICE_POINTS, SIZE, SOLD_OUT, kind_of
from agentenvs_scenarios.webshop.generate import SHARES, SPLITS, generate, split_of
from agentenvs_scenarios.webshop.generated import MOST_PRODUCTS, GeneratedShop
from agentenvs_scenarios.webshop.ladder import RUNGS, ladder
from agentenvs_scenarios.webshop.model import NO_BOUND, search_text
from agentenvs_scenarios.webshop.vocabulary import vocabulary

SHOP = GeneratedShop(3, 1000)


def test_a_shop_is_a_function_of_its_seed():
    again, other = GeneratedShop(3, 1000), GeneratedShop(4, 1000)
    assert [again.product(index) for index in range(40)] == [SHOP.product(index) for index in range(40)]
    assert again.digest == SHOP.digest != other.digest
    assert {SHOP.product(index).title for index in range(40)}.isdisjoint(
        other.product(index).title for index in range(40)
    )


def test_a_larger_shop_begins_with_the_smaller_one():
    larger = GeneratedShop(3, 8000)
    assert [larger.product(index) for index in (0, 500, 999)] == [SHOP.product(index) for index in (0, 500, 999)]


def test_ids_lead_back_to_their_index():
    ids = [SHOP.id_of(index) for index in range(1000)]
    assert len(set(ids)) == 1000
    assert [SHOP.index(name) for name in ids] == list(range(1000))
    huge = GeneratedShop(3, MOST_PRODUCTS)
    assert huge.index(huge.id_of(MOST_PRODUCTS - 1)) == MOST_PRODUCTS - 1
    for name in ("", "B", "B00000000!", "X123456789", ids[0].lower(), SHOP.id_of(1000)):
        assert SHOP.index(name) == -1
    with pytest.raises(IndexError):
        SHOP.product(1000)


@pytest.mark.parametrize("number", range(12))
def test_members_of_a_family_differ_in_one_thing(number):
    members = {facts.part: facts for facts in SHOP.family(number)}
    assert sorted(members) == list(range(SIZE))
    base = members[0]
    for part, facts in members.items():
        changed = sum(one != other for one, other in zip(base.attributes, facts.attributes, strict=True))
        assert changed == (1 if part in (1, 2, CHEAPER) else 0)
    assert members[EQUAL].attributes == base.attributes
    if not any(choice.step for choice in vocabulary().kinds[number].choices):
        assert 101 <= members[DEARER].low - base.low <= 300
        assert members[CHEAPER].high <= base.low - 40
    group = members[SOLD_OUT].options[0]
    focus = members[SOLD_OUT].focus[0]
    assert group.stock[group.values.index(focus)] == 0


def test_kin_are_all_of_a_kind_and_nothing_else():
    kind = vocabulary().kinds[5]
    found = {product.id for product in SHOP.kin(kind.name, kind.path)}
    assert found == {SHOP.id_of(index) for index in range(1000) if SHOP.product(index).query == kind.name}
    assert list(SHOP.kin("no such kind", "")) == []


def test_splits_share_no_family():
    counts = dict.fromkeys(SPLITS, 0)
    for family in range(4000):
        counts[split_of(SHOP, family)] += 1
    for split, count in counts.items():
        assert count / 4000 == pytest.approx(SHARES[split] / 16, abs=0.02)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_goals_are_of_their_split_and_rung(rung, split):
    wanted = ladder()[rung]
    for index in range(12):
        made = generate(SHOP, scenario_key("webshop", split, index), rung, split)
        goal = made.goal
        assert (len(goal.wants), goal.kind) == (wanted.wants, rung)
        for want in goal.wants:
            assert split_of(SHOP, SHOP.index(want.product) // SIZE) == split
            low, high = wanted.attributes
            assert low <= len(want.attributes) <= high
            assert (want.bound == NO_BOUND) == (wanted.wants > 1)
            said = goal.sentence.lower()
            assert want.title.lower() not in said
            assert want.product.lower() not in said
            if wanted.paraphrase:
                assert not any(label in said for label in want.attributes)
                assert want.query not in said


def test_a_shop_without_the_split_says_so():
    class Elsewhere(GeneratedShop):
        families = 1

    shop = Elsewhere(3, 1000)
    split = next(split for split in SPLITS if split != split_of(shop, 0))
    with pytest.raises(ContractError, match="can be asked for"):
        generate(shop, scenario_key("webshop", split, 0), "constraints", split)


def test_vocabulary_is_sound():
    words = vocabulary()
    for kind in words.kinds:
        assert len(kind.slots) == 5
        assert kind.choices
        assert 0 < kind.least < kind.most
        labels = [value.label for slot in kind.slots for value in slot]
        assert len(labels) == len(set(labels)), kind.name
    assert "search" not in search_text(SHOP.product(0))


SMALL = "with from that this like made must been have what which when only more into other than"


def test_other_words_share_none_with_the_plain_ones_and_name_no_option():
    """Beginnings of long words are compared; small words and those every clause is made of are not."""

    def telling(text):
        words = re.findall(r"[a-z0-9]+", text.lower())
        return {word[:5] for word in words if len(word) > 3 and word not in SMALL.split()}

    for kind in vocabulary().kinds:
        assert not any(telling(kind.name) & telling(other) for other in kind.also), kind.name
        named = {value for choice in kind.choices for value in choice.values if value.isalpha()}
        for value in {value for slot in kind.slots for value in slot}:
            assert not telling(value.ask) & telling(f"{value.label} {value.say}"), value
            assert not named & set(re.findall(r"[a-z]+", value.ask)), (kind.name, value)


def test_few_prices_are_started_from_so_that_a_bound_singles_out_no_family():
    shop = GeneratedShop(0, 10_000)
    starts = {}
    for number in range(shop.families):
        kind = kind_of(number)
        if not any(choice.step for choice in kind.choices):
            base = next(facts for facts in shop.family(number) if facts.part == BASE)
            starts.setdefault(kind.name, []).append(base.low)
    for found in starts.values():
        assert len(set(found)) <= PRICE_POINTS
        assert len(found) / len(set(found)) > 4


@pytest.mark.parametrize("size", [1001, 4000])
def test_columns_leave_out_nothing_that_is_wanted(size, tmp_path):
    shop, narrowed = GeneratedShop(3, size), GeneratedShop(3, size)
    columns = Columns.empty(shop.families)
    for number in range(shop.families):
        columns.put(number, shop.present(number))
    columns.save(tmp_path / "products.npy")
    narrowed.columns = Columns.open(tmp_path / "products.npy")
    for index in range(40):
        for rung in RUNGS:
            key = scenario_key("webshop", "train", index)
            one, other = propose(shop, key, "train", rung), propose(narrowed, key, "train", rung)
            assert (one.scenario.digest, one.proof) == (other.scenario.digest, other.proof)
            want = one.scenario.goal.wants[0]
            found = [narrowed.index(product.id) for product in narrowed.likely(want, 0, None)]
            assert found == sorted(found)
            assert len(found) < len(list(shop.likely(want, 0, None)))
    assert list(narrowed.likely(replace(want, query="no such kind"), 0, None)) == []


def test_what_holds_no_columns_is_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"no columns")
    np.save(tmp_path / "b.npy", np.zeros((3, 3)))
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ValueError, match=r"."):
            Columns.open(tmp_path / name)
