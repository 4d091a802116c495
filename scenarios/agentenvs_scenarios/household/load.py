"""Real game files (``game.tw-pddl``) as scenarios.

A file is JSON with the keys ``pddl_domain``, ``grammar``, ``pddl_problem`` and ``solvable``. The original engine
evaluates Python expressions out of ``grammar``; here a file is data: the problem is read as s-expressions, and of the
grammar only the task sentence and the verb for placing are looked up. Names, numbers and order follow the original:
within a class the internal ids, sorted ascending, get descending numbers, and every list is in id order.

Whatever is wrong with a file, it ends in a :class:`~agentenvs.core.errors.DataError` that names it.
"""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from agentenvs.core.errors import DataError
from agentenvs_scenarios.household import pddl, sentences
from agentenvs_scenarios.household.model import FLAGS, Goal, Receptacle, Scenario, TaskType, TextVersion, Thing, check

GAME_FILE: Final = "game.tw-pddl"
MAX_BYTES: Final = 2 * 1024 * 1024
"""Real files have 50 to 150 KB."""

_SENTENCE = re.compile(r'"Your task is to: ((?:[^"\\\n]|\\.){1,2000})"')
_PLACING: Final[tuple[tuple[TextVersion, str], ...]] = (("0.4", "move {o} to {r}"), ("0.3", "put {o} in/on {r}"))
_FLAG_OF: Final = {flag: flag for flag in FLAGS[:-1]} | {"isreceptacleobject": "container"}
_STATE_OF: Final = {
    "isclean": "clean",
    "ishot": "hot",
    "iscool": "cool",
    "issliced": "sliced",
    "istoggled": "toggled",
}

_PLACED: Final = Counter({"inreceptacle": 1, "objecttype": 1, "receptacletype": 1})
_GOALS: Final[dict[TaskType, Counter[str]]] = {
    "pick_and_place_simple": _PLACED,
    "pick_clean_then_place_in_recep": _PLACED + Counter(("cleanable", "isclean")),
    "pick_heat_then_place_in_recep": _PLACED + Counter(("heatable", "ishot")),
    "pick_cool_then_place_in_recep": _PLACED + Counter(("coolable", "iscool")),
    "pick_two_obj_and_place": _PLACED + Counter(("inreceptacle", "objecttype", "different")),
    "look_at_obj_in_light": Counter(
        {
            "objecttype": 2,
            "toggleable": 1,
            "istoggled": 1,
            "receptacleatlocation": 1,
            "atlocation": 1,
            "inreceptacle": 1,
            "holds": 1,
        }
    ),
}
"""How often each predicate stands in the goal of each task type."""


