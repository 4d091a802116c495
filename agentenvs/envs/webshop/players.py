"""Yardsticks: who plays the shop so that a model's score means something.

``oracle`` sees the goal's product and goes straight to it. ``shopper`` sees what every player sees: it searches for the
sentence, looks at the first few products, clicks the options that the sentence names and buys what fits best. ``first``
buys the first hit, ``first-options`` chooses its options before. ``random`` draws among the admissible commands, and
``noop`` says something that does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentenvs.core.anchors import Idle, Random
from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.envs.webshop.prove import title_query
from agentenvs_scenarios.webshop.model import Scenario, Want

_IDLE = "click[]"
_BUY = "click[buy now]"
_NEXT = "click[next >]"
_PREV = "click[< prev]"
_MOST_PAGES = 6
_LOOKED_AT = 4
_BUTTONS = frozenset(
    ["back to search", "< prev", "next >", "buy now", "description", "features", "reviews", "attributes", "search"]
)
_PRODUCT = re.compile(r"click\[(b[0-9a-z]{9}|[0-9]{9}[0-9x])\]")
_PRICE = re.compile(r"\$(\d+(?:\.\d+)?)")
_WORD = re.compile(r"[a-z0-9.]+")

Script = Iterator[Any]


class Scripted:
    """Plays a script that is written as a generator: it yields actions and is sent what was seen."""

    wants: ClassVar[Mapping[str, Any]] = {"admissible": True}

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Note the sentence."""
        self._sentence = task.instruction.lower()
        self._seen: Observation | None = None
        self._script = self._play()

    def act(self, observation: Observation) -> Any:
        """Return the next action of the script; nothing where it is over.

        Raises:
            PolicyError: The admissible commands are not listed.
        """
        if observation.admissible is None:
            raise PolicyError(
                "this player needs the admissible commands",
                why="it reads them instead of the page's words, which differ from profile to profile",
                fix="make the environment with the option admissible=true",
            )
        self._seen = observation
        return next(self._script, _IDLE)

    def _play(self) -> Script:
        raise NotImplementedError

    def _text(self) -> str:
        return "" if self._seen is None else self._seen.text

    def _legal(self) -> tuple[str, ...]:
        return () if self._seen is None or self._seen.admissible is None else self._seen.admissible

    def _products(self) -> list[str]:
        return [action for action in self._legal() if _PRODUCT.fullmatch(action)]

    def _options(self) -> list[str]:
        """Return clicks on the values of this page that the sentence names, longest first among overlapping ones."""
        values = [action[6:-1] for action in self._legal() if action[6:-1] not in _BUTTONS]
        left, found = f" {' '.join(_WORD.findall(self._sentence))} ", []
        for value in sorted(values, key=lambda item: (-len(item), item)):
            words = f" {' '.join(_WORD.findall(value))} "
            if words.strip() and words in left:
                left = left.replace(words, " ")
                found.append(f"click[{value}]")
        return found

    def _query(self) -> str:
        return f"search[{title_query(self._sentence)}]"


class First(Scripted):
    """Buys the first hit of a search for the sentence.

    Args:
        options: Whether it clicks the options that the sentence names before.
    """

    def __init__(self, options: bool) -> None:
        self._chooses = options

    def _play(self) -> Script:
        while True:
            yield self._query()
            products = self._products()
            if not products:
                return
            yield products[0]
            if self._chooses:
                yield from self._options()
            yield _BUY


class Shopper(Scripted):
    """Looks at the first few hits and buys what fits the sentence best, as far as the pages show."""

    def _play(self) -> Script:
        bought: set[str] = set()
        while True:
            yield self._query()
            best: tuple[int, str] | None = None
            for product in [name for name in self._products() if name not in bought][:_LOOKED_AT]:
                yield product
                fit = self._fit()
                if best is None or fit > best[0]:
                    best = fit, product
                yield _PREV
            if best is None:
                return
            yield best[1]
            bought.add(best[1])
            yield from self._options()
            yield _BUY

    def _fit(self) -> int:
        """Return how well the page fits: options named, a price within the bound, words in common."""
        page = self._text().lower().replace(self._sentence, " ")
        asked = [float(price) for price in _PRICE.findall(self._sentence)]
        prices = [float(price) for price in _PRICE.findall(page)]
        cheap = not asked or not prices or min(prices) <= asked[-1]
        common = len(set(_WORD.findall(page)) & set(_WORD.findall(self._sentence)))
        return 100 * len(self._options()) + 50 * cheap + common


class Oracle(Privileged):
    """Searches for the title of the goal's product, opens it, chooses what is asked for, and buys."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Forget the episode before."""
        self._seen: Observation | None = None
        self._native = task.options.get("profile") == "native"

    def reveal(self, scenario: Scenario) -> None:
        """Write the script."""
        self._script = self._play(scenario)

    def act(self, observation: Observation) -> Any:
        """Return the next action."""
        self._seen = observation
        return next(self._script, _IDLE)

    def _play(self, scenario: Scenario) -> Script:
        for want in scenario.goal.wants:
            yield f"search[{title_query(want.title)}]"
            for _ in range(_MOST_PAGES):
                if self._seen is not None and want.product in self._seen.text:
                    break
                yield _NEXT
            yield f"click[{want.product.lower()}]"
            for name, value in want.options:
                yield _choose(scenario, want, name, value) if self._native else click(value)
            yield _BUY


def _choose(scenario: Scenario, want: Want, name: str, value: str) -> Any:
    """Return a click, or a tool call that says which option is meant where two have the value."""
    options = scenario.shop.product(scenario.shop.index(want.product)).options
    having = [group.name for group in options if value in group.values]
    if len(having) < 2:
        return click(value)
    return {"tool": "choose_option", "arguments": {"name": name or having[0], "value": value}}


def click(label: str) -> Any:
    """Return a click as text, or as a tool call where brackets in the label would not come through."""
    if "[" in label or "]" in label:
        return {"tool": "click", "arguments": {"label": label}}
    return f"click[{label}]"


def oracle() -> Policy:
    """Return a player that sees the goal and goes straight to it."""
    return Oracle()


def shopper() -> Policy:
    """Return the player that looks around with open eyes."""
    return Shopper()


def first() -> Policy:
    """Return the player that buys the first hit."""
    return First(options=False)


def first_options() -> Policy:
    """Return the player that buys the first hit with the options the sentence names."""
    return First(options=True)


def random() -> Policy:
    """Return the player that draws among the admissible commands."""
    return Random()


def noop() -> Policy:
    """Return the player that does nothing."""
    return Idle(_IDLE)
