from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from agentenvs.harness.runs.frontier import Point, placed
from agentenvs.harness.runs.picture import svg
from agentenvs.harness.statistics import Interval


def _point(name: str, rate: float, cost: float | None, half: float = 0.05) -> Point:
    around = None if cost is None else Interval(cost * 0.9, cost * 1.1)
    return Point(name, name, 100, rate, Interval(rate - half, rate + half), cost, around)


def test_each_run_has_its_place() -> None:
    points = [
        _point("dear-best", 0.9, 100.0),
        _point("cheap", 0.5, 10.0),
        _point("near", 0.48, 10.5),
        _point("bad", 0.1, 90.0),
        _point("unknown", 1.0, None),
        _point("twin", 0.5, 10.0),
    ]
    assert [(point.name, point.place) for point in placed(points)] == [
        ("cheap", "frontier"),
        ("twin", "frontier"),
        ("near", "open"),
        ("bad", "beaten"),
        ("dear-best", "frontier"),
        ("unknown", "unpriced"),
    ]


@pytest.mark.parametrize("points", [[], [_point("free", 0.0, 0.0, 0.0)], [_point("<b>&\x1b\u202e" * 20, 0.3, None)]])
def test_a_picture_is_well_formed_whatever_the_names(points: list[Point]) -> None:
    picture = svg(placed(points))
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "\x1b" not in picture


def test_free_runs_are_on_the_frontier_only_where_they_are_best() -> None:
    free = [_point("a", 0.2, 0.0), _point("b", 0.4, 0.0)]
    assert [point.place for point in placed(free)] == ["frontier", "open"]
