"""How fast runs are judged: played again from their records, brought into the index, compared.

Every figure is CPU time of this process and its threads (``time.process_time``), the best of several rounds, because
other work on the machine only ever adds; what the database's server does elsewhere is not in it.

    python benchmarks/judging.py                                   # everything
    python benchmarks/judging.py indexing --db postgresql://…      # a part, with the index in PostgreSQL
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import agentenvs
from agentenvs.core.canon import canonical, digest
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay
from agentenvs.core.streams import Stream
from agentenvs.envs.household import data, propose
from agentenvs.harness.compare import compare, write_page
from agentenvs.harness.report import read_run
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.harness.runs import asking, indexing
from agentenvs.harness.runs.opening import opened

ROUNDS = 3
EPISODES = 200
LINES = 50_000
PAIRED = 10_000


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    aim: str


class Task(NamedTuple):
    """What a part may use."""

    folder: Path
    """Empty; of the part's own."""
    db: str | None


def reexecution(task: Task) -> list[Row]:
    """Play records of the household again, from files to a verdict on every digest.

    Where worlds are known, several runs of the same scenarios are replayed in one process, as a board does.
    """
    for policy in ("expert", "random"):
        evaluate(RunConfig("household", policy, episodes=EPISODES, out=task.folder / policy))
    rows = []
    for policy in ("expert", "random"):
        for worlds in ("made anew", "known"):
            rates = [_replayed(task.folder / policy, worlds == "made anew") for _ in range(ROUNDS)]
            turns = f"{rates[0][1] / EPISODES:.0f} turns an episode"
            name = f"re-execution, household, {policy}, {turns}, worlds {worlds}"
            rows.append(Row(name, max(rate for rate, _ in rates), "steps a CPU-second", ">= 10,000"))
    return rows


def _replayed(folder: Path, anew: bool) -> tuple[float, int]:
    """Play the records of a folder again; return turns a CPU-second, and turns."""
    if anew:
        _forget_scenarios()
    start, turns = time.process_time(), 0
    for record in read_records(folder):
        report = replay(record)
        if not report.equal:
            raise RuntimeError(str(report.divergence))
        turns += report.turns
    return turns / (time.process_time() - start), turns


def _forget_scenarios() -> None:
    """Drop what the process remembers of scenarios, so that a replay makes them again as a fresh process does."""
    propose._proposals = type(propose._proposals)(data.KEPT_SCENARIOS)


def indexing_rate(task: Task) -> list[Row]:
    """Bring a run of many episodes into an empty index, then again, then when it has grown by one line."""
    folder = _many_lines(task.folder)
    rates, again, grown = [], [], []
    with opened(task.db or str(task.folder / "runs.db")) as engine:
        for _ in range(ROUNDS):
            for run in asking.listed(engine):
                indexing.forget(engine, run["id"])
            start = time.process_time()
            found = indexing.index(engine, folder)
            rates.append(found.episodes / (time.process_time() - start))
            if found.damage or found.episodes != LINES:
                raise RuntimeError(f"{found.episodes} episodes, {found.damage[:1]}")
            start = time.process_time()
            indexing.index(engine, folder)
            again.append(time.process_time() - start)
            grown.append(_grow(folder, lambda: indexing.index(engine, folder)))
        kind = engine.dialect.name
    return [
        Row(f"indexing, {kind}", max(rates), "episodes a CPU-second", ">= 20,000"),
        Row(f"the same folder again, {LINES:,} episodes, {kind}", min(again) * 1000, "CPU-ms", ""),
        Row(f"one line more, {LINES:,} episodes, {kind}", min(grown) * 1000, "CPU-ms", ""),
    ]


def _many_lines(folder: Path) -> Path:
    """Return the folder of a run with many summary lines, whose manifest agrees with them."""
    evaluate(RunConfig("household", "expert", episodes=20, out=folder / "run"))
    table, manifest = folder / "run" / "episodes.jsonl", folder / "run" / "manifest.json"
    few = [json.loads(line) for line in table.read_text().splitlines()]
    many = [{**few[number % len(few)], "number": number} for number in range(LINES)]
    table.write_text("".join(canonical(row) + "\n" for row in many))
    made = json.loads(manifest.read_text())
    manifest.write_text(canonical({**made, "episode_table_digest": digest(many)}) + "\n")
    return folder / "run"


def _grow(folder: Path, index: Callable[[], object]) -> float:
    """Return the CPU time of an index when a run that is open has one line more; the folder is as before then."""
    table, manifest = folder / "episodes.jsonl", folder / "manifest.json"
    whole, made = table.read_bytes(), manifest.read_bytes()
    manifest.unlink()
    table.write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 1])
    index()
    table.write_bytes(whole)
    start = time.process_time()
    index()
    seconds = time.process_time() - start
    manifest.write_bytes(made)
    return seconds


def comparing(task: Task) -> list[Row]:
    """Read two runs of many episodes on the same scenarios and compare them, with one attempt each and with three."""
    rows = []
    for attempts in (1, 3):
        folders = [_outcomes(task.folder, name, attempts) for name in ("a", "b")]
        seconds = []
        for _ in range(ROUNDS):
            start = time.process_time()
            found = compare([read_run(folder) for folder in folders])
            write_page(found, task.folder / "page.html")
            seconds.append(time.process_time() - start)
        name = f"compare, 2 x {PAIRED:,} episodes, a page, attempts at a scenario: {attempts}"
        rows.append(Row(name, min(seconds), "CPU-seconds", "<= 2"))
    return rows


def _outcomes(folder: Path, name: str, attempts: int) -> Path:
    """Return the folder of a run with drawn outcomes, rewards between, and eight kinds of task."""
    run = folder / f"{name}{attempts}"
    if not (folder / "seed").exists():
        evaluate(RunConfig("household", "noop", episodes=1, out=folder / "seed"))
    base = json.loads((folder / "seed" / "episodes.jsonl").read_text().splitlines()[0])
    stream = Stream(name.encode(), "benchmark")
    lines = []
    for number in range(PAIRED):
        index, won = number // attempts, stream.chance(7, 10)
        kind, reward = f"kind {index % 8}", 1.0 if won else stream.uniform()
        own = {"number": number, "index": index, "scenario_digest": digest(index), "kind": kind, "par": 3 + index % 30}
        lines.append({**base, **own, "success": won, "reward": reward, "attempt": number % attempts + 1})
    run.mkdir()
    (run / "episodes.jsonl").write_text("".join(canonical(line) + "\n" for line in lines))
    made = json.loads((folder / "seed" / "manifest.json").read_text())
    own = {"run_id": run.name, "episode_table_digest": digest(lines)}
    (run / "manifest.json").write_text(canonical({**made, **own}) + "\n")
    return run


PARTS: dict[str, Callable[[Task], list[Row]]] = {
    "reexecution": reexecution,
    "indexing": indexing_rate,
    "comparing": comparing,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all otherwise")
    parser.add_argument("--db", help="index: a postgresql:// URL of an empty database; a file otherwise")
    given = parser.parse_args()
    if unknown := set(given.part) - set(PARTS):
        parser.error(f"no part is called {min(unknown)}")
    print(f"agentenvs {agentenvs.__version__}\n")
    print(f"| {'':74} | {'':>12} | {'unit':24} | aim |\n|---|--:|---|---|")
    for name in given.part or PARTS:
        folder = Path(tempfile.mkdtemp())
        try:
            for row in PARTS[name](Task(folder, given.db)):
                print(f"| {row.name:74} | {row.value:12,.1f} | {row.unit:24} | {row.aim} |", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
