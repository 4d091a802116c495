"""What is measured of an environment: what its card says, else every player on every split that can be played here.

Sealed splits cannot: their scenarios are made from a secret that nobody here has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs_scoring.cards import Card, Measure

MOST_EPISODES = 500
"""Of a split, where no card says how many."""

ENDLESS_EPISODES = 200
RUNG_EPISODES = 100
QUICK_EPISODES = 16

_ALWAYS = ("random", "noop")
_RUNGS = "difficulty"


@dataclass(frozen=True, slots=True)
class Row:
    """One player on one split with one choice of options."""

    player: str
    split: str
    episodes: int
    options: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """In words."""
        chosen = "".join(f", {name} = {value}" for name, value in self.options.items())
        return f"{self.player} on {self.split}{chosen}"


def rows(
    spec: EnvSpec,
    splits: Mapping[str, SplitSpec],
    card: Card | None,
    *,
    players: Collection[str] = (),
    only: Collection[str] = (),
    episodes: int | None = None,
    data: bool = False,
) -> list[Row]:
    """Return what is to be measured.

    Args:
        spec: The environment.
        splits: Its splits, those of its data included where it has some.
        card: Its card, where it has one.
        players: Only these, where there are some.
        only: Only these splits, where there are some.
        episodes: At most so many a row.
        data: Whether the field's own files are at hand.

    Raises:
        ConfigError: A split that is not there, or nothing is left.
    """
    measures = card.measure if card is not None and card.measure else tuple(_usual(spec, splits))
    found = [
        Row(player, split, min(count, episodes or count), options)
        for measure in measures
        if data or not measure.data
        for split, count in _counts(measure, splits)
        for player, options in product(measure.players, _choices(measure.options))
        if (not players or player in players) and (not only or split in only)
    ]
    if not found:
        raise ConfigError(f"there is nothing to measure of {spec.id}", fix="leave out --player and --split")
    return list({(row.player, row.split, row.episodes, repr(row.options)): row for row in found}.values())


def _usual(spec: EnvSpec, splits: Mapping[str, SplitSpec]) -> Iterator[Measure]:
    players = tuple(dict.fromkeys([*spec.players, *_ALWAYS]))
    sizes = {
        name: ENDLESS_EPISODES if split.size is None else min(split.size, MOST_EPISODES)
        for name, split in splits.items()
        if not split.sealed and split.size != 0
    }
    yield Measure(players, sizes)
    rungs = next((option for option in spec.options if option.name == _RUNGS), None)
    main = spec.eval_split or spec.default_split
    if rungs is not None and main in sizes:
        each: list[JSON] = [choice for choice in rungs.choices if choice != rungs.default]
        yield Measure(players, {main: min(sizes[main], RUNG_EPISODES)}, {_RUNGS: each})


def _counts(measure: Measure, splits: Mapping[str, SplitSpec]) -> Iterable[tuple[str, int]]:
    for name, count in measure.splits.items():
        split = splits.get(name)
        if split is None:
            known = ", ".join(splits)
            raise ConfigError(f"the card measures the split {name!r}, which is not there", fix=f"its splits: {known}")
        yield name, count if split.size is None else min(count, split.size)


def _choices(options: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    listed = [value if isinstance(value, list) else [value] for value in options.values()]
    for values in product(*listed):
        yield dict(zip(options, values, strict=True))
