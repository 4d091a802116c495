"""From what a player says to one typed command: a line of text, tags, or a tool call.

Three ways to say the same three things, understood side by side:

    search: QUERY           <search>QUERY</search>          {"tool": "search", "arguments": {"query": …, "k": 5}}
    read: ARTICLE                                           {"tool": "read", "arguments": {"article": …}}
    answer: ONE; ANOTHER    <answer>ONE; ANOTHER</answer>   {"tool": "answer", "arguments": {"answers": […]}}

Tags are those of Search-R1 and what was built on it: the first one that is closed counts, thoughts and everything
around it do not. What does not parse becomes an error code, a plain string, and nothing of it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from unicodedata import ucd_3_2_0 as ucd

from agentenvs.core.spec import ToolSpec
from agentenvs_scenarios.searchworld.answers import MOST_GIVEN, split

UNKNOWN_COMMAND: Final = "unknown_command"
UNKNOWN_TOOL: Final = "unknown_tool"
BAD_ARGUMENTS: Final = "bad_arguments"
EMPTY_QUERY: Final = "empty_query"

MAX_QUERY: Final = 200
"""Characters of a query that are looked at."""
MOST_RESULTS: Final = 10
"""Articles one search returns at most; there is no second page."""
USUAL_RESULTS: Final = 5
MAX_ANSWER: Final = 400
"""Characters of one answer."""
MAX_NAME: Final = 400
"""Characters of an article's id or title."""


class Search(NamedTuple):
    """Look for articles."""

    query: str
    k: int
    tags: bool = False
    """Whether it was said in tags, and is answered so: with whole articles."""


class Read(NamedTuple):
    """Open an article."""

    article: str


class Answer(NamedTuple):
    """Give the answer, which ends the episode."""

    answers: tuple[str, ...]


Command: TypeAlias = Search | Read | Answer

_THOUGHTS: Final = re.compile(r"<think>.*?</think>", re.DOTALL)
_TAGS: Final = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_LINE: Final = re.compile(r"(search|read|answer)\b[ \t]*:?[ \t]*(.*)", re.DOTALL | re.IGNORECASE)


def parse_text(text: object, results: int, comma: bool = False) -> Command | str:
    """Return the command a text means, or an error code.

    Args:
        text: Anything; only a string can mean something.
        results: Articles that a search in tags returns.
        comma: Whether commas part answers.
    """
    if not isinstance(text, str):
        return UNKNOWN_COMMAND
    if "<" in text and (tag := _TAGS.search(_THOUGHTS.sub("", text))):
        return _said(tag[2], comma) if tag[1] == "answer" else _search(tag[2], results, tags=True)
    line = _LINE.fullmatch(text.strip())
    if line is None:
        return UNKNOWN_COMMAND
    verb, rest = line[1].lower(), line[2].strip()
    if verb == "search":
        return _search(rest, USUAL_RESULTS)
    return _read(rest) if verb == "read" else _said(rest, comma)


def parse_call(tool: object, arguments: object) -> Command | str:
    """Return the command a tool call means, or an error code."""
    if tool not in ("search", "read", "answer"):
        return UNKNOWN_TOOL
    if not isinstance(arguments, Mapping):
        return BAD_ARGUMENTS
    if tool == "search":
        return _called_search(arguments)
    if tool == "read":
        article = arguments.get("article")
        return _read(article) if len(arguments) == 1 and isinstance(article, str) else BAD_ARGUMENTS
    answers = arguments.get("answers")
    if len(arguments) != 1 or not isinstance(answers, list | tuple):
        return BAD_ARGUMENTS
    return _answer(list(answers))


def clean_query(text: str) -> str:
    """Return a query as the engine reads it: NFKC, what is no visible character as a blank, cut."""
    plain = "".join(" " if ucd.category(sign)[0] in "CZ" else sign for sign in text[: 8 * MAX_QUERY])
    return " ".join(ucd.normalize("NFKC", plain).split())[:MAX_QUERY].rstrip()


def _called_search(arguments: Mapping[str, Any]) -> Command | str:
    query, k = arguments.get("query"), arguments.get("k", USUAL_RESULTS)
    known = set(arguments) <= {"query", "k"}
    if not known or not isinstance(query, str) or type(k) is not int or not 1 <= k <= MOST_RESULTS:
        return BAD_ARGUMENTS
    return _search(query, k)


def _search(text: str, k: int, tags: bool = False) -> Command | str:
    query = clean_query(text)
    return Search(query, k, tags) if query else EMPTY_QUERY


def _read(text: str) -> Command | str:
    name = text.strip()
    return Read(name) if 0 < len(name) <= MAX_NAME else BAD_ARGUMENTS


def _said(text: str, comma: bool) -> Command | str:
    """Return the answer in a text; who means that there is none says so."""
    answers = split(text, comma)
    return _answer(answers) if answers else BAD_ARGUMENTS


def _answer(answers: list[Any]) -> Command | str:
    sound = len(answers) <= MOST_GIVEN and all(isinstance(text, str) and len(text) <= MAX_ANSWER for text in answers)
    return Answer(tuple(text.strip() for text in answers)) if sound else BAD_ARGUMENTS


def _tool(name: str, description: str, properties: Mapping[str, Any], required: list[str], *examples: Any) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, examples)


TOOLS: Final = (
    _tool(
        "search",
        "Search the articles for words; returns titles, ids and how each begins.",
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "pattern": r"[^\s\x00-\x1f\x7f]",
                "description": f"words to look for; what is beyond {MAX_QUERY} characters is not looked at",
            },
            "k": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_RESULTS,
                "description": f"how many articles; {USUAL_RESULTS} by default",
            },
        },
        ["query"],
        {"query": "the birthplace of somebody", "k": 5},
    ),
    _tool(
        "read",
        "Open an article.",
        {"article": {"type": "string", "description": "its id, as a search gives it, or its exact title"}},
        ["article"],
        {"article": "abc234"},
    ),
    _tool(
        "answer",
        "Give the final answer, which ends the episode: every answer there is, and no other; none if there is none.",
        {
            "answers": {
                "type": "array",
                "items": {"type": "string", "maxLength": MAX_ANSWER},
                "maxItems": MOST_GIVEN,
                "description": "names, values or a number, as the articles write them; in any order",
            }
        },
        ["answers"],
        {"answers": ["Somebody", "Somebody else"]},
    ),
)
