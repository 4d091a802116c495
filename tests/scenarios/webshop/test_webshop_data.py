"""The loader: the field's layouts and their traps, frozen draws, goals, and errors that say what to do."""

import gzip
import json

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.webshop.goals import goal_splits, mended
from agentenvs_scenarios.webshop.load import load_shop
from agentenvs_scenarios.webshop.mersenne import Twister
from agentenvs_scenarios.webshop.model import NO_BOUND, path_names, range_tag, tag_of
from agentenvs_scenarios.webshop.nouns import WORDS, Table

PRODUCT = {
    "asin": "B000000001",
    "name": "Blue Shirt",
    "full_description": "A shirt.",
    "small_description": "one bullet",
    "pricing": "$1,234.50 - $1,300.00",
    "images": ["x"],
    "product_category": "Clothing \u203a Shirts",
    "category": "fashion",
    "query": " Shirts ",
    "average_rating": 4.3,
    "customization_options": {
        "Size": [
            {"value": " S/M ", "price_string": "$12.80"},
            {"value": "L", "is_available": False},
            {"value": "L", "is_available": True},
        ],
        "Color": None,
    },
}
NOTES = {"attributes": ["soft"], "instruction": "Find me soft shirts", "instruction_attributes": ["soft"]}


def write(folder, products, notes=None, human=None):
    (folder / "items_shuffle_2.json").write_text(json.dumps(products).replace('"NaN"', "NaN"))
    (folder / "items_ins_v2_2.json").write_text(json.dumps({"B000000001": NOTES} if notes is None else notes))
    if human is not None:
        with gzip.open(folder / "items_human_ins.json.gz", "wt") as file:
            json.dump(human, file)
    return folder


def test_a_product_is_read_as_the_original_reads_it(tmp_path):
    shop = load_shop(write(tmp_path, [PRODUCT]))
    product = shop.product(0)
    assert (product.tag, product.low, product.high) == ("$1234.5 to $1300.0", 123450, 130000)
    assert product.low <= product.charged <= product.high
    assert (product.query, product.bullets, product.rating) == ("shirts", ("one bullet",), 43)
    (group,) = product.options
    assert (group.name, group.values) == ("size", ("s | m", "l", "l"))
    assert (group.prices, group.stock) == ((1280, None, None), (None, 0, None))
    assert product.price({"size": "s | m"}) == (1280, 1280)
    assert shop.index("B000000001") == 0
    assert shop.index("nowhere") == -1


@pytest.mark.parametrize(
    ("change", "tag", "rating"),
    [
        ({"pricing": None}, "$100.0", 43),
        ({"pricing": ""}, "$100.0", 43),
        ({"pricing": "free"}, "$100.0", 43),
        ({"pricing": "$36"}, "$36.0", 43),
        ({"average_rating": ""}, "$1234.5 to $1300.0", None),
        ({"average_rating": "4"}, "$1234.5 to $1300.0", 40),
        ({"average_rating": "NaN"}, "$1234.5 to $1300.0", None),
    ],
)
def test_odd_values(tmp_path, change, tag, rating):
    product = load_shop(write(tmp_path, [{**PRODUCT, **change}])).product(0)
    assert (product.tag, product.rating) == (tag, rating)


def test_doubled_and_malformed_ids_are_left_out(tmp_path):
    rows = [PRODUCT, PRODUCT, {**PRODUCT, "asin": "nan"}, {**PRODUCT, "asin": "B0000000012"}]
    assert len(load_shop(write(tmp_path, rows))) == 1
    assert load_shop(write(tmp_path, [PRODUCT], notes={})).product(0).attributes == ("DUMMY_ATTR",)


def test_goals_of_both_sorts(tmp_path):
    human = {
        "B000000001": [
            {"instruction": "i want a soft shirt.", "instruction_attributes": ["soft"], "instruction_options": ["l"]},
            {"instruction": "anything", "instruction_attributes": [], "instruction_options": []},
        ]
    }
    folder = write(tmp_path, [PRODUCT], human=human)
    shop = load_shop(folder)
    splits = goal_splits(folder, shop)
    assert {name: len(split.goals) for name, split in splits.items()} == {"human": 1, "synthetic": 3}
    asked = splits["human"].goals[0]
    assert asked.sentence == "i want a soft shirt"  # no multiple of ten below a thousand is above the price
    assert (asked.wants[0].bound, asked.wants[0].pairs) == (NO_BOUND, False)
    assert sorted(goal.sentence for goal in splits["synthetic"].goals)[2] == "Find me soft shirts with size: s | m"
    cheap = write(tmp_path, [{**PRODUCT, "pricing": "$12"}], human=human)
    found = goal_splits(cheap, load_shop(cheap))["human"].goals[0]
    assert found.sentence.endswith(f", and price lower than {found.wants[0].bound // 100}.00 dollars")
    assert found.wants[0].bound in (3000, 4000, 5000)


