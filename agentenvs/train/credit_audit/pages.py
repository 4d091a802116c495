"""What an audit found, as a table (Markdown, CSV, JSON), a picture (SVG), a page (HTML), and the turns (CSV)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentenvs.train.credit_audit import agreement
from agentenvs.train.credit_audit.agreement import Estimate

if TYPE_CHECKING:
    from agentenvs.train.credit_audit.audit import Result

HEADS = {
    "pearson": "Pearson",
    "corrected": "corrected",
    "spearman": "Spearman",
    "within": "within episodes",
    "sign": "sign",
    "clear": "sign where clear",
    "top": "top overlap",
}
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 860, 150, 20, 24, 46
_PANELS = (("pearson", -1.0, 1.0, 0.0), ("clear", 0.0, 1.0, 0.5))


def write(result: Result, folder: Path) -> None:
    """Write all pages into a folder."""
    picture = svg(result)
    form = json.dumps(to_json(result), indent=2, allow_nan=False)
    pages = {
        "credit.md": markdown(result),
        "credit.csv": table(result),
        "credit.json": form + "\n",
        "credit.svg": picture,
        "turns.csv": by_turn(result),
        "report.html": page(result, picture),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def ordered(result: Result) -> list[str]:
    """Return the methods, those that agree best first."""
    return sorted(result.rows, key=lambda name: (-_value(result.rows[name]["pearson"]), name))


def _value(one: Estimate) -> float:
    return -2.0 if one.value is None else one.value


def shown(one: Estimate, brief: bool = False) -> str:
    """Return a number as it is read, with its interval where it has one, and none where ``brief``."""
    if one.value is None:
        return "-"
    if brief or one.low is None or one.high is None:
        return f"{one.value:.2f}"
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def sentences(result: Result) -> list[str]:
    """Return what must be known to read the table."""
    truth, turns = result.truths, result.turns
    clusters = len(np.unique(turns.cluster))
    paired = [one.spread_without_pairs() for one in truth]
    apart = sum(two for _, two in paired)
    said = [
        f"{len(truth)} of {len(result.episodes)} episodes measured, {len(turns.truth)} turns, {clusters} groups; "
        f"success {np.mean([one.success for one in result.episodes]):.2f}; {result.settings.branches} continuations a "
        f"turn: {sum(one.continuations for one in truth)} played, {sum(one.joined for one in truth)} joined, "
        f"{sum(one.tokens for one in truth)} tokens, {sum(one.cpu for one in truth):.0f} CPU seconds.",
        f"True advantages: standard deviation {turns.truth.std():.3f}, mean standard error {turns.errors.mean():.3f}; "
        f"{int((turns.truth == 0).sum())} are 0 exactly, {int((np.abs(turns.truth) > 2 * turns.errors).sum())} clear "
        f"(beyond two standard errors). {_reliable(result)}",
        f"Signs are over turns whose true advantage is not 0; a method's 0 counts one half. Top: the "
        f"{result.settings.top:.0%} of turns with the greatest advantages; by chance the overlap is that share.",
        f"Intervals: 95 %, bootstrap over groups, {result.settings.resamples} resamples, seed {result.settings.seed}.",
    ]
    if apart > 0:
        share = sum(one for one, _ in paired) / apart
        said.append(f"Common random numbers: the variance is {share:.2f} of that of independent arms.")
    if clusters < agreement.FEW_CLUSTERS:
        said.append(f"Only {clusters} groups: the intervals are too short.")
    if result.cut:
        said.append(
            f"Cut: the budget ({result.cut}) was spent; {len(result.episodes) - len(truth)} episodes are not measured. "
            "Methods were still asked about whole groups."
        )
    if result.lost:
        said.append(f"{result.lost} episodes were lost, and are in no group.")
    return said


def _reliable(result: Result) -> str:
    if result.itself["reliability"].value is None:
        return "They do not vary, so nothing can be compared: play other scenarios, or a better policy."
    return (
        f"Reliability {shown(result.itself['reliability'])}: no method can be expected above a correlation of "
        f"{shown(result.itself['ceiling'])}."
    )


def rows(result: Result, brief: bool = False) -> list[list[str]]:
    """Return the table: a head, and a line a method.

    Args:
        result: The audit's.
        brief: Leave out the intervals, except the first.
    """
    found = [["method", *HEADS.values(), "note"]]
    twins = {one.method: one.same_as for one in result.credited}
    for name in ordered(result):
        note = f"same as {twins[name]}" if twins[name] else ""
        measures = result.rows[name]
        found.append([name, *(shown(measures[one], brief and one != "pearson") for one in HEADS), note])
    half = ["-" if one == "corrected" else shown(result.itself[f"half_{one}"], brief) for one in HEADS]
    found.append(["half of the truth", *half, "against the other"])
    return found


def missing(result: Result) -> list[tuple[str, str]]:
    """Return the methods that said nothing, and why."""
    return [(one.method, one.missing) for one in result.credited if one.missing]


def markdown(result: Result) -> str:
    """Return the table as Markdown, with what must be known to read it."""
    head, *lines = rows(result)
    parts = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(line)} |" for line in lines)]
    said = [f"- {one}" for one in sentences(result)]
    gone = [f"- {name}: {why}" for name, why in missing(result)]
    absent = ["", "Not compared:", "", *gone] if gone else []
    return "\n".join([f"# Credit audit: {result.config.name}", "", *parts, "", *said, *absent, ""])


def table(result: Result) -> str:
    """Return the table as CSV, a line a method and measure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "measure", "value", "low", "high"])
    for name, measures in [*((one, result.rows[one]) for one in ordered(result)), ("truth", result.itself)]:
        for measure, one in measures.items():
            writer.writerow([name, measure, *("" if x is None else repr(x) for x in (one.value, one.low, one.high))])
    return out.getvalue()


