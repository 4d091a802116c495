"""The demonstration of the trainer: a clone of the expert, made from nothing, learns by reinforcement.

    make train-demo                                             # one seed
    python benchmarks/train_demo.py --seeds 0,1,2 --picture docs/images/train-demo.svg

Each seed is a run of its own, of two processes (torchrun) with a thread each; the same command goes on where it was
stopped. At the end the clone and the policy of the last step, not of the best, are held against each other on the same
held-out scenarios, with intervals: reached is a gain of 20 points whose two intervals lie apart. With --one-clone every
seed begins from the clone of the first. It writes report.md, report.json and curve.svg.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentenvs.train import picture, series
from agentenvs.train.config import CloneConfig, TrainConfig, read
from agentenvs.train.run import end_of

AIM = 0.2
"""The gain that is aimed at."""


def cells(config: TrainConfig, seeds: Sequence[int], ranks: int, start: Path | None) -> list[series.Cell]:
    """Return a run a seed: cloned by itself, or beginning from a clone that is there."""
    if start is not None:
        model = replace(config.model, folder=str((start / "model").resolve()))
        config = replace(config, model=model, clone=CloneConfig())
    return [series.Cell(f"seed-{seed}", replace(config, seed=seed, name=f"seed-{seed}"), ranks) for seed in seeds]


def clone(config: TrainConfig, seed: int, ranks: int) -> series.Cell:
    """Return a run that clones, and does no more."""
    evaluation = replace(config.evaluation, start=False)
    return series.Cell("clone", replace(config, name="clone", seed=seed, steps=0, evaluation=evaluation), ranks)


def found(folder: Path) -> dict[str, Any]:
    """Return what came out of a seed."""
    gain = series.gain(series.outcomes(folder, 0), series.outcomes(folder))
    lines = picture.read(folder)
    where = folder.with_name("clone")  # of --one-clone
    made = picture.read(where) if where.is_dir() else lines
    cloned = [line["cpu_seconds"] for line in made if line["kind"] == "clone"]
    steps = [line for line in lines if line["kind"] == "step"]
    end = end_of(folder) or {}
    return {
        "seed": folder.name.removeprefix("seed-"),
        "gain": gain,
        "reached": gain.value >= AIM and gain.apart,
        "steps": len(steps),
        "ended": end.get("why", ""),
        "cpu": {"clone": max(cloned, default=0.0), "steps": end["cpu"]["steps"], "all": end["cpu"]["seconds"]},
        "tokens_sampled": sum(line["tokens_sampled"] for line in steps),
        "curve": curve(lines),
    }


def curve(lines: Sequence[dict[str, Any]]) -> list[tuple[float, float, float, float]]:
    """Return CPU seconds of reinforcement, held-out success, low and high of each evaluation."""
    points, spent = [], 0.0
    for line in lines:
        spent = line.get("cpu_steps", spent)
        if line["kind"] == "eval":
            points.append((spent, line["eval_success"], line["eval_low"], line["eval_high"]))
    return points


def drawn(results: Sequence[dict[str, Any]]) -> str:
    """Return the curves of all seeds."""
    curves = [
        picture.Curve(
            f"seed {one['seed']}",
            [(x, y) for x, y, _, _ in one["curve"]],
            [(x, low, high) for x, _, low, high in one["curve"]],
        )
        for one in results
    ]
    return picture.svg(curves, "Held-out success", "CPU seconds of reinforcement")


def verdict(results: Sequence[dict[str, Any]]) -> str:
    """Say whether the aim was reached."""
    count = sum(one["reached"] for one in results)
    said = "reached" if count == len(results) else "not reached"
    return f"{said}: +{100 * AIM:.0f} points with intervals apart in {count} of {len(results)} seeds"


def markdown(config: TrainConfig, results: Sequence[dict[str, Any]]) -> str:
    """Return the report."""
    world = next(iter(config.worlds.values()))
    rows = "\n".join(
        f"| {one['seed']} | {one['gain'].first} | {one['gain'].second} | {one['gain']} | {one['steps']} | "
        f"{one['cpu']['clone']:.0f} + {one['cpu']['steps']:.0f}, {one['cpu']['all']:.0f} in all |"
        for one in results
    )
    return (
        f"Held-out success in percent, actions sampled: {config.evaluation.count} scenarios of "
        f"{config.evaluation.split}, each once, the same for all; {world.env}, {dict(world.options)}; method "
        f"{config.method}. 95 % intervals: Wilson; of the paired difference, Bonett and Price.\n\n"
        "| seed | clone | last policy | points gained | steps | CPU seconds: clone + steps |\n"
        f"|--:|--:|--:|--:|--:|--:|\n{rows}\n\n{verdict(results)}\n"
    )


def report(config: TrainConfig, folders: Sequence[Path], out: Path, pictured: Path | None) -> str:
    """Write what came out, and return it as Markdown."""
    results = [found(folder) for folder in folders]
    text, image = markdown(config, results), drawn(results)
    form = [{**one, "gain": one["gain"].to_json()} for one in results]
    whole = {"config": config.to_json(), "verdict": verdict(results), "seeds": form}
    (out / "report.md").write_text(text, encoding="utf-8")
    (out / "report.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    for path in [out / "curve.svg", *([pictured] if pictured else [])]:
        path.write_text(image, encoding="utf-8")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("train_demo.toml"))
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="TABLE.NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/train-demo"))
    parser.add_argument("--seeds", default="0", help="with commas")
    parser.add_argument("--ranks", type=int, default=2, help="processes that train a run together")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--one-clone", action="store_true", help="every seed begins from the clone of the first")
    parser.add_argument("--picture", type=Path, help="write the curve here too")
    asked = parser.parse_args()
    config = read(asked.config, asked.changes)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    failed: dict[str, str] = {}
    if asked.one_clone:
        failed = series.play([clone(config, seeds[0], asked.ranks)], asked.out, 1, say)
    if not failed:
        runs = cells(config, seeds, asked.ranks, asked.out / "clone" if asked.one_clone else None)
        failed = series.play(runs, asked.out, asked.jobs, say)
    if failed:
        raise SystemExit("\n".join(f"{name} failed: {why}" for name, why in failed.items()))
    print()
    print(report(config, [asked.out / one.name for one in runs], asked.out, asked.picture))
    print(f"the curve: {asked.out / 'curve.svg'}; each run: {asked.out}/seed-*/report.html")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