def load_game(path: Path, text_version: TextVersion | None = None) -> Scenario:
    """Load a game file.

    Args:
        path: The file.
        text_version: Words to use; those of the file where None.

    Raises:
        DataError: The file cannot be read or is no game.
    """
    return parse_game(read_bytes(path), "/".join(path.parts[-3:-1]) or path.name, str(path), text_version)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a game file.

    Raises:
        DataError: It is not there, no regular file, too large, or unreadable.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(str(path), "it is no regular file")
        if status.st_size > MAX_BYTES:
            raise _unusable(str(path), f"it has {status.st_size} bytes; a game has less than {MAX_BYTES}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise _unusable(str(path), f"it cannot be read ({error})") from error


def parse_game(data: bytes, name: str, source: str, text_version: TextVersion | None = None) -> Scenario:
    """Make a scenario of a game file's bytes.

    Args:
        data: The file's content.
        name: Name of the scenario.
        source: What to call the file in an error.
        text_version: Words to use; those of the file where None.

    Raises:
        DataError: The bytes are no game.
    """
    document = read_document(data, source)
    grammar, problem_text = (_string(document, key, source) for key in ("grammar", "pddl_problem"))
    try:
        problem = pddl.read_problem(problem_text)
        goal = _goal(problem.goal, _sentence(grammar))
        scenario = _scenario(problem, goal, name, text_version or _version(grammar))
    except ValueError as error:
        raise _unusable(source, str(error)) from error
    except (IndexError, KeyError) as error:
        raise _unusable(source, f"a fact has too few arguments or names something undeclared: {error}") from error
    check(scenario)
    return scenario


def read_document(data: bytes, source: str) -> Mapping[str, Any]:
    """Return the JSON object of a game file.

    Raises:
        DataError: The bytes are no JSON object.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unusable(source, f"it is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise _unusable(source, "its JSON is no object")
    return document


def _unusable(source: str, why: str) -> DataError:
    return DataError(
        f"the game file {source} cannot be used",
        why=why,
        fix="download it again, or take it out of the data folder",
    )


def _string(document: Mapping[str, Any], key: str, source: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise _unusable(source, f"it has no text under the key {key!r}")
    return value


def _version(grammar: str) -> TextVersion:
    for version, placing in _PLACING:
        if f'"{placing}"' in grammar:
            return version
    raise ValueError("its grammar has no known command for placing an object")


def _sentence(grammar: str) -> str:
    match = _SENTENCE.search(grammar)
    if match is None:
        raise ValueError("its grammar has no task sentence")
    return str(json.loads(f'"{match[1]}"'))


def _goal(expression: pddl.Expression, sentence: str) -> Goal:
    """Recognise the task type by the shape of the goal, not by a folder's name."""
    atoms = pddl.conjuncts(expression)
    shape = Counter(atom[0] for atom in atoms)
    task = next((task for task, wanted in _GOALS.items() if shape == wanted), None)
    if task is None:
        raise ValueError("its goal is none of the six task types")
    types = {atom[1]: _class(atom[2]) for atom in atoms if atom[0] in ("objecttype", "receptacletype")}
    if task == "look_at_obj_in_light":
        goal = Goal(task, types[_only(atoms, "holds")[2]], types[_only(atoms, "istoggled")[1]], sentence)
    else:
        pairs = {(types[atom[1]], types[atom[2]]) for atom in atoms if atom[0] == "inreceptacle"}
        if len(pairs) != 1:
            raise ValueError("its goal asks for objects of two classes")
        goal = Goal(task, *pairs.pop(), sentence)
    meaning = sentences.read(sentence)
    if meaning is not None and meaning != (goal.task, goal.thing, goal.target):
        raise ValueError(f"its task sentence {sentence!r} does not say what its goal says")
    return goal


def _only(atoms: Iterable[tuple[str, ...]], predicate: str) -> tuple[str, ...]:
    return next(atom for atom in atoms if atom[0] == predicate)


def _class(type_name: str) -> str:
    return type_name.removesuffix("type")


def _numbered(ids: Iterable[str]) -> dict[str, str]:
    """Return id -> name, in id order: within a class the first id gets the highest number."""
    ordered = sorted(ids)
    total = Counter(_prefix(item) for item in ordered)
    names: dict[str, str] = {}
    for item in ordered:
        prefix = _prefix(item)
        names[item] = f"{prefix} {total[prefix]}"
        total[prefix] -= 1
    return names


def _prefix(item: str) -> str:
    """Return the class in an internal id: ``sink_bar_…_bar_sinkbasin`` is a sinkbasin."""
    head, *parts = item.split("_bar_")
    return f"{head}basin" if parts and "basin" in parts[-1] else head


def _scenario(problem: pddl.Problem, goal: Goal, name: str, version: TextVersion) -> Scenario:
    kinds = problem.objects
    places = _numbered(item for item, kind in kinds.items() if kind == "location")
    place_index = {item: index for index, item in enumerate(places)}
    start = problem.facts.get("atlocation", [])
    if len(start) != 1 or problem.facts.get("holds"):
        raise ValueError("the player does not start at one place with empty hands")
    receptacles = _receptacles(problem, place_index)
    things = _things(problem, {item: index for index, item in enumerate(receptacles)}, place_index)
    return Scenario(
        name=name,
        text_version=version,
        places=tuple(places.values()),
        start=place_index[start[0][1]],
        receptacles=tuple(receptacles.values()),
        things=tuple(things),
        accepts=_accepts(problem.facts, receptacles.values(), things),
        goal=goal,
    )


def _receptacles(problem: pddl.Problem, place_index: Mapping[str, int]) -> dict[str, Receptacle]:
    """Return id -> receptacle in id order; one without a place is never listed nor reached, so it is left out."""
    facts = problem.facts
    names = _numbered(item for item, kind in problem.objects.items() if kind == "receptacle")
    classes = {item: _class(kind) for item, kind in facts.get("receptacletype", [])}
    place_of = {item: place_index[place] for item, place in facts.get("receptacleatlocation", [])}
    openable = {fact[0] for fact in facts.get("openable", [])}
    opened = {fact[0] for fact in facts.get("opened", [])}
    return {
        item: Receptacle(name, classes[item], place_of[item], item in openable, item in opened and item in openable)
        for item, name in names.items()
        if item in place_of
    }


def _things(problem: pddl.Problem, receptacle_index: Mapping[str, int], place_index: Mapping[str, int]) -> list[Thing]:
    facts = problem.facts
    names = _numbered(item for item, kind in problem.objects.items() if kind == "object" and "_bar_" in item)
    classes = {item: _class(kind) for item, kind in facts.get("objecttype", [])}
    within = _relation(facts.get("inreceptacle", []), receptacle_index)
    at = _relation(facts.get("objectatlocation", []), place_index)
    flags = _marks(facts, _FLAG_OF)
    states = _marks(facts, _STATE_OF)
    known = [item for item in names if item in classes or item in within or item in at]
    index = {item: number for number, item in enumerate(known)}
    contents = _relation(((outer, inner) for inner, outer in facts.get("inreceptacleobject", [])), index)
    return [
        Thing(
            names[item],
            classes.get(item, ""),
            flags.get(item, ()),
            within.get(item, ()),
            at.get(item, ()),
            states.get(item, ()),
            contents.get(item, ()),
        )
        for item in known
    ]


def _relation(pairs: Iterable[Iterable[str]], index: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return left -> ascending indices of what it is related to; pairs with an unknown right side are left out."""
    found: dict[str, set[int]] = {}
    for left, right in pairs:
        if right in index:
            found.setdefault(left, set()).add(index[right])
    return {left: tuple(sorted(rights)) for left, rights in found.items()}


def _marks(facts: Mapping[str, list[list[str]]], words: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return item -> the words of the one-place facts that hold of it, equal tuples shared."""
    found: dict[str, list[str]] = {}
    for predicate, word in words.items():
        for fact in facts.get(predicate, []):
            marks = found.setdefault(fact[0], [])
            if word not in marks:
                marks.append(word)
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {item: shared.setdefault(tuple(marks), tuple(marks)) for item, marks in found.items()}


def _accepts(
    facts: Mapping[str, list[list[str]]], receptacles: Iterable[Receptacle], things: Iterable[Thing]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return which receptacle class takes which object classes, of those in the room."""
    present = {item.cls for item in receptacles}
    classes = {item.cls for item in things}
    table: dict[str, set[str]] = {}
    for receptacle, thing in facts.get("cancontain", []):
        table.setdefault(_class(receptacle), set()).add(_class(thing))
    rows = ((cls, tuple(sorted(table[cls] & classes))) for cls in sorted(present & table.keys()))
    return tuple(row for row in rows if row[1])
