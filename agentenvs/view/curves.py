"""Learning curves: ``metrics.jsonl`` of a training run, thinned to what a screen shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agentenvs.view import files
from agentenvs.view.finding import METRICS

MOST_POINTS = 1_500
MOST_ROWS = 60
"""Steps of the table beside the curves."""

SHOWN: Mapping[str, Sequence[str]] = {
    "Success": ("success", "eval_success"),
    "Return": ("return", "eval_return"),
    "Loss": ("loss",),
    "Valid actions": ("valid",),
    "Turns an episode": ("turns", "eval_turns"),
    "Advantages that say something": ("advantage_cover", "groups_telling"),
    "Sampler against trainer, nats a token": ("gap",),
    "Norm of the gradient": ("gradient_norm",),
}
_NAMES = {
    "success": "while training",
    "eval_success": "held out",
    "return": "while training",
    "eval_return": "held out",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over the same steps."""

    title: str
    names: list[str]
    steps: list[float]
    columns: list[list[float | None]]
    band: tuple[list[float | None], list[float | None]] | None = None
    """Low and high of the last curve, where it has an interval."""

    @property
    def data(self) -> str:
        """It for the plotting script, as JSON."""
        form = {
            "title": self.title,
            "names": self.names,
            "steps": self.steps,
            "columns": self.columns,
            "band": self.band,
        }
        return orjson.dumps(form).decode()


@dataclass(frozen=True, slots=True)
class Training:
    """A training run in numbers."""

    steps: int
    evaluations: list[dict[str, Any]]
    charts: list[Chart]
    table: list[dict[str, Any]]
    columns: list[str]
    worlds: list[str]
    """Names of worlds whose success is told apart."""
    damaged: int = 0
    torn: bool = False
    why_not: str | None = None


def read(folder: Path) -> Training:
    """Read the metrics of a training run."""
    try:
        data = files.read(folder, METRICS, 256 * 1024 * 1024)
    except files.UnreadableError as error:
        return Training(0, [], [], [], [], [], why_not=str(error))
    whole = data.rfind(b"\n") + 1
    lines, damaged = _lines(data[:whole])
    steps = [line for line in lines if line["kind"] == "step"]
    evaluations = [line for line in lines if line["kind"] == "eval"]
    charts = [chart for title, names in SHOWN.items() if (chart := _chart(title, names, steps + evaluations))]
    worlds = sorted({name.partition("/")[2] for line in lines for name in line if name.startswith("eval_success/")})
    if len(worlds) > 1:
        found = _chart("Success by world, held out", [f"eval_success/{world}" for world in worlds], evaluations)
        charts[1:1] = [found] if found else []
    columns = [name for name in ("success", "return", "turns", "valid", "loss", "gradient_norm") if _any(steps, name)]
    return Training(
        len(steps), evaluations, charts, _thinned(steps, MOST_ROWS), columns, worlds, damaged, whole < len(data)
    )


def _lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    found, damaged = [], 0
    for line in data.splitlines():
        try:
            form = orjson.loads(line)
        except ValueError:
            form = None
        step = form.get("step") if isinstance(form, dict) else None
        if isinstance(form, dict) and isinstance(step, int | float) and isinstance(form.get("kind"), str):
            found.append(form)
        else:
            damaged += 1
    return found, damaged


def _chart(title: str, names: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> Chart | None:
    known = [name for name in names if _any(lines, name)]
    if not known:
        return None
    merged: dict[float, dict[str, Any]] = {}
    for line in lines:
        merged.setdefault(float(line["step"]), {}).update({name: line.get(name) for name in _wanted(line, known)})
    steps = sorted(merged)
    if len(steps) > MOST_POINTS:
        kept = {int(place * (len(steps) - 1) / (MOST_POINTS - 1)) for place in range(MOST_POINTS)}
        steps = [step for place, step in enumerate(steps) if place in kept or "eval_low" in merged[step]]
    columns = [[_real(merged[step].get(name)) for step in steps] for name in known]
    band = None
    if known[-1] == "eval_success" and any("eval_low" in merged[step] for step in steps):
        low, high = ([_real(merged[step].get(name)) for step in steps] for name in ("eval_low", "eval_high"))
        band = (low, high)
    labels = [_NAMES.get(name, name.removeprefix("eval_success/")) for name in known]
    return Chart(title, labels, steps, columns, band)


def _wanted(line: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    names = [*known, "eval_low", "eval_high"] if "eval_success" in known else list(known)
    return [name for name in names if name in line]


def _any(lines: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(_real(line.get(name)) is not None for line in lines)


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _thinned(lines: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    if len(lines) <= most:
        return list(lines)
    return [lines[int(place * (len(lines) - 1) / (most - 1))] for place in range(most)]
