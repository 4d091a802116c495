"""Draws the frontier as one SVG: success against cost, both with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentenvs.harness.report import visible
from agentenvs.harness.runs.frontier import Point

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 200, 20, 50
_COLOURS = {"frontier": "#0b6", "open": "#c80", "beaten": "#999"}
_TICKS = 5


def svg(points: Sequence[Point]) -> str:
    """Return the picture; runs without a cost are named below it."""
    priced = [point for point in points if point.cost is not None and point.cost_interval is not None]
    most = max((point.cost_interval.high for point in priced if point.cost_interval), default=1.0) or 1.0
    parts = [*_axes(most), *_line(priced, most)]
    for point in priced:
        parts += _mark(point, most)
    if without := [point.name for point in points if point.cost is None]:
        said = f"no known cost: {', '.join(without)}"
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 4}" fill="#666">{_text(said, 110)}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="success against cost">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _axes(most: float) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [f'<path d="M{_LEFT},{_TOP}V{bottom}H{right}" fill="none" stroke="#333"/>']
    for step in range(_TICKS + 1):
        share = step / _TICKS
        x, y = _x(share * most, most), _y(share)
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{share * most / 1e6:.4g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">dollars an episode</text>')
    return parts


def _line(priced: Sequence[Point], most: float) -> list[str]:
    """Return the frontier as steps: what can be had for at most so much."""
    best = [point for point in priced if point.place == "frontier" and point.cost is not None]
    if not best:
        return []
    path = f"M{_x(best[0].cost or 0, most):.1f},{_y(best[0].rate):.1f}"
    for point in best[1:]:
        path += f"H{_x(point.cost or 0, most):.1f}V{_y(point.rate):.1f}"
    return [f'<path d="{path}H{_WIDTH - _RIGHT}" fill="none" stroke="#0b6" stroke-dasharray="4 3"/>']


def _mark(point: Point, most: float) -> list[str]:
    colour = _COLOURS.get(point.place, "#999")
    if point.cost is None or point.cost_interval is None:
        return []
    x, y = _x(point.cost, most), _y(point.rate)
    left, right = (_x(end, most) for end in point.cost_interval)
    low, high = (_y(end) for end in point.rate_interval)
    return [
        f'<path d="M{left:.1f},{y:.1f}H{right:.1f}M{x:.1f},{low:.1f}V{high:.1f}" stroke="{colour}"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>',
        f'<text x="{x + 8:.1f}" y="{y - 6:.1f}">{_text(point.name, 40)}</text>',
    ]


def _x(cost: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * cost / most


def _y(rate: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - rate)


def _text(text: str, most: int) -> str:
    return escape(visible(text if len(text) <= most else text[: most - 1] + "…"))
