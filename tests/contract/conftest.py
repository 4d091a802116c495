"""The environments the contract is tested on: three fixtures, household, search worlds and web shop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.core.task import TaskRef
from tests.envs.fixtures import register_fixtures

register_fixtures()


class Case(NamedTuple):
    name: str
    env: str
    options: dict[str, Any]
    split: str
    walk: list[Any]
    """Some actions that are played in order, valid ones and junk."""

    def make(self, **more: Any) -> Environment:
        return registry.make(self.env, **self.options, **more)

    def ref(self, index: int = 3) -> TaskRef:
        return TaskRef(self.split, index)


_HOUSE = [
    "look",
    "go to countertop 1",
    "nonsense",
    {"tool": "go_to", "arguments": {"receptacle": "fridge 1"}},
    "open fridge 1",
    "inventory",
    {"message": "hello"},
    "go to drawer 1",
    "open drawer 1",
    "close drawer 1",
]
_LEDGER = [
    [{"tool": "next_invoice"}, {"tool": "balance", "arguments": {"account": "1000"}}],
    {"tool": "amend", "arguments": {"entry": 5, "note": "seen"}},
    {"tool": "post", "arguments": {"invoice": 0, "debit": "1000", "credit": "1010", "cents": 5}},
    {"tool": "post", "arguments": {"invoice": 0, "debit": "1000", "credit": "1010", "cents": 5}},
    "text where none is taken",
    [{"tool": "balance", "arguments": {"account": "1000"}}] * 9,
    [{"tool": "fly"}, {"tool": "amend", "arguments": {"entry": 6, "note": "Zürich"}}],
]
_SLOW = [
    {"tool": "add", "arguments": {"count": 1}},
    {"tool": "nap", "arguments": {"milliseconds": 1}},
    {"tool": "crash"},
    {"tool": "peek"},
    {"tool": "explode"},
    {"tool": "add", "arguments": {"count": 1}},
]
_CLERK = [
    {"message": "Nice weather."},
    {"message": ""},
    {"message": "Which order?"},
    {"tool": "refund", "arguments": {"order": 5}},
    {"tool": "refund", "arguments": {"order": "A-1"}},
    {"message": "Hm."},
]

_SEARCH = [
    {"tool": "search", "arguments": {"query": "who was born in the year 400", "k": 2}},
    "search: laurels and banners",
    "nonsense",
    "<think>Hm.</think><search>the purse of somebody</search>",
    {"tool": "read", "arguments": {"article": "no such"}},
    {"message": "hello"},
    {"tool": "search", "arguments": {"query": "", "k": 2}},
    "read: ",
]
_SHOP = [
    "search[lamp]",
    "click[next >]",
    "nonsense",
    {"tool": "click", "arguments": {"label": "back to search"}},
    {"tool": "search", "arguments": {"query": "shoes"}},
    {"message": "hello"},
    "click[< prev]",
    "Search[x]",
    {"tool": "buy", "arguments": {}},
    "click[buy now]",
]

CASES = [
    *(
        Case(f"household-{profile}", "household", {"profile": profile, "admissible": True}, "builtin", _HOUSE)
        for profile in ("compat", "original", "native")
    ),
    Case("household-shaped", "household", {"shaping": True, "text": "0.3"}, "builtin", _HOUSE),
    Case("searchworld", "searchworld", {"people": "500"}, "train", _SEARCH),
    Case("searchworld-tags", "searchworld", {"people": "500", "dialect": "tags", "noise": 30}, "train", _SEARCH),
    *(
        Case(
            f"webshop-{profile}", "webshop", {"profile": profile, "admissible": True, "products": 1000}, "train", _SHOP
        )
        for profile in ("compat", "original", "native")
    ),
    Case("ledger", "ledger", {}, "train", _LEDGER),
    Case("slow_tool", "slow_tool", {}, "train", _SLOW),
    Case("clerk", "clerk", {}, "train", _CLERK),
]


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def make(case: Case) -> Iterator[Callable[..., Environment]]:
    made: list[Environment] = []

    def one(**more: Any) -> Environment:
        made.append(case.make(**more))
        return made[-1]

    yield one
    for env in made:
        env.close()
