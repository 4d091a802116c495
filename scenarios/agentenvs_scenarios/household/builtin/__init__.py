"""Twelve hand-made rooms, two of each task type, for a machine without the real games.

A file names the room's receptacles by class and number, which of them share a place (``together``) or do not open
although their class does (``fixed``), and what lies in each as object classes; equal classes are numbered in file
order. ``also`` puts an object into a second receptacle, as real games do; ``apart`` names what lies in none and is
never seen. Abilities and what may be put where come from the tables.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from agentenvs.core.errors import SplitError
from agentenvs_scenarios.household import sentences
from agentenvs_scenarios.household.model import Goal, Receptacle, Scenario, Thing, check
from agentenvs_scenarios.household.tables import Tables, tables

NAMES: Final = (
    "simple-livingroom",
    "simple-bathroom",
    "look-bedroom",
    "look-livingroom",
    "clean-kitchen",
    "clean-bathroom",
    "heat-kitchen-table",
    "heat-kitchen-mug",
    "cool-kitchen-sink",
    "cool-kitchen-bin",
    "two-bedroom",
    "two-kitchen",
)
"""Names of the rooms; an index of the split is a position here."""


@lru_cache(maxsize=len(NAMES))
def builtin(index: int) -> Scenario:
    """Return a hand-made scenario.

    Raises:
        SplitError: There is none of that index.
    """
    if not 0 <= index < len(NAMES):
        raise SplitError(
            f"there is no built-in household {index}", why=f"there are {len(NAMES)}", fix="indices begin at 0"
        )
    name = NAMES[index]
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
    return make(f"builtin/{name}", tomllib.loads(text))


def make(name: str, form: dict[str, Any]) -> Scenario:
    """Return the scenario that a file of this folder describes.

    Args:
        name: Name of the scenario.
        form: The file's content.

    Raises:
        DataError: A name in it stands for nothing.
    """
    receptacles = _receptacles(form)
    index = {receptacle.name: position for position, receptacle in enumerate(receptacles)}
    things = _things(form, receptacles, index)
    asked = form["goal"]
    goal = Goal(
        asked["task"],
        asked["thing"],
        asked["target"],
        sentences.write(asked["task"], asked["thing"], asked["target"], asked["sentence"]),
    )
    places = 1 + max(receptacle.place for receptacle in receptacles)
    scenario = Scenario(
        name=name,
        text_version="0.4",
        places=tuple(f"loc {number}" for number in range(places + 1, 0, -1)),
        start=places,
        receptacles=receptacles,
        things=things,
        accepts=_accepts(tables(), receptacles, things),
        goal=goal,
    )
    check(scenario)
    return scenario


def _receptacles(form: dict[str, Any]) -> tuple[Receptacle, ...]:
    """Return the receptacles in id order; those that stand together share the place of the first of them."""
    counts = form["receptacles"]
    names = [(cls, f"{cls} {number}") for cls in sorted(counts) for number in range(counts[cls], 0, -1)]
    group = {name: tuple(names) for names in form.get("together", []) for name in names}
    places: dict[tuple[str, ...], int] = {}
    openable = tables().openable
    fixed = form.get("fixed", [])
    return tuple(
        Receptacle(
            name, cls, places.setdefault(group.get(name, (name,)), len(places)), cls in openable and name not in fixed
        )
        for cls, name in names
    )


def _things(form: dict[str, Any], receptacles: tuple[Receptacle, ...], index: dict[str, int]) -> tuple[Thing, ...]:
    """Return the objects in id order."""
    lying: list[tuple[str, tuple[int, ...]]]
    lying = [(cls, (index[name],)) for name, classes in form["things"].items() for cls in classes.split(", ")]
    lying += [(cls, ()) for cls in form["apart"].split(", ")]
    also = form.get("also", {})
    count: Counter[str] = Counter()
    things: list[tuple[str, int, Thing]] = []
    for cls, within in lying:
        count[cls] += 1
        name = f"{cls} {count[cls]}"
        if name in also:
            within = tuple(sorted((*within, index[also[name]])))
        at = tuple(sorted({receptacles[item].place for item in within}))[:1]
        things.append((cls, -count[cls], Thing(name, cls, tables().flags(cls), within, at)))
    return tuple(thing for _, _, thing in sorted(things, key=lambda item: item[:2]))


def _accepts(
    known: Tables, receptacles: tuple[Receptacle, ...], things: tuple[Thing, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    classes = sorted({thing.cls for thing in things})
    rows = (
        (cls, tuple(item for item in classes if cls in known.accepts.get(item, ())))
        for cls in sorted({receptacle.cls for receptacle in receptacles})
    )
    return tuple(row for row in rows if row[1])
