"""The shop in play: grammar, profiles, pages, tools, snapshots, traces."""

import json

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import DataError, OptionError, SnapshotError, SplitError
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop.actions import parse_call, parse_text, tool_call

SMALL = {"products": 1000}


def make(profile="compat", index=0, **options):
    env = registry.make("webshop", profile=profile, **SMALL, **options)
    env.reset(TaskRef("train", index))
    return env


def first_hit(env, query="lamp"):
    env.step(f"search[{query}]")
    return next(label for label, (kind, _) in env.world.labels().items() if kind == "product")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("search[Blue Shirt]", ("search", "blue shirt")),
        ("click[Buy Now] trailing", ("click", "buy now")),
        ("search[a]b]", ("search", "a]b")),
        ("Search[x]", "unknown_command"),
        ("now click[x]", "unknown_command"),
        ("click[a[b]", "unknown_command"),
        ("click[]", "unknown_command"),
        ("buy now", "unknown_command"),
        ("", "unknown_command"),
        ("click[" + "x" * 5000 + "]", "unknown_command"),
        (None, "unknown_command"),
    ],
)
def test_grammar(text, command):
    assert parse_text(text) == command


@pytest.mark.parametrize(
    ("tool", "arguments", "native", "command"),
    [
        ("search", {"query": "Red"}, False, ("search", "red")),
        ("click", {"label": "Buy Now"}, False, ("click", "buy now")),
        ("buy", {}, True, ("click", "buy now")),
        ("next_page", {}, True, ("click", "next >")),
        ("open_product", {"product": "B1"}, True, ("click", "b1")),
        ("choose_option", {"name": "Color", "value": "Red"}, True, ("choose", "color\nred")),
        ("buy", {}, False, "unknown_tool"),
        ("fly", {}, True, "unknown_tool"),
        (7, {}, True, "unknown_tool"),
        ("search", {}, False, "bad_arguments"),
        ("search", {"query": 5}, False, "bad_arguments"),
        ("search", {"query": ""}, False, "bad_arguments"),
        ("search", "query", False, "bad_arguments"),
    ],
)
def test_tools(tool, arguments, native, command):
    assert parse_call(tool, arguments, native=native) == command
    if isinstance(command, tuple):
        again = tool_call(command)
        assert parse_call(again["tool"], again["arguments"], native=True) == command


def test_search_words_of_the_original_are_words_elsewhere():
    totals = {}
    for profile in ("original", "compat"):
        env = make(profile)
        totals[profile] = [
            env.step(f"search[{query}]").observation.text.partition("results: ")[2].partition(")")[0]
            for query in ("<r>", "<c> garden", "<q> table lamp")
        ]
    assert totals["original"][0] == "50"
    assert int(totals["original"][1]) > 50
    assert totals["compat"][0] == "0"
    for query in ("<a> long lasting", "<c>"):
        assert make("original").step(f"search[{query}]").info["invalid"]
        assert not make("compat").step(f"search[{query}]").info["invalid"]


def test_original_is_misled_by_its_addresses_and_the_others_are_not():
    for profile, page in (("original", 0), ("compat", 1)):
        env = make(profile)
        label = first_hit(env, "search_results lamp")
        env.step(f"click[{label}]")
        env.step("click[< prev]")
        assert env.world.number == page


def test_native_ends_its_pages_and_has_a_search_bar_only_on_the_first():
    env = make("native")
    env.step("search[lamp]")
    assert env.step("search[chair]").info["invalid"]
    pages = 1
    while not env.step("click[next >]").info["invalid"]:
        pages += 1
    assert pages == 5
    assert "page 5 of 5, 50 products" in env.observation.text
    assert env.observation.text.startswith("There is nothing of that name")


def test_native_shows_what_was_chosen_and_refuses_what_is_sold_out():
    env = make("native")
    shop = env.current.shop
    index = next(at for at in range(1000) if any(0 in group.stock for group in shop.product(at).options))
    product = shop.product(index)
    group = next(group for group in product.options if 0 in group.stock)
    env.step(f"search[{product.title}]")
    env.step({"tool": "open_product", "arguments": {"product": product.id}})
    gone, there = (
        group.values[group.stock.index(0)],
        next(value for value, pieces in zip(group.values, group.stock, strict=True) if pieces),
    )
    refused = env.step(f"click[{gone}]")
    assert refused.info["invalid"]
    assert refused.observation.text.startswith("That is sold out.")
    assert (
        "sold out"
        in env.step({"tool": "choose_option", "arguments": {"name": group.name, "value": gone}}).observation.text
    )
    shown = env.step({"tool": "choose_option", "arguments": {"name": group.name, "value": there}})
    assert not shown.info["invalid"]
    assert "chosen" in shown.observation.text
    for words in ("Rating: ", " in stock", "Buttons: "):
        assert words in shown.observation.text
    assert "Page: reviews of product" in env.step("click[reviews]").observation.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "color\n", "value": "white"},
        {"name": "color", "value": "white\n"},
        {"name": "a\nb", "value": "c\nd"},
        {"name": "\ud800", "value": "\n"},
    ],
)
def test_an_option_of_several_lines_is_a_turn(arguments):
    env = make("native")
    label = first_hit(env)
    for _ in range(2):
        key = env.state_key
        assert env.step({"tool": "choose_option", "arguments": arguments}).info["invalid"]
        assert env.state_key == key
        env.step(f"click[{label}]")