def test_what_cannot_be_bought_is_not_asked_for_where_grading_is_exact(tmp_path):
    option = {"Size": [{"value": "l", "is_available": False}, {"value": "s", "price_string": "$99.00"}]}
    folder = write(tmp_path, [{**PRODUCT, "pricing": "$12", "customization_options": option}])
    shop = load_shop(folder)
    first, second = sorted((mended(goal, shop) for goal in goal_splits(folder, shop)["synthetic"].goals), key=str)
    wants = sorted((goal.wants[0].options for goal in (first, second)), key=len)
    assert wants == [(), (("size", "s"),)]
    dear = next(goal for goal in (first, second) if goal.wants[0].options)
    assert dear.wants[0].bound == 10_000
    assert dear.sentence.endswith("price lower than 100.00 dollars")


def test_the_hugging_face_layout(tmp_path):
    processed = {
        "asin": "B000000001",
        "name": "Blue Shirt",
        "full_description": "A shirt.",
        "small_description": json.dumps(["one", "two"]),
        "pricing": json.dumps([12.5, 14.0]),
        "product_category": "Clothing \u203a Shirts",
        "category": "fashion",
        "query": "shirts",
        "options": json.dumps({"size": ["s | m", "l"]}),
        "Attributes": json.dumps(["soft"]),
        "Reviews": json.dumps([{"title": "ok", "score": 4, "body": "fine"}]),
        "instruction_text": "null",
    }
    goal = {
        "asin": "B000000001",
        "instruction_text": "a soft shirt",
        "attributes": json.dumps(["soft"]),
        "goal_options": json.dumps(["l"]),
        "price_upper": 20.0,
    }
    (tmp_path / "webshop.jsonl").write_text(json.dumps(processed) + "\n")
    (tmp_path / "webshop_instructions-test.jsonl").write_text(json.dumps(goal) + "\n")
    shop = load_shop(tmp_path)
    product = shop.product(0)
    assert (product.tag, product.bullets, product.attributes) == ("$12.5 to $14.0", ("one", "two"), ("soft",))
    assert product.reviews[0].score == 4
    splits = goal_splits(tmp_path, shop)
    assert splits["goals_test"].goals[0].wants[0].options == (("", "l"),)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("items_shuffle.json", "null", "it holds no rows"),
        ("items_shuffle.json", json.dumps([{**PRODUCT, "name": None}]), "product B000000001: name is empty"),
        ("items_shuffle.json", json.dumps([{**PRODUCT, "query": 5}]), "B000000001: query is a number, not a text"),
        ("items_shuffle.json", json.dumps([{**PRODUCT, "pricing": "$1.2.3"}]), "pricing '$1.2.3' is none"),
        ("items_shuffle.json", json.dumps([{**PRODUCT, "pricing": "$1e9 $99999999"}]), "is beyond 1,000,000 dollars"),
        ("items_shuffle.json", json.dumps([{**PRODUCT, "small_description": [7]}]), "something in small_description"),
        (
            "items_shuffle.json",
            json.dumps([{**PRODUCT, "customization_options": {"Size": [{}]}}]),
            "B000000001: value is missing",
        ),
        ("items_ins_v2.json", "[1]", "it is a list, not a table of products"),
        ("items_ins_v2.json", '{"B000000001": {"attributes": [null]}}', "something in attributes is empty, not a text"),
        ("items_human_ins.json", '{"B000000001": [5]}', "something in its entry is a number, not a table"),
        ("items_human_ins.json", '{"B000000001": [{"instruction_attributes": ["a"]}]}', "instruction is missing"),
        ("prices.json", '{"B000000001": -5}', "its price -5 is none"),
        ("prices.json", '{"B000000001": "5"}', "its price is a text, not a number"),
        ("goals.json", '[{"asin": "B1"}]', "goal 0: there is no product 'B1'"),
        ("goals.json", '[{"asin": "B000000001", "price_upper": "x"}]', "goal 0: price_upper is a text, not a price"),
        (
            "goals.json",
            '[{"asin": "B000000001", "price_upper": 5, "attributes": "soft"}]',
            "instruction_text is missing",
        ),
        ("goals.json", '{"a": {"asin": NaN}}', "goal 0: asin is empty"),
        ("goals.json", "{", "it is no JSON"),
    ],
)
def test_a_damaged_record_is_named_with_its_file(tmp_path, name, text, why):
    write(tmp_path, [PRODUCT])
    for old in tmp_path.glob(name.partition(".")[0] + "*"):
        old.unlink()
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as raised:
        goal_splits(tmp_path, load_shop(tmp_path))
    assert name in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"\xff\xfe[\x00", "Bl\u00fc".encode("latin-1"), b"[" * 100_000, b"", b"version https:"]
)
def test_what_is_no_text_of_json_says_so(tmp_path, data):
    (tmp_path / "items_shuffle.json").write_bytes(data)
    with pytest.raises(DataError, match="it is no JSON"):
        load_shop(tmp_path)


