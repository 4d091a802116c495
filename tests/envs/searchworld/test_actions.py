"""Three ways to say three things, and what is none of them."""

import pytest

from agentenvs.envs.searchworld import actions
from agentenvs.envs.searchworld.actions import Answer, Read, Search, clean_query, parse_call, parse_text

SEARCHED = Search("red door", 5)
TAGGED = Search("red door", 3, True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("search: red door", SEARCHED),
        ("search red door", SEARCHED),
        ("  SEARCH:red  door\n", SEARCHED),
        ("read: abc234", Read("abc234")),
        ("Read Bren Dal", Read("Bren Dal")),
        ("answer: One; Two", Answer(("One", "Two"))),
        ('answer: ["One", "Two"]', Answer(("One", "Two"))),
        ("answer: none", Answer(("none",))),
        ("answer none", Answer(("none",))),
        ("<search>red door</search>", TAGGED),
        ("I see. <think>a <search>b</search></think> Well <search> red\ndoor </search><answer>x</answer>", TAGGED),
        ("<answer>One; Two</answer>", Answer(("One", "Two"))),
        ("<search>red <search>door</search>", Search("red <search>door", 3, True)),
        ("<search></search>", actions.EMPTY_QUERY),
        ("<answer> ; </answer>", actions.BAD_ARGUMENTS),
        ("<search>red door", actions.UNKNOWN_COMMAND),
        ("</search>red<search>", actions.UNKNOWN_COMMAND),
        ("search:", actions.EMPTY_QUERY),
        ("search: \x00\x1b", actions.EMPTY_QUERY),
        ("answer", actions.BAD_ARGUMENTS),
        ("read", actions.BAD_ARGUMENTS),
        ("searching for the red door", actions.UNKNOWN_COMMAND),
        ("please search: red door", actions.UNKNOWN_COMMAND),
        ("", actions.UNKNOWN_COMMAND),
        ("answer: " + "; ".join(map(str, range(201))), actions.BAD_ARGUMENTS),
        ("answer: " + "x" * 401, actions.BAD_ARGUMENTS),
        (7, actions.UNKNOWN_COMMAND),
    ],
)
def test_text(text, wanted):
    assert parse_text(text, 3) == wanted


def test_commas_part_answers_where_the_corpus_says_so():
    assert parse_text("answer: One, Two", 3) == Answer(("One, Two",))
    assert parse_text("answer: One, Two", 3, comma=True) == Answer(("One", "Two"))


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        ("search", {"query": "red door"}, SEARCHED),
        ("search", {"query": "red door", "k": 10}, Search("red door", 10)),
        ("read", {"article": "abc234"}, Read("abc234")),
        ("answer", {"answers": []}, Answer(())),
        ("answer", {"answers": ["One", "Two"]}, Answer(("One", "Two"))),
        ("search", {"query": "red door", "k": 11}, actions.BAD_ARGUMENTS),
        ("search", {"query": "red door", "k": 0}, actions.BAD_ARGUMENTS),
        ("search", {"query": "red door", "k": True}, actions.BAD_ARGUMENTS),
        ("search", {"query": "red door", "offset": 10}, actions.BAD_ARGUMENTS),
        ("search", {"k": 3}, actions.BAD_ARGUMENTS),
        ("search", {"query": " "}, actions.EMPTY_QUERY),
        ("read", {"article": 3}, actions.BAD_ARGUMENTS),
        ("read", {"article": "x", "more": 1}, actions.BAD_ARGUMENTS),
        ("read", {"article": "x" * 401}, actions.BAD_ARGUMENTS),
        ("answer", {"answers": "One"}, actions.BAD_ARGUMENTS),
        ("answer", {"answers": [1]}, actions.BAD_ARGUMENTS),
        ("answer", {}, actions.BAD_ARGUMENTS),
        ("answer", [], actions.BAD_ARGUMENTS),
        ("fly", {}, actions.UNKNOWN_TOOL),
        (None, {}, actions.UNKNOWN_TOOL),
    ],
)
def test_calls(tool, arguments, wanted):
    assert parse_call(tool, arguments) == wanted


def test_queries_are_cleaned_and_cut():
    assert clean_query("\uff32ed\x00\tdoor\u200b  !") == "Red door !"
    assert len(clean_query("word " * 10_000)) <= actions.MAX_QUERY