def by_turn(result: Result) -> str:
    """Return every measured turn as CSV: the truth, its error, and what each method said."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    said = [one for one in result.credited if one.values]
    head = ["group", "sample", "turn", "action", "valid", "reward", "v", "advantage", "error"]
    writer.writerow([*head, *(one.method for one in said)])
    for truth in result.truths:
        episode = result.episodes[truth.episode]
        advantages, errors, values = truth.advantages, truth.errors, truth.values
        for place, turn in enumerate(episode.turns):
            told = [repr(float(one.values[truth.episode][place])) for one in said]
            mine = [repr(float(x[place])) for x in (values, advantages, errors)]
            where = [episode.group, episode.sample, place]
            writer.writerow([*where, turn.text, int(turn.valid), repr(turn.reward), *mine, *told])
    return out.getvalue()


def to_json(result: Result) -> dict[str, Any]:
    """Return everything as JSON."""
    return {
        "config": result.config.to_json(),
        "settings": result.settings.to_json(),
        "weights": result.weights,
        "episodes": len(result.episodes),
        "measured": len(result.truths),
        "turns": len(result.turns.truth),
        "cut": result.cut,
        "lost": result.lost,
        "truth": {name: asdict(one) for name, one in result.itself.items()},
        "methods": {name: {key: asdict(one) for key, one in result.rows[name].items()} for name in ordered(result)},
        "same_as": {one.method: one.same_as for one in result.credited if one.same_as},
        "missing": dict(missing(result)),
        "said": sentences(result),
    }


# ---- the picture ---------------------------------------------------------------------------------------------------


def svg(result: Result) -> str:
    """Return the correlation and the clear signs of each method, with intervals; the ceiling as a line.

    Methods that say the same as one before are left out.
    """
    twins = {one.method for one in result.credited if one.same_as}
    names = [name for name in ordered(result) if name not in twins]
    height = _TOP + _ROW * len(names) + 40
    parts = []
    width = (_WIDTH - _LEFT - 2 * _RIGHT - 20) / 2
    for number, (measure, low, high, middle) in enumerate(_PANELS):
        left = _LEFT + number * (width + 30)
        parts += _panel(result, names, measure, (left, width), (low, high, middle), height)
    for line, name in enumerate(names):
        parts.append(f'<text x="{_LEFT - 12}" y="{_y(line) + 4}" text-anchor="end">{escape(name)}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="Agreement of methods with true advantages">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _y(line: int) -> int:
    return _TOP + _ROW * line + _ROW // 2


def _panel(
    result: Result,
    names: Sequence[str],
    measure: str,
    place: tuple[float, float],
    scale: tuple[float, float, float],
    height: int,
) -> list[str]:
    left, width = place
    low, high, middle = scale

    def x(value: float) -> float:
        return round(left + width * (min(max(value, low), high) - low) / (high - low), 1)

    bottom = height - 34
    parts = [f'<text x="{left}" y="20" font-weight="bold">{escape(HEADS[measure])}, 95 % interval</text>']
    for step in range(5):
        value = low + (high - low) * step / 4
        stroke = "#333" if value == middle else "#ddd"
        parts.append(f'<path d="M{x(value)},{_TOP - 8}V{bottom}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x(value)}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>')
    ceiling = result.itself["ceiling"].value
    if measure == "pearson" and ceiling is not None:
        parts.append(f'<path d="M{x(ceiling)},{_TOP - 8}V{bottom}" stroke="#b3432b" stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{x(ceiling)}" y="36" fill="#b3432b" text-anchor="middle">ceiling</text>')
    for line, name in enumerate(names):
        parts += _mark(result.rows[name][measure], _y(line), x)
    return parts


def _mark(one: Estimate, y: int, x: Any) -> list[str]:
    if one.value is None:
        return []
    parts = []
    if one.low is not None and one.high is not None:
        parts.append(f'<path d="M{x(one.low)},{y}H{x(one.high)}" stroke="#2f62b5" stroke-width="2"/>')
    return [*parts, f'<circle cx="{x(one.value)}" cy="{y}" r="4" fill="#2f62b5"/>']


# ---- the page ------------------------------------------------------------------------------------------------------

DEFINITION = (
    "The true advantage of a turn is A = Q - V: Q is the mean return of continuations by the same policy after its "
    "action, V that of continuations that draw the action anew, both from exactly this history. Continuation j uses "
    "one random stream in both arms."
)


def page(result: Result, picture: str) -> str:
    """Return one self-contained page."""
    head, *lines = rows(result)
    heads = "".join(f'<th scope="col">{escape(one)}</th>' for one in head)
    body = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>' + "".join(f"<td>{escape(one)}</td>" for one in line[1:]) + "</tr>"
        for line in lines
    )
    said = "".join(f"<li>{escape(one)}</li>" for one in sentences(result))
    gone = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in missing(result))
    absent = f"<h2>Not compared</h2><ul>{gone}</ul>" if gone else ""
    title = escape(f"Credit audit: {result.config.name}")
    settings = escape(json.dumps({"settings": result.settings.to_json(), "config": result.config.to_json()}, indent=2))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n<style>{_STYLE}</style>'
        f"</head><body><main><h1>{title}</h1>\n<p>{escape(DEFINITION)}</p>\n{picture}\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Agreement by method"><table><thead><tr>{heads}'
        f"</tr></thead><tbody>{body}</tbody></table></div>\n<ul>{said}</ul>\n{absent}\n"
        f"<details><summary>Settings</summary><pre>{settings}</pre></details></main></body></html>\n"
    )


_STYLE = (
    ":root{color-scheme:light dark}body{max-width:72rem;margin:0 auto;padding:2rem 1rem;font:16px/1.5 system-ui}"
    "svg{width:100%;height:auto}td,th{padding:.2rem .6rem;text-align:right;white-space:nowrap}th{font-weight:600}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}tr+tr{border-top:1px solid #8884}"
    ".scroll{overflow-x:auto}pre{overflow-x:auto}"
)
