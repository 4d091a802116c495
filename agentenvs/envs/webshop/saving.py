"""A state as JSON and back; what is no state of the scenario is refused."""

from __future__ import annotations

from typing import Any

from agentenvs.core.canon import JSON
from agentenvs.envs.webshop.rules import DONE, ITEM, MOST_RESULTS, PAGE_SIZE, RESULTS, START, SUB, State

_MOST_TEXT = 1 << 17


def save(state: State) -> JSON:
    """Return a state as JSON."""
    return {
        "page": state.page,
        "query": state.query,
        "number": state.number,
        "product": state.product,
        "chosen": [list(pair) for pair in state.chosen.items()],
        "sub": state.sub,
        "visited": sorted(state.visited),
        "results": [state.results[0], list(state.results[1])],
        "bought": [[index, [list(pair) for pair in chosen]] for index, chosen in state.bought],
    }


def load(state: State, form: JSON) -> None:
    """Set a state to what :func:`save` returned.

    Raises:
        ValueError: It is no state of this scenario.
        KeyError: Something is missing.
        TypeError: Something has the wrong type.
    """
    size = len(state.scenario.shop)
    _require(set(form) == set(save(state)), "fields")
    state.page = _integer(form["page"], START, DONE)
    state.query = _string(form["query"])
    state.number = _integer(form["number"], -(1 << 31), 1 << 31)
    state.sub = _string(form["sub"])
    stands = state.page in (ITEM, SUB)
    state.product = _integer(form["product"], 0 if stands else -1, size - 1)
    state.visited = frozenset(_integer(index, 0, size - 1) for index in form["visited"])
    _require(sorted(state.visited) == form["visited"], "products looked at")
    total, listed = form["results"]
    state.results = _integer(total, 0, size), tuple(_integer(index, 0, size - 1) for index in listed)
    _require(len(state.results[1]) <= max(PAGE_SIZE, MOST_RESULTS), "results")
    state.chosen = _choice(state, state.product, form["chosen"]) if stands else {}
    _require(stands or form["chosen"] == [] or state.page in (RESULTS, DONE), "choices")
    if not stands:
        state.chosen = {_string(name): _string(value) for name, value in form["chosen"]}
    state.bought = tuple(
        (_integer(index, 0, size - 1), tuple(_choice(state, index, chosen).items())) for index, chosen in form["bought"]
    )
    _require((state.page == DONE) == (len(state.bought) >= len(state.scenario.goal.wants)), "purchases")


def _choice(state: State, index: int, form: Any) -> dict[str, str]:
    chosen = {_string(name): _string(value) for name, value in form}
    values = {group.name: group.values for group in state.scenario.shop.product(index).options}
    _require(len(chosen) == len(form) and all(value in values[name] for name, value in chosen.items()), "choices")
    return chosen


def _integer(value: Any, least: int, most: int) -> int:
    _require(type(value) is int and least <= value <= most, f"the number {value!r:.20}")
    return int(value)


def _string(value: Any) -> str:
    _require(isinstance(value, str) and len(value) <= _MOST_TEXT, "a text")
    return str(value)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"this is no state of a web shop: {what}")
