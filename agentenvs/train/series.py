"""Several runs that are to be compared: each in a folder and a process of its own, some side by side.

A run of a series that was killed goes on by the same command from its last checkpoint; one that ended is left as it is.
A lock that the process of a run holds keeps two of them out of one folder, even where the series was killed and the
process was not. What is compared are evaluations on the same scenarios: success with intervals, and paired differences.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agentenvs.core.errors import ConfigError
from agentenvs.harness.statistics.intervals import paired_rate_interval
from agentenvs.train import picture
from agentenvs.train.config import TrainConfig
from agentenvs.train.evaluation import disjoint
from agentenvs.train.run import end_of
from agentenvs_scoring.stats import wilson

Tell = Callable[[str], None]
"""Is told what was done, a line each."""

Outcomes = Mapping[tuple[str, str, int], bool]
"""Success by world, split and index."""

LOOK = 0.2
"""Seconds between looks at the processes."""
TOLD_EVERY = 30.0
"""Seconds between lines of progress."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A run of a series; its name is its folder."""

    name: str
    config: TrainConfig
    ranks: int = 1
    """Processes that train it together, under torchrun."""


@dataclass(slots=True)
class _Running:
    cell: Cell
    folder: Path
    process: subprocess.Popen[bytes]
    told: float = field(default_factory=time.monotonic)


def play(cells: Sequence[Cell], folder: Path, jobs: int = 1, tell: Tell | None = None) -> dict[str, str]:
    """Play the runs of a series, or what is left of them, and return those that failed with what they said last.

    Args:
        cells: The runs; begun in this order.
        folder: Each gets a folder in it.
        jobs: Processes side by side.
        tell: For progress.

    Raises:
        ConfigError: A run was begun by another configuration, or its configuration makes no sense.
    """
    say = tell or (lambda _: None)
    waiting = deque(cell for cell in cells if not _begun(cell, folder / cell.name))
    say(f"{len(cells)} runs, {len(cells) - len(waiting)} of them done")
    running: list[_Running] = []
    failed: dict[str, str] = {}
    try:
        while waiting or running:
            for _ in range(min(len(waiting), jobs - len(running))):
                cell = waiting.popleft()
                started = _start(cell, folder / cell.name)
                if started is None:  # a process of an earlier start is still at it
                    waiting.append(cell)
                else:
                    running.append(started)
                    say(f"{cell.name}: begins")
            time.sleep(LOOK)
            running = [one for one in running if not _ended(one, failed, say)]
    finally:
        for one in running:
            one.process.terminate()
            one.process.wait()
    return failed


def _begun(cell: Cell, folder: Path) -> bool:
    """Write the configuration of a run, or see that it is the one that is there; return whether the run has ended."""
    disjoint(cell.config)
    folder.mkdir(parents=True, exist_ok=True)
    path, form = folder / "config.json", json.dumps(cell.config.to_json(), indent=2)
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(form, encoding="utf-8")
        draft.replace(path)
    elif path.read_text(encoding="utf-8") != form:
        raise ConfigError(
            f"{folder} was begun with other settings", fix="name another folder, or remove that of the run"
        )
    return end_of(folder) is not None


def _start(cell: Cell, folder: Path) -> _Running | None:
    lock = (folder / ".lock").open("ab")
    with lock, (folder / "log.txt").open("ab") as log:
        if not _locked(lock):
            return None
        threads = str(cell.config.model.threads or 1)
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
        }
        # The lock is inherited, and held until the process has ended.
        process = subprocess.Popen(  # noqa: S603 - our own verb
            [sys.executable, *_together(cell.ranks), "-m", "agentenvs.cli", "train", "--resume", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=(lock.fileno(),),
        )
    return _Running(cell, folder, process)


def _together(ranks: int) -> list[str]:
    if ranks == 1:
        return []
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ended(one: _Running, failed: dict[str, str], say: Tell) -> bool:
    code = one.process.poll()
    if code is None:
        if time.monotonic() - one.told > TOLD_EVERY:
            one.told = time.monotonic()
            say(f"{one.cell.name}: {_standing(one.folder)}")
        return False
    end = end_of(one.folder)
    if code == 0 and end is not None:
        say(f"{one.cell.name}: ended, {end['why']}")
        return True
    said = (one.folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()[::-1]
    reason = next((line for line in said if line.startswith("AE")), said[0] if said else f"exit code {code}")
    failed[one.cell.name] = reason
    say(f"{one.cell.name}: failed with {code}; {one.folder / 'log.txt'} says more")
    return True


def _standing(folder: Path) -> str:
    if not (folder / "metrics.jsonl").exists():
        return "opening"
    lines = picture.read(folder)
    if not lines:
        return "opening"
    last = lines[-1]
    told = [f"{last['kind']} {last['step']:.0f}", f"{last['cpu_seconds']:.0f} CPU s"]
    told += [f"{name} {last[name]:.3f}" for name in ("loss", "success", "eval_success") if name in last]
    return ", ".join(told)


# ---- what came out -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """Success of an evaluation, with its 95 % interval (Wilson)."""

    wins: int
    episodes: int

    @property
    def value(self) -> float:
        """The share of episodes that were won."""
        return self.wins / self.episodes if self.episodes else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high."""
        low, high = wilson(self.wins, self.episodes)
        return low, high

    def __str__(self) -> str:
        """Write it as it stands in a table, in percent."""
        low, high = self.interval
        return f"{100 * self.value:.1f} ({100 * low:.1f} to {100 * high:.1f})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        low, high = self.interval
        return {"success": self.value, "low": low, "high": high, "wins": self.wins, "episodes": self.episodes}


@dataclass(frozen=True, slots=True)
class Gain:
    """Two evaluations on the same scenarios, and their difference, second minus first (Bonett and Price 2012)."""

    first: Rate
    second: Rate
    low: float
    high: float

    @property
    def value(self) -> float:
        """The difference."""
        return self.second.value - self.first.value

    @property
    def apart(self) -> bool:
        """Whether the second's interval lies above the first's."""
        return self.second.interval[0] > self.first.interval[1]

    def __str__(self) -> str:
        """Write the difference as it stands in a table, in points."""
        return f"{100 * self.value:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        difference = {"value": self.value, "low": self.low, "high": self.high}
        return {"first": self.first.to_json(), "second": self.second.to_json(), "difference": difference}


def outcomes(folder: Path, step: int | None = None) -> Outcomes:
    """Return who won what in an evaluation of a run, the last one where no step is named.

    Raises:
        ConfigError: It has none.
    """
    if step is None:
        found = [int(path.stem[5:]) for path in (folder / "evaluations").glob("step-*.json")]
        if not found:
            raise ConfigError(f"{folder} has no evaluation", fix="set evaluation.every, and resume it to its end")
        step = max(found)
    path = folder / "evaluations" / f"step-{step}.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["episodes"]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read", why=str(error)) from error
    return {(row["world"], row["split"], row["index"]): row["success"] for row in rows}


def rate(found: Outcomes) -> Rate:
    """Return the success of an evaluation."""
    return Rate(sum(found.values()), len(found))


def gain(first: Outcomes, second: Outcomes) -> Gain:
    """Return what a second evaluation won beside a first.

    Raises:
        ConfigError: They are on different scenarios.
    """
    if set(first) != set(second):
        raise ConfigError("the evaluations are on different scenarios", fix="give both the same [evaluation]")
    only_first = sum(won and not second[key] for key, won in first.items())
    only_second = sum(won and not first[key] for key, won in second.items())
    low, high = paired_rate_interval(only_first, only_second, len(first))
    return Gain(rate(first), rate(second), low, high)
