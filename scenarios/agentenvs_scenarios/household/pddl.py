"""The little PDDL that a real game file needs: objects, facts and the goal of a problem, and nothing is evaluated.

An s-expression is a string or a list of s-expressions. Depth and size are bounded, and reading is iterative, so that a
hostile file costs no more than its length. Names are lower-cased, since PDDL ignores case.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

Expression: TypeAlias = "str | list[Expression]"

MAX_DEPTH: Final = 64

# A list without lists in it, as nearly all are, is one token.
_TOKEN: Final = re.compile(r"\([^();]*\)|[()]|[^\s();]+|;[^\n]*")


class PddlError(ValueError):
    """The text is no PDDL problem; the message says where it stops making sense."""


class Problem(NamedTuple):
    """What a problem says."""

    objects: dict[str, str]
    """Declared name -> type."""
    facts: dict[str, list[list[str]]]
    """Predicate -> argument lists, in file order."""
    goal: Expression


def read(text: str) -> Expression:
    """Read one s-expression.

    Raises:
        PddlError: Unbalanced, nested too deeply, or more than one expression.
    """
    top: list[Expression] = []
    stack = [top]
    for token in _TOKEN.findall(text.lower()):
        if token == "(":
            if len(stack) > MAX_DEPTH:
                raise PddlError(f"nested deeper than {MAX_DEPTH}")
            inner: list[Expression] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif token == ")":
            if len(stack) == 1:
                raise PddlError("a closing bracket too many")
            stack.pop()
        elif token[0] == "(":
            stack[-1].append([*token[1:-1].split()])
        elif token[0] != ";":
            stack[-1].append(token)
    if len(stack) != 1:
        raise PddlError("a closing bracket is missing: the text is cut off")
    if len(top) != 1:
        raise PddlError(f"{len(top)} expressions instead of one")
    return top[0]


def read_problem(text: str) -> Problem:
    """Read a problem's objects, facts and goal; other sections are passed over.

    Raises:
        PddlError: A section is missing or malformed.
    """
    tree = read(text)
    sections: dict[str, list[Expression]] = {}
    for item in tree if isinstance(tree, list) else ():
        if isinstance(item, list) and item and isinstance(item[0], str):
            sections[item[0]] = item[1:]
    missing = [name for name in (":objects", ":init", ":goal") if name not in sections]
    if missing:
        raise PddlError(f"there is no section {missing[0]}")
    if len(sections[":goal"]) != 1:
        raise PddlError("the goal is not one expression")
    return Problem(_objects(sections[":objects"]), _facts(sections[":init"]), sections[":goal"][0])


def _objects(items: list[Expression]) -> dict[str, str]:
    """Read ``a b - type c - type``."""
    declared: dict[str, str] = {}
    waiting: list[str] = []
    words = iter(items)
    for word in words:
        if not isinstance(word, str):
            raise PddlError("a bracket among the objects")
        if word != "-":
            waiting.append(word)
            continue
        kind = next(words, None)
        if not isinstance(kind, str):
            raise PddlError("an object has no type")
        declared.update(dict.fromkeys(waiting, kind))
        waiting = []
    return declared


def _facts(items: list[Expression]) -> dict[str, list[list[str]]]:
    facts: dict[str, list[list[str]]] = {}
    for item in items:
        if not isinstance(item, list) or not item:
            raise PddlError("a fact is no list")
        head, *rest = item
        words = [word for word in rest if isinstance(word, str)]
        if not isinstance(head, str):
            raise PddlError("a fact has no predicate")
        if len(words) == len(rest):  # others are numeric: (= (distance a b) 3)
            facts.setdefault(head, []).append(words)
    return facts


def conjuncts(goal: Expression) -> set[tuple[str, ...]]:
    """Return the atoms of a goal made of ``and``, ``exists`` and ``not (= a b)`` (as ``("different", a, b)``).

    Raises:
        PddlError: Another connective stands in it.
    """
    atoms: set[tuple[str, ...]] = set()
    todo = [goal]
    while todo:
        item = todo.pop()
        if not isinstance(item, list) or not item or not isinstance(item[0], str):
            raise PddlError("a part of the goal is no list")
        head, rest = item[0], item[1:]
        if head == "and":
            todo.extend(rest)
        elif head == "exists" and len(rest) == 2:
            todo.append(rest[1])
        elif head == "not":
            atoms.add(_difference(rest))
        else:
            words = tuple(word for word in rest if isinstance(word, str))
            if len(words) != len(rest):
                raise PddlError(f"the goal uses {head!r}")
            atoms.add((head, *words))
    return atoms


def _difference(rest: list[Expression]) -> tuple[str, ...]:
    if len(rest) == 1 and isinstance(rest[0], list):
        words = [word for word in rest[0] if isinstance(word, str)]
        if len(words) == len(rest[0]) == 3 and words[0] == "=":
            return ("different", *sorted(words[1:]))
    raise PddlError("the goal negates something")
