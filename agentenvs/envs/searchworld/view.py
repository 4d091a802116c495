"""Words of a search world: what a player reads. No transitions.

Lists of results have one shape whatever was found, so that nothing but their content tells anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentenvs.envs.searchworld import actions, rules
from agentenvs.envs.searchworld.actions import Answer, Read, Search
from agentenvs.envs.searchworld.library import Found, Library
from agentenvs.envs.searchworld.rules import Event, World

_PLAIN: Final = """\
Answer a question by searching a collection of articles.{note}

Question: {question}

In each turn say one of these:
search: WORDS      articles that hold these words, with their ids and how they begin
read: ARTICLE      an article, by its id or its exact title
answer: A; B       your final answer, once: all answers there are and no other; "none" if there is none"""

_TAGS: Final = """\
Answer the question below. Think between <think> and </think> whenever you have learned something new. Where you lack \
knowledge, write a query between <search> and </search>; the best articles come back between <information> and \
</information>. Search as often as you need. When you know enough, write the answer, and nothing but the answer, \
between <answer> and </answer>; several answers are parted by semicolons, and "none" says that there is none.{note} \
Question: {question}"""

_INVENTED: Final = """ \
Nothing you know from elsewhere helps: all names are invented. In an article, "they" and "it" are what its title \
names. A plural in the question may mean one."""

_WHY: Final = {
    actions.UNKNOWN_COMMAND: "say search: WORDS, read: ARTICLE or answer: A; B",
    actions.UNKNOWN_TOOL: "the tools are search, read and answer",
    actions.BAD_ARGUMENTS: "an argument is missing, too long, or of the wrong form",
    actions.EMPTY_QUERY: "the query is empty",
    rules.NO_SUCH_ARTICLE: "there is no article of that id or title",
    rules.NO_SEARCHES_LEFT: "no searches are left; read, or answer",
}
_TAGS_WHY: Final = "write a query between <search> and </search>, or the answer between <answer> and </answer>"

_ROOM: Final = 15_000
"""Characters that the articles of one search in tags share, so that a long one leaves room for the others."""

ANSWERED: Final = "Your answer has been taken."


def opening(question: str, dialect: str, invented: bool) -> str:
    """Return the first observation.

    Args:
        question: The question.
        dialect: ``plain`` or ``tags``.
        invented: Whether the world is a made one.
    """
    wording = _TAGS if dialect == "tags" else _PLAIN
    return wording.format(question=question, note=_INVENTED if invented else "")


def reply(world: World, event: Event, dialect: str) -> str:
    """Return what a player reads of what happened."""
    if event.error is not None:
        return refusal(event.error, dialect)
    command = event.command
    if isinstance(command, Search):
        if command.tags:
            return _information(world.library, event.found)
        return _results(world, command, event.found)
    if isinstance(command, Read):
        return article(world.library, event.opened[0])
    return ANSWERED if isinstance(command, Answer) else ""


def refusal(code: str, dialect: str) -> str:
    """Return what a player reads whose action could not be done."""
    tags = dialect == "tags" and code == actions.UNKNOWN_COMMAND
    return f"Nothing was done: {_TAGS_WHY if tags else _WHY.get(code, code)}."


def article(library: Library, number: int) -> str:
    """Return an article as it is read."""
    return f"{library.title(number)} [{library.id_of(number)}]\n{library.text(number)}"


def _results(world: World, command: Search, found: Sequence[Found]) -> str:
    library = world.library
    lines = [
        f"{place}. [{library.id_of(item.number)}] {library.title(item.number)}: {library.snippet(item.number)}"
        for place, item in enumerate(found, start=1)
    ]
    return "\n".join((*(lines or ("Nothing was found.",)), f"Searches left: {world.searches}."))


def _information(library: Library, found: Sequence[Found]) -> str:
    """Return results as Search-R1's loop puts them into the prompt."""
    room = _ROOM // max(len(found), 1)
    told = "".join(
        f"Doc {place}(Title: {library.title(item.number)}) {_cut(library.text(item.number), room)}\n"
        for place, item in enumerate(found, start=1)
    )
    return f"\n\n<information>{told.strip()}</information>\n\n"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
