"""Every method from one start, against each other: held-out success after the same CPU seconds, with intervals.

    python benchmarks/methods.py --plan                        # what is run, and what it will cost
    python benchmarks/methods.py --out runs/methods --jobs 2   # runs it, or goes on where it was stopped
    python benchmarks/methods.py --out runs/methods --report   # the table of what is there

Three series: every method, one seed; five named beforehand, three seeds, twice as long; and those that are meant for a
sampler that is behind, at a lag of 2 and 8 versions. Each run is a process of one thread with a folder of its own. A
credit audit of the start says how each method's credit goes with what turns were worth. It writes methods.md (which it
prints too, for RESULTS.md), methods.json and methods.svg. One seed ranks nothing; it shows what runs and what breaks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from agentenvs.train import picture, series
from agentenvs.train.config import CloneConfig, TrainConfig, read
from agentenvs.train.methods import recipes
from agentenvs.train.run import end_of

LEFT_OUT = {"clone": "it imitates demonstrations: as a method of reinforcement it would imitate itself"}
NAMED = ("grpo", "gigpo", "wpm", "spo", "ppo")
"""Chosen before anything was measured: the common baseline; turns told apart by states; by an exact potential; one
episode a scenario; a critic. A kind of credit each."""
LAGGED = ("grpo", "cispo", "spo", "spo++", "klpo", "proximal-kl")
"""Meant for older samples: CISPO keeps the gradient of every token, SPO and SPO++ need no group to wait for, KLPO and
proximal KL are derived for a sampler that is another policy. GRPO, whose weights are cut at 2, stands beside them as
what is usual."""
LAGS = (2, 8)

OPENING, EPISODES_A_SECOND, UPDATES_A_SECOND, STEP = 8.0, 15.0, 2.7, 8.0
"""For the estimate: CPU seconds until a run begins, episodes evaluated and updates of cloning a CPU second, and what a
run goes beyond its budget, since it looks between steps; 0.6 million weights on the machine of RESULTS.md."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of the comparison."""

    series: str
    method: str
    seed: int
    lag: int
    budget: float

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.method}-seed{self.seed}-lag{self.lag}-{self.budget:g}s"


def entries(short: float, long: float, seeds: Sequence[int], only: Sequence[str]) -> list[Entry]:
    """Return what is run, one series after the other."""
    known = [name for name in recipes() if name not in LEFT_OUT]
    made = [Entry("every method", name, seeds[0], 0, short) for name in known]
    made += [Entry("named beforehand", name, seed, 0, long) for seed in seeds for name in NAMED]
    made += [Entry("lag", name, seeds[0], lag, short) for lag in LAGS for name in LAGGED]
    return [one for one in made if not only or one.method in only]


def begun(config: TrainConfig) -> series.Cell:
    """Return the run that makes the start."""
    return series.Cell("start", replace(config, name="start", steps=0))


def cell(config: TrainConfig, entry: Entry, start: Path) -> series.Cell:
    """Return the run of an entry: from the start's model, evaluated at its end."""
    made = replace(
        config,
        name=entry.name,
        seed=entry.seed,
        method=entry.method,
        budget_cpu=entry.budget,
        model=replace(config.model, folder=str((start / "model").resolve())),
        clone=CloneConfig(),
        evaluation=replace(config.evaluation, start=False),
        slots=replace(config.slots, keep_versions=entry.lag + 1),
        lag=replace(config.lag, lag=entry.lag, max_lag=max(config.lag.max_lag, entry.lag)),
    )
    return series.Cell(f"runs/{entry.name}", made)


def plan(config: TrainConfig, listed: Sequence[Entry], asked: argparse.Namespace) -> str:
    """Return what is run, and an estimate of what it costs."""
    each = config.evaluation.count * len(config.worlds) / EPISODES_A_SECOND
    first = OPENING + config.clone.updates / UPDATES_A_SECOND + each
    audit = OPENING + asked.audit_cpu * 1.3
    lines = [f"the start: about {first:.0f} CPU seconds; its credit audit: about {audit:.0f}"]
    whole = first + audit
    for name in dict.fromkeys(one.series for one in listed):
        mine = [one for one in listed if one.series == name]
        cost = sum(OPENING + one.budget + STEP + each for one in mine)
        left = sum(end_of(asked.out / "runs" / one.name) is None for one in mine)
        lines.append(f"{name}: {len(mine)} runs, {left} not ended, about {cost:.0f} CPU seconds")
        lines += [f"    {one.name}" for one in mine]
        whole += cost
    hours = whole / 3600
    lines.append(f"in all about {whole:.0f} CPU seconds: {hours / asked.jobs:.1f} hours, {asked.jobs} side by side")
    lines += [f"left out: {name}: {why}" for name, why in LEFT_OUT.items()]
    return "\n".join(lines)


