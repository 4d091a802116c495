from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from agentenvs.core.errors import DataError
from agentenvs.harness import prices
from agentenvs.harness.model_settings import OpenAISettings

MINE = """
name = "mine"
version = "1"
date = "2026-01-31"
source = "the invoice"
[providers.local]
host = "*"
[providers.local.models]
small = { input = "0.5", output = 2 }
[providers.far]
host = "api.example.org"
[providers.far.models]
small = { input = "1", cached_input = "0.1", output = "3" }
"""


def _table(tmp_path: Path, text: str = MINE) -> prices.PriceTable:
    (tmp_path / "mine.toml").write_text(text)
    return prices.load(tmp_path / "mine.toml")


def test_the_table_of_the_package_says_where_it_is_from() -> None:
    table = prices.load()
    assert table.id == f"agentenvs {table.version} sha256:{table.sha256}"
    assert table.date.startswith("20")
    assert "litellm" in table.source
    price = table.find("gpt-4.1", "api.openai.com")
    assert price == prices.Price(Decimal("2.00"), Decimal("8.00"), Decimal("0.50"))


@pytest.mark.parametrize(
    ("model", "host"), [("gpt-4.1", "127.0.0.1"), ("gpt-4.1-", "api.openai.com"), ("GPT-4.1", "api.openai.com")]
)
def test_the_same_name_elsewhere_or_another_name_has_no_price(model: str, host: str) -> None:
    assert prices.load().find(model, host) is None


@pytest.mark.parametrize(
    ("counts", "cost"),
    [
        ((1000, 10, None), 1000 + 30),
        ((1000, 10, 400), 600 + 40 + 30),
        ((100, 0, 900), 10),
        ((None, 10, 0), None),
        ((10, None, 0), None),
        ((0, 0, 0), 0),
    ],
)
def test_a_cost_is_whole_millionths_or_unknown(tmp_path: Path, counts: tuple, cost: int | None) -> None:
    price = _table(tmp_path).find("small", "api.example.org")
    assert price is not None
    assert price.cost(*counts) == cost


def test_a_table_of_ones_own_may_hold_anywhere(tmp_path: Path) -> None:
    assert _table(tmp_path).find("small", "localhost") == prices.Price(Decimal("0.5"), Decimal(2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "cannot be read"),
        ('name = "a"', "version is missing"),
        (MINE.replace('"*"', "3"), "host is missing"),
        (MINE.replace('"0.5"', "0.5"), "providers.local.models.small.input is 0.5"),
        (MINE.replace('"0.5"', '"-1"'), "is '-1'"),
        (MINE.replace('"0.5"', '"NaN"'), "is 'NaN'"),
        (MINE.replace('"0.5"', "true"), "is True"),
        (MINE.replace("output = 2", "outputs = 2"), "needs input and output"),
        (MINE.partition("[providers")[0], "no [providers.NAME]"),
    ],
)
def test_a_damaged_table_is_named_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as told:
        _table(tmp_path, text)
    assert said in str(told.value)


def test_a_model_takes_its_price_from_the_table_unless_one_is_given(tmp_path: Path) -> None:
    table = _table(tmp_path)
    known = OpenAISettings(model="gpt-4.1", base_url="https://api.openai.com/v1")
    assert (known.cost(1_000_000, 0, None), known.price_table) == (2_000_000, prices.load().id)
    mine = OpenAISettings.parse(model="small", base_url="http://localhost/v1", prices=str(tmp_path / "mine.toml"))
    assert (mine.cost(2, 1, None), mine.price_table) == (3, table.id)
    given = OpenAISettings.parse(model="gpt-4.1", price_in="1", price_out="2", price_cached="0")
    assert (given.cost(10, 1, 10), given.price_table) == (2, "given: 1 in, 0 cached, 2 out")
    unknown = OpenAISettings(model="gpt-4.1", base_url="http://localhost/v1")
    assert (unknown.cost(1, 1, None), unknown.price_table) == (None, None)