def test_choices_do_not_follow_to_another_product():
    for profile in ("original", "compat", "native"):
        env = make(profile)
        label = first_hit(env)
        other = [name for name, (kind, _) in env.world.labels().items() if kind == "product"][1]
        env.step(f"click[{label}]")
        env.step(f"click[{next(name for name, (kind, _) in env.world.labels().items() if kind == 'option')}]")
        assert env.world.chosen
        env.step("click[< prev]")
        assert not env.world.chosen
        env.step(f"click[{other}]")
        assert not env.world.chosen


def test_prices_follow_the_choice_outside_original():
    for profile in ("original", "compat", "native"):
        env = make(profile)
        shop = env.current.shop
        product = next(shop.product(at) for at in range(1000) if shop.product(at).low < shop.product(at).high)
        group = next(group for group in product.options if any(group.prices))
        value = next(value for value, pieces in zip(group.values, group.stock, strict=True) if pieces)
        env.step(f"search[{product.title}]")
        before = env.step(f"click[{product.id.lower()}]").observation.text
        after = env.step(f"click[{value}]").observation.text
        assert (before == after) == (profile == "original")


def test_the_score_is_told_by_original_alone():
    told = {}
    for profile in ("original", "compat", "native"):
        env = make(profile)
        label = first_hit(env)
        env.step(f"click[{label}]")
        while env.ending is None:
            told[profile] = env.step("click[buy now]").observation.text
            if env.ending is None:
                label = first_hit(env)
                env.step(f"click[{label}]")
    assert "[SEP] None [SEP] Reward Details" in told["compat"]
    assert "[SEP] None [SEP] Reward Details" not in told["original"]
    assert "score" not in told["native"].lower()


def test_options_and_splits_that_are_not_there():
    for products in (10, 10_000_001):
        with pytest.raises(OptionError):
            registry.make("webshop", products=products)
    with pytest.raises(SplitError):
        make().reset(TaskRef("human", 0))
    with pytest.raises(DataError, match="there is no folder"):
        registry.make("webshop", data="/nowhere")


def test_a_variable_that_points_nowhere_matters_only_to_who_needs_data(monkeypatch):
    monkeypatch.setenv("WEBSHOP_DATA", "/nowhere")
    env = make()
    assert env.world.page == 0
    with pytest.raises(DataError):
        env.reset(TaskRef("human", 0))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("state", "page"), 9),
        (("state", "page"), "1"),
        (("state", "product"), 10**6),
        (("state", "chosen"), [["color", "plaid"]]),
        (("state", "visited"), [5, 3]),
        (("state", "results"), [5, [10**7]]),
        (("state", "bought"), [[0, []], [1, []], [2, []]]),
        (("state", "query"), 7),
        (("history",), []),
        (("history",), [[0, -1, "", []]] * 90),
        (("history",), [[7, -1, "", []]]),
    ],
)
def test_damaged_snapshots_are_refused(path, value):
    env = make()
    env.step(f"click[{first_hit(env)}]")
    form = json.loads(env.snapshot())
    spot = form["world"]
    for name in path[:-1]:
        spot = spot[name]
    spot[path[-1]] = value
    with pytest.raises(SnapshotError):
        make().restore(json.dumps(form).encode())


def test_traces_tell_what_was_seen_first_when_and_used_where():
    env = make()
    label = first_hit(env)
    listed = env.last_trace
    assert {fact.relation for fact in listed.observed} == {"listed"}
    env.step(f"click[{label}]")
    opened = env.last_trace
    assert [(fact.entity.lower(), fact.first_seen) for fact in opened.used] == [(label, 1)]
    assert opened.action == f"click[{label}]"
    env.step({"no": "action"})
    env.step("click[description]")
    assert env.last_trace.observed[0].first_seen == 4
    env.step("click[< prev]")
    price = next(fact for fact in env.last_trace.observed if fact.relation == "price")
    assert price.first_seen == 2