def test_parquet_holds_the_same(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra webshop-data)")
    arrow = pytest.importorskip("pyarrow")
    row = {
        "asin": "B000000001", "name": "Blue Shirt", "full_description": "A shirt.", "small_description": '["one"]',
        "pricing": "[12.5]", "product_category": "Clothing", "category": "fashion", "query": "shirts",
        "options": '{"size": ["l"]}', "Attributes": '["soft"]', "Reviews": None, "instruction_text": None,
    }  # fmt: skip
    goal = {
        "asin": "B000000001", "instruction_text": "a shirt", "attributes": '["soft"]', "price_upper": 20.0,
        "goal_options": '{"size": "l"}',
    }  # fmt: skip
    read = []
    for ending in ("jsonl", "parquet"):
        folder = tmp_path / ending
        folder.mkdir()
        for name, form in (("webshop", row), ("webshop_instructions-train", goal)):
            if ending == "parquet":
                parquet.write_table(arrow.Table.from_pylist([form]), folder / f"{name}.parquet")
            else:
                (folder / f"{name}.jsonl").write_text(json.dumps(form))
        shop = load_shop(folder)
        read.append((shop.product(0), goal_splits(folder, shop)["goals_train"].goals))
    assert read[0] == read[1]
    assert read[1][1][0].wants[0].options == (("size", "l"),)
    (tmp_path / "parquet" / "webshop.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"webshop\.parquet cannot be used"):
        load_shop(tmp_path / "parquet")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no products of a web shop"),
        ({"items_shuffle.json": "{"}, "no JSON"),
        ({"items_shuffle.json": "[1]"}, "a row is a int"),
        ({"items_shuffle.json": "[]"}, "holds no product"),
        ({"items_shuffle.json": '[{"asin": "B000000001"}]'}, "product B000000001"),
    ],
)
def test_what_is_of_no_use_says_so(tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as raised:
        load_shop(tmp_path)
    assert words in str(raised.value)
    assert raised.value.fix


def test_a_missing_folder_and_a_packed_file(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        load_shop(tmp_path / "nowhere")
    (tmp_path / "items_shuffle.json.gz").write_bytes(gzip.compress(json.dumps([PRODUCT]).encode()))
    assert len(load_shop(tmp_path)) == 1
    (tmp_path / "items_shuffle.json.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be used"):
        load_shop(tmp_path)


def test_the_shuffle_is_that_of_the_language():
    import random

    ours, theirs = list(range(700)), list(range(700))
    Twister(233).shuffle(ours)
    random.Random(233).shuffle(theirs)
    assert ours == theirs


def test_tables_of_nouns():
    table = Table({"A Blue Shirt": ["shirt"]})
    assert Table.from_json(table.to_json()).digest == table.digest
    assert table.of("A Blue Shirt") == ("shirt",)
    with pytest.raises(DataError, match="lacks"):
        table.of("Another")
    with pytest.raises(DataError, match="no table"):
        Table.from_json({"format": 9})
    assert WORDS.of("The A-Line Dress, for You 2") == ("a-line", "dress", "2")


def test_prices_as_the_original_prints_them():
    assert [tag_of(cents) for cents in (100, 2499, 3600, 123450, 5)] == ["$1.0", "$24.99", "$36.0", "$1234.5", "$0.05"]
    assert range_tag(663, 837) == "$6.63 to $8.37"
    assert path_names("A \u203a B") == {"A", "B"}
