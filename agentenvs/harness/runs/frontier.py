"""Accuracy against cost: which runs nobody beats in both, and which of the others only chance may have put behind.

A run is on the frontier where no other is at least as good and at most as dear, and better in one of the two. Of the
others, one that is worse and dearer beyond both intervals is beaten; of the rest these episodes do not say. A run whose
cost is unknown has no place: unknown is not zero. Failed attempts that were played again are not in the cost of an
episode; a run says how many there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Engine

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import DataError
from agentenvs.harness.runs import asking, schema
from agentenvs.harness.runs.asking import Filter
from agentenvs.harness.statistics import Interval, cluster_bootstrap, success_interval

Place = Literal["frontier", "open", "beaten", "unpriced"]


@dataclass(frozen=True, slots=True)
class Point:
    """A run."""

    run: str
    name: str
    """Policy, with the model where there is one."""
    episodes: int
    rate: float
    rate_interval: Interval
    cost: float | None
    """Millionths of a dollar an episode; None where an episode does not know its cost."""
    cost_interval: Interval | None
    place: Place = "unpriced"

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "run": self.run,
            "name": self.name,
            "episodes": self.episodes,
            "success_rate": self.rate,
            "success_interval": list(self.rate_interval),
            "microusd_an_episode": self.cost,
            "microusd_interval": None if self.cost_interval is None else list(self.cost_interval),
            "place": self.place,
        }


def frontier(engine: Engine, wanted: Filter) -> list[Point]:
    """Return the runs with their places, the cheapest first, those without a cost last.

    Raises:
        DataError: There are no such runs, or they did not play the same scenarios of the same world.
        ConfigError: A filter that makes no sense.
    """
    runs = asking.listed(engine, wanted)
    if not runs:
        raise DataError("there are no such runs in the index", fix="agentenvs runs ls shows what there is")
    read = [_rows(engine, run) for run in runs]
    _must_be_alike(runs, read)
    return placed([_point(run, rows) for run, rows in zip(runs, read, strict=True)])


def placed(points: Iterable[Point]) -> list[Point]:
    """Return points in order of cost, each with its place among them."""
    ordered = sorted(points, key=lambda point: (point.cost is None, point.cost or 0.0, -point.rate, point.run))
    priced = [point for point in ordered if point.cost is not None]
    return [_with_place(point, _place(point, priced)) for point in ordered]


def _with_place(point: Point, place: Place) -> Point:
    return Point(**{**{name: getattr(point, name) for name in Point.__slots__}, "place": place})


def _place(point: Point, others: Sequence[Point]) -> Place:
    if point.cost is None:
        return "unpriced"
    if any(_surely_beats(other, point) for other in others):
        return "beaten"
    return "open" if any(_beats(other, point) for other in others) else "frontier"


def _beats(one: Point, other: Point) -> bool:
    if one.cost is None or other.cost is None or one is other:
        return False
    no_worse = one.rate >= other.rate and one.cost <= other.cost
    return no_worse and (one.rate > other.rate or one.cost < other.cost)


def _surely_beats(one: Point, other: Point) -> bool:
    if one.cost_interval is None or other.cost_interval is None:
        return False
    return one.rate_interval.low > other.rate_interval.high and one.cost_interval.high < other.cost_interval.low


_Row = tuple[str, int, str | None, bool, int | None]


def _rows(engine: Engine, run: dict[str, JSON]) -> list[_Row]:
    of = schema.episodes.c
    asked = sa.select(of.split, of.index, of.scenario_digest, of.success, of.cost_microusd)
    with engine.connect() as connection:
        found = connection.execute(asked.where(of.run == run["no"]).order_by(of.number))
        return [(row[0], row[1], row[2], row[3], row[4]) for row in found]


def _point(run: dict[str, JSON], rows: Sequence[_Row]) -> Point:
    """Return a run's point; scenarios are the clusters of its intervals."""
    won: dict[tuple[str, int], int] = {}
    spent: dict[tuple[str, int], int] = {}
    times: dict[tuple[str, int], int] = {}
    for split, index, _, success, cost in rows:
        key = (split, index)
        times[key] = times.get(key, 0) + 1
        won[key] = won.get(key, 0) + success
        spent[key] = spent.get(key, 0) + (cost or 0)
    count, wins = len(rows), sum(won.values())
    weights = list(times.values())
    key_bytes = run["id"].encode()
    attempts = list(zip(won.values(), weights, strict=True))
    rate = success_interval(attempts, key_bytes, purpose="frontier-rate").interval
    priced = count > 0 and all(row[4] is not None for row in rows)
    spending = cluster_bootstrap(list(spent.values()), weights, key_bytes, purpose="frontier-cost") if priced else None
    return Point(
        run=run["id"],
        name=f"{run['policy']} {run['model']}" if run["model"] else run["policy"],
        episodes=count,
        rate=wins / count if count else 0.0,
        rate_interval=rate,
        cost=sum(spent.values()) / count if priced else None,
        cost_interval=None if spending is None else spending.interval,
    )


def _must_be_alike(runs: Sequence[dict[str, JSON]], read: Sequence[Sequence[_Row]]) -> None:
    """Refuse runs that cannot stand in one picture.

    Raises:
        DataError: They differ; the message says in what.
    """
    first = _played(runs[0], read[0])
    for run, rows in zip(runs[1:], read[1:], strict=True):
        other = _played(run, rows)
        if differing := [name for name in first if first[name] != other[name]]:
            raise DataError(
                f"runs {runs[0]['id'][:18]} and {run['id'][:18]} cannot be compared",
                why=f"they differ in {', '.join(differing)}",
                fix="narrow the runs down: --env, --split, --tag, or their names",
            )


def _played(run: dict[str, JSON], rows: Sequence[_Row]) -> dict[str, Any]:
    options = {name: value for name, value in json.loads(run["options"]).items() if name != "admissible"}
    scenarios = sorted({(split, index, found or "") for split, index, found, _, _ in rows})
    return {
        **{name: run[name] for name in ("env", "release", "spec", "split", "panel")},
        "options": options,
        "the scenarios that were played": digest(scenarios),
    }
