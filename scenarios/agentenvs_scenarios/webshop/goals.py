"""Goals of loaded data: human ones, synthetic ones, and ones that a file has frozen.

Their order is the original's, which shuffles with a fixed seed. Bounds, which the original draws without one, are drawn
here from a stream named by product and goal, so that every process asks the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product as combinations
from pathlib import Path
from typing import Final

from agentenvs.core.canon import digest
from agentenvs.core.errors import DataError
from agentenvs.core.streams import Stream
from agentenvs_scenarios.webshop.fields import Form, reading, text, texts, wrong
from agentenvs_scenarios.webshop.files import find, read_rows, unpacked
from agentenvs_scenarios.webshop.load import LoadedShop
from agentenvs_scenarios.webshop.mersenne import Twister
from agentenvs_scenarios.webshop.model import NO_BOUND, Goal, Product, Want

SHUFFLE_SEED: Final = 233
TEST: Final = 500
DEV: Final = 1500
"""The first goals are the test set, the next the development set, the rest is to train on."""

_STEP: Final = 1000
_LAST: Final = 99_000
_BOUNDS: Final = b"agentenvs/webshop/bounds"


@dataclass(frozen=True, slots=True)
class GoalSplit:
    """Goals under one name."""

    name: str
    description: str
    goals: tuple[Goal, ...]

    @property
    def panel(self) -> str:
        """SHA-256 over sentences and products, in order."""
        return digest([[goal.sentence, goal.wants[0].product] for goal in self.goals])


def goal_splits(folder: Path, shop: LoadedShop) -> dict[str, GoalSplit]:
    """Return the splits of a data folder by name.

    ``human`` and ``synthetic`` hold every goal in the original's order; of each that is long enough there are the
    original's parts, ``human_test``, ``human_dev`` and ``human_train``. A file of frozen goals is a split by its name.

    Raises:
        DataError: A file of goals cannot be used.
    """
    found: dict[str, GoalSplit] = {}
    for kind, made in (("human", human_goals(shop)), ("synthetic", synthetic_goals(shop))):
        goals = list(made)
        Twister(SHUFFLE_SEED).shuffle(goals)
        for split in _parts(kind, goals):
            found[split.name] = split
    for path in find(folder).goals:
        name = path.name.split(".")[0].replace("webshop_instructions", "goals").replace("-", "_")
        frozen = tuple(_frozen(unpacked(row), path, number, shop) for number, row in enumerate(read_rows(path)))
        if frozen:
            found[name] = GoalSplit(name, f"goals of the file {path.name}", frozen)
    if not found:
        raise DataError(f"no goals are in {folder}", fix="add items_ins_v2*.json or items_human_ins*.json")
    return found


def _parts(kind: str, goals: list[Goal]) -> Iterator[GoalSplit]:
    if goals:
        yield GoalSplit(kind, f"the original's {kind} goals, in its order", tuple(goals))
    if len(goals) > DEV:
        for name, part in (("test", goals[:TEST]), ("dev", goals[TEST:DEV]), ("train", goals[DEV:])):
            yield GoalSplit(f"{kind}_{name}", f"the original's {name} part of its {kind} goals", tuple(part))


def human_goals(shop: LoadedShop) -> Iterator[Goal]:
    """Yield a goal for each instruction that people wrote and that names an attribute, in order of the products."""
    for number in range(len(shop)):
        product = shop.product(number)
        for at, written in enumerate(shop.notes[product.id].human):
            if written.attributes:
                bound, words = _bound(product, f"human/{at}")
                options = tuple(("", value) for value in written.options)
                sentence = written.text.strip(".") + words
                yield _goal(product, sentence, written.attributes, options, bound, pairs=False)


def synthetic_goals(shop: LoadedShop) -> Iterator[Goal]:
    """Yield a goal for each combination of options of each product that has an instruction."""
    for number in range(len(shop)):
        product = shop.product(number)
        notes = shop.notes[product.id]
        if not notes.instruction:
            continue
        bound, words = _bound(product, "synthetic")
        groups = sorted(product.options, key=lambda group: group.name)
        for values in combinations(*(group.values for group in groups)):
            options = tuple((group.name, value) for group, value in zip(groups, values, strict=True))
            named = ", and ".join(f"{name}: {value}" for name, value in options)
            sentence = f"{notes.instruction}{' with ' if named else ''}{named}{words}"
            yield _goal(product, sentence, notes.attributes, options, bound, pairs=True)


def mended(goal: Goal, shop: LoadedShop) -> Goal:
    """Return a goal that its own product satisfies, where the original's cannot be: for exact grading.

    Options that are sold out are not asked for; where the values chosen have a price of their own above the bound, the
    bound is the next multiple of ten dollars, in the sentence too.
    """
    want = goal.wants[0]
    product = shop.product(shop.index(want.product))
    options = tuple(pair for pair in want.options if _group(product, *pair) is not None)
    chosen = {_group(product, *pair) or "": pair[1] for pair in options}
    price = product.price(chosen)[1]
    if price <= want.bound and options == want.options:
        return goal
    bound = want.bound if price <= want.bound else -(-(price + 1) // _STEP) * _STEP
    sentence = goal.sentence.replace(_clause(want.bound), _clause(bound))
    return replace(goal, sentence=sentence, wants=(replace(want, options=options, bound=bound),))


def _group(product: Product, name: str, value: str) -> str | None:
    """Return the option that has a value to be had; None where none has."""
    for group in product.options:
        if name in ("", group.name) and value in group.values and group.stock[group.values.index(value)] != 0:
            return group.name
    return None


def _clause(bound: int) -> str:
    return f", and price lower than {bound // 100}.{bound % 100:02d} dollars"


def _bound(product: Product, name: str) -> tuple[int, str]:
    """Return a bound in cents and its words: two of the next four multiples of ten dollars, the larger."""
    above = [cents for cents in range(_STEP, _LAST + 1, _STEP) if cents > product.charged][:4]
    if len(above) < 2:
        return NO_BOUND, ""
    bound = max(Stream(_BOUNDS, f"{product.id}/{name}").sample(above, 2))
    return bound, _clause(bound)


def _goal(
    product: Product,
    sentence: str,
    attributes: tuple[str, ...],
    options: tuple[tuple[str, str], ...],
    bound: int,
    *,
    pairs: bool,
) -> Goal:
    want = Want(product.id, product.title, product.query, product.path, attributes, options, bound, pairs)
    return Goal(sentence, (want,), kind="synthetic" if pairs else "human")


def _frozen(row: Form, path: Path, number: int, shop: LoadedShop) -> Goal:
    with reading(path, f"goal {number}"):
        asin = text(row, "asin")
        if shop.index(asin) < 0:
            raise ValueError(f"there is no product {asin!a:.20}")
        options = row.get("goal_options")
        pairs = isinstance(options, Mapping)
        chosen = (
            tuple((name, text(options, name)) for name in options)
            if isinstance(options, Mapping)
            else tuple(("", value) for value in texts(row, "goal_options"))
        )
        bound = row.get("price_upper")
        if isinstance(bound, bool) or not isinstance(bound, int | float) or bound < 0:
            raise wrong("price_upper", bound, "a price") if bound is not None else ValueError("price_upper is missing")
        product = shop.product(shop.index(asin))
        cents = NO_BOUND if bound > NO_BOUND else min(round(bound * 100), NO_BOUND)
        sentence, attributes = text(row, "instruction_text"), texts(row, "attributes")
        return _goal(product, sentence, attributes, chosen, cents, pairs=pairs)