def audit(out: Path, asked: argparse.Namespace) -> str | None:
    """Audit the credit of methods on the start, or go on with it; return why there is none."""
    if (out / "audit" / "credit.json").exists() or not asked.audit_cpu:
        return None
    words = ["train", "credit-audit", str(out / "start"), "--out", str(out / "audit"), "--budget"]
    words += [f"cpu={asked.audit_cpu:g}", "--episodes", str(asked.audit_episodes), "--branches", "16", "-q"]
    names = asked.only or [name for name in recipes() if name not in LEFT_OUT]
    words += ["--methods", ",".join(names)]
    done = subprocess.run([sys.executable, "-m", "agentenvs.cli", *words], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()[-400:]


# ---- what came out -------------------------------------------------------------------------------------------------


def result(out: Path, entry: Entry, start: series.Outcomes) -> dict[str, Any] | None:
    """Return what came out of an entry; None where it has not ended."""
    folder = out / "runs" / entry.name
    end = end_of(folder)
    if end is None:
        return None
    steps = [line for line in picture.read(folder) if line["kind"] == "step"]
    shares = [line["groups_informative"] for line in steps if "groups_informative" in line]
    return {
        "series": entry.series, "method": entry.method, "seed": entry.seed, "lag": entry.lag, "budget": entry.budget,
        "gain": series.gain(start, series.outcomes(folder)),
        "informative": sum(shares) / len(shares) if shares else None,
        "steps": len(steps),
        "tokens_sampled": sum(line["tokens_sampled"] for line in steps),
        "tokens_trained": sum(line.get("tokens_trained", 0.0) for line in steps),
        "dropped": sum(line["dropped"] for line in steps),
        "cpu": end["cpu"]["steps"],
        "seconds": sum(line["seconds"] for line in steps),
    }  # fmt: skip


def correlations(out: Path) -> dict[str, str]:
    """Return the audit's correlation of each method, with its interval."""
    path = out / "audit" / "credit.json"
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    for name, row in json.loads(path.read_text(encoding="utf-8"))["methods"].items():
        one = row["pearson"]
        if one["value"] is not None:
            near = "" if one["low"] is None else f" ({one['low']:.2f} to {one['high']:.2f})"
            found[name] = f"{one['value']:.2f}{near}"
    return found


HEAD = (
    "| method | seed | lag | held-out success, % | against the start | informative groups | steps | tokens sampled | "
    "tokens trained | CPU s | wall s | audit's correlation |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def row(one: dict[str, Any], said: dict[str, str]) -> str:
    """Return a line of the table."""
    share = "-" if one["informative"] is None else f"{one['informative']:.2f}"
    cells = [one["method"], one["seed"], one["lag"], one["gain"].second, one["gain"], share, one["steps"],
             f"{one['tokens_sampled']:,.0f}", f"{one['tokens_trained']:,.0f}", f"{one['cpu']:.0f}",
             f"{one['seconds']:.0f}", said.get(one["method"], "-")]  # fmt: skip
    return "| " + " | ".join(str(each) for each in cells) + " |"


def markdown(
    config: TrainConfig, start: series.Rate, results: Sequence[dict[str, Any]], out: Path, failed: dict[str, str]
) -> str:
    """Return the section for RESULTS.md."""
    said, world = correlations(out), next(iter(config.worlds.values()))
    parts = [
        f"## Methods\n\n`benchmarks/methods.py`: {world.env}, {dict(world.options)}, from one clone of the expert "
        f"({start} % held-out success). Held-out: {start.episodes} scenarios of {config.evaluation.split}, each once, "
        "actions sampled, the same for all. Intervals: 95 %, Wilson; of paired differences, Bonett and Price. CPU "
        "seconds and tokens are those of steps."
    ]
    for name in dict.fromkeys(one["series"] for one in results):
        mine = [one for one in results if one["series"] == name]
        budgets = ", ".join(f"{budget:g}" for budget in sorted({one["budget"] for one in mine}))
        rows = "\n".join(row(one, said) for one in sorted(mine, key=lambda one: (one["method"], one["lag"])))
        parts.append(f"{name.capitalize()}, {budgets} CPU seconds:\n\n{HEAD}\n{rows}")
    parts += [f"Failed: {name}: {why}" for name, why in failed.items()]
    return "\n\n".join(parts) + "\n"


def svg(start: series.Rate, results: Sequence[dict[str, Any]]) -> str:
    """Return held-out success of every run with its interval; the start's is the band behind."""
    left, width, high = 230, 500, 18

    def x(value: float) -> float:
        return left + width * value

    low, top = start.interval
    height = high * (len(results) + 3)
    parts = [f'<rect x="{x(low):.1f}" y="20" width="{x(top) - x(low):.1f}" height="{height - 40}" fill="#eee"/>',
             f'<path d="M{x(start.value):.1f},20V{height - 20}" stroke="#999" stroke-dasharray="4"/>']  # fmt: skip
    for tick in range(0, 101, 20):
        parts.append(f'<text x="{x(tick / 100):.1f}" y="{height - 4}" text-anchor="middle">{tick} %</text>')
    for number, one in enumerate(results):
        (begin, end), y = one["gain"].second.interval, 36 + high * number
        name = f"{one['method']}, seed {one['seed']}, lag {one['lag']}, {one['budget']:g} s"
        parts.append(
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            f'<path d="M{x(begin):.1f},{y}H{x(end):.1f}" stroke="#2f62b5" stroke-width="2"/>'
            f'<circle cx="{x(one["gain"].second.value):.1f}" cy="{y}" r="3.5" fill="#2f62b5"/>'
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="Held-out success by method; the band is the start">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def report(config: TrainConfig, listed: Sequence[Entry], out: Path, failed: dict[str, str]) -> str:
    """Write what there is, and return it as Markdown."""
    start = series.outcomes(out / "start")
    results = [one for entry in listed if (one := result(out, entry, start)) is not None]
    text = markdown(config, series.rate(start), results, out, failed)
    form = {
        "config": config.to_json(),
        "start": series.rate(start).to_json(),
        "runs": [{**one, "gain": one["gain"].to_json()} for one in results],
        "correlations": correlations(out),
        "failed": failed,
    }
    (out / "methods.md").write_text(text, encoding="utf-8")
    (out / "methods.json").write_text(json.dumps(form, indent=2) + "\n", encoding="utf-8")
    (out / "methods.svg").write_text(svg(series.rate(start), results), encoding="utf-8")
    return text


def main() -> None:
    asked = arguments()
    config = read(asked.config, asked.changes)
    listed = entries(asked.short, asked.long, [int(seed) for seed in asked.seeds.split(",")], asked.only)
    if not asked.report:
        say(plan(config, listed, asked))
    if asked.plan:
        return
    failed: dict[str, str] = {}
    if not asked.report:
        failed = series.play([begun(config)], asked.out, 1, say)
        if failed:
            raise SystemExit(f"the start failed: {failed}")
        runs = [cell(config, one, asked.out / "start") for one in listed]
        failed = series.play(runs, asked.out, asked.jobs, say)
        why = audit(asked.out, asked)
        if why is not None:
            failed["audit"] = why
    print()
    print(report(config, listed, asked.out, failed))
    if failed:
        raise SystemExit(f"{len(failed)} failed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("methods.toml"))
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="TABLE.NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="methods, with commas")
    parser.add_argument("--short", type=float, default=150, help="CPU seconds of a run of one seed")
    parser.add_argument("--long", type=float, default=300, help="CPU seconds of those named beforehand")
    parser.add_argument("--seeds", default="0,1,2", help="the first is that of single runs")
    parser.add_argument("--audit-cpu", type=float, default=600, help="CPU seconds of the audit; none where 0")
    parser.add_argument("--audit-episodes", type=int, default=128)
    parser.add_argument("--plan", action="store_true", help="say what would be run, and stop")
    parser.add_argument("--report", action="store_true", help="write the report of what there is, and stop")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
