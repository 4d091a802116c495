"""Curves of a run as SVG, and its report: one self-contained page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from agentenvs.core.errors import ConfigError

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 150, 14, 34
_COLOURS = ("#2f62b5", "#b3432b", "#1d7f5c", "#8a5cb8", "#c08a1e")
_TICKS = 5

SHOWN: Mapping[str, Sequence[str]] = {
    "Success": ("success", "eval_success"),
    "Success by world": ("success/*",),
    "Held-out success by world": ("eval_success/*",),
    "Return": ("return",),
    "Valid actions": ("valid",),
    "Advantages that say something": ("advantage_cover", "groups_telling"),
    "Sampler against trainer, nats a token": ("gap",),
    "Norm of the gradient": ("gradient_norm",),
    "Seconds a step: worlds, sampling, training": ("seconds_env", "seconds_model", "seconds_train"),
}
"""The pictures of a report, and what is drawn in each; ``NAME/*`` is a curve for each world of a mixture."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line, with an interval where there is one."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    """Place, low and high."""


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of ``metrics.jsonl``; a last line that was cut by a kill is left out.

    Raises:
        ConfigError: There is none.
    """
    path = folder / "metrics.jsonl"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def curves(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Curve]:
    """Return the curves of some metrics over steps."""
    found = []
    for name in _each(lines, names):
        points = [(line["step"], line[name]) for line in lines if line["kind"] != "clone" and name in line]
        band: list[tuple[float, float, float]] = []
        if name == "eval_success":
            band = [(line["step"], line["eval_low"], line["eval_high"]) for line in lines if name in line]
        if points:
            found.append(Curve(name, points, band))
    return found


def _each(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Put the names of metrics in the place of ``NAME/*``; none where there is one world alone."""
    found: list[str] = []
    for name in names:
        if not name.endswith("/*"):
            found.append(name)
            continue
        several = sorted({key for line in lines for key in line if key.startswith(name[:-1])})
        found += several if len(several) > 1 else []
    return found


def svg(drawn: Sequence[Curve], label: str, across: str = "steps") -> str:
    """Return a picture of some curves over steps, or over what else is said to go ``across``."""
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [y for curve in drawn for _, y in curve.points] + [y for one in drawn for _, *two in one.band for y in two]
    left, right = min(xs, default=0.0), max(xs, default=1.0)
    low, high = min(0.0, *ys) if ys else 0.0, max(ys, default=1.0)
    scale = _Scale(left, right if right > left else left + 1, low, high if high > low else low + 1)
    parts = scale.axes(across)
    for number, curve in enumerate(drawn):
        parts += _drawn(curve, scale, _COLOURS[number % len(_COLOURS)], number)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(label)} over {escape(across)}">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - self.low) / (self.high - self.low)

    def axes(self, across: str) -> list[str]:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = [f'<path d="M{_LEFT},{_TOP}V{bottom}H{right}" fill="none" stroke="#333"/>']
        parts += [
            f'<text x="{_LEFT - 6}" y="{self.y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>'
            for value in _ticks(self.low, self.high)
        ]
        parts += [
            f'<text x="{self.x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{value:.6g}</text>'
            for value in _ticks(self.left, self.right)
        ]
        parts.append(f'<text x="{(_LEFT + right) / 2}" y="{bottom + 30}" text-anchor="middle">{escape(across)}</text>')
        return parts


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two others, at most ``_TICKS`` and one."""
    rough = (high - low) / _TICKS
    size = float("1e" + f"{rough:e}".partition("e")[2])
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if size * times >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _drawn(curve: Curve, scale: _Scale, colour: str, number: int) -> list[str]:
    parts = []
    if curve.band:
        edge = [f"{scale.x(x):.1f},{scale.y(high):.1f}" for x, _, high in curve.band]
        edge += [f"{scale.x(x):.1f},{scale.y(low):.1f}" for x, low, _ in reversed(curve.band)]
        parts.append(f'<polygon points="{" ".join(edge)}" fill="{colour}" opacity="0.15"/>')
    line = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in curve.points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    where = _TOP + 14 + 18 * number
    parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{where}" fill="{colour}">{escape(curve.name)}</text>')
    return parts


def report(folder: Path) -> Path:
    """Write ``report.html`` into the folder of a run, and return its path.

    Raises:
        ConfigError: There is no run.
    """
    lines = read(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    evaluated = [line for line in lines if line["kind"] == "eval"]
    pictures = [
        f"<h2>{escape(title)}</h2>\n{svg(found, title)}"
        for title, names in SHOWN.items()
        if (found := curves(lines, names))
    ]
    rows = "".join(
        f"<tr><td>{line['step']:.0f}</td><td>{line['eval_success']:.3f}</td>"
        f"<td>{line['eval_low']:.3f} to {line['eval_high']:.3f}</td><td>{line['eval_episodes']:.0f}</td></tr>"
        for line in evaluated
    )
    table = f"<h2>Evaluations</h2><table><tr>{_HEAD}</tr>{rows}</table>" if rows else ""
    title = escape(f"{config['name']}: {config['method']}, seed {config['seed']}")
    settings = escape(json.dumps(config, indent=2))
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n<style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1>\n{table}\n{''.join(pictures)}\n"
        f"<details><summary>Configuration</summary><pre>{settings}</pre></details></body></html>\n"
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


_HEAD = "<th>step</th><th>success</th><th>95 % interval (Wilson)</th><th>episodes</th>"
_STYLE = (
    ":root{color-scheme:light dark}body{max-width:60rem;margin:0 auto;padding:2rem 1rem;font:16px/1.5 system-ui}"
    "svg{width:100%;height:auto}td,th{padding:.2rem .8rem;text-align:right}pre{overflow-x:auto}"
)
