"""The same actions give the same bytes in another process: under other hash seeds, and with another clock.

Python draws the order of sets and of ``hash()`` anew for each process, so no number of runs in one process would show
that an environment depends on it. The other process is ``python -m agentenvs.harness.check.twin``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.harness.check.determinism import again, at
from agentenvs.harness.check.episodes import difference, rows
from agentenvs.harness.check.findings import Fault, Sight, Skip, check, short
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.plays import Play, plays
from agentenvs.harness.check.subject import Subject

HASH_SEEDS = ("0", "1")
CLOCK_SHIFT = 123_597_077
"""Seconds by which the clock of one of the processes is ahead: almost four years, and half a day, so that it is another
year, day, weekday, hour, minute, and the other half of the day."""

SECONDS = 300.0
"""Wall-clock limit of one process."""

_MOST_PLAYS = 12
_SETS = "sort what is read out of a set, and call no hash()"
_CLOCK = "read no clock, or read it through self.effect(), so that the record holds what it said"


@check("other hash seeds give the same bytes", Sight.SOURCE, promise="deterministic")
def hash_seeds(subject: Subject) -> Iterator[Fault]:
    """Play in processes with other values of PYTHONHASHSEED."""
    for name, runs in _runs(subject).items():
        if name != "clock":
            yield from _compared(subject, runs, f"PYTHONHASHSEED={name} gives other bytes", _SETS)


@check("another clock gives the same bytes", Sight.SOURCE, promise="deterministic")
def wall_clock(subject: Subject) -> Iterator[Fault]:
    """Play in a process whose clocks are ahead; differences that other hash seeds make as well are not told again."""
    runs = _runs(subject)
    seeded = [fault for name in HASH_SEEDS for fault in _compared(subject, runs[name], "", "")]
    if seeded:
        raise Skip("the episodes differ between processes for another reason already", "")
    yield from _compared(subject, runs["clock"], "another time of day gives other bytes", _CLOCK)


def _compared(subject: Subject, runs: JSON, what: str, fix: str) -> Iterator[Fault]:
    if isinstance(runs, str):
        yield Fault("it cannot be played in another process", runs, "let its module be imported without side effects")
        return
    for play, turns in zip(_shared(subject), runs, strict=True):
        found = difference(rows(play.turns), turns)
        if found is not None and again(subject, play) is None:
            yield Fault(what, at(play, found), fix)
            return


def _shared(subject: Subject) -> list[Play]:
    return plays(subject)[: min(_MOST_PLAYS, subject.effort.branched)]


def _runs(subject: Subject) -> dict[str, JSON]:
    """Return the rows of each play by process, or a text that says why there are none."""
    if not isinstance(subject, Local):
        raise Skip("there is no source to run")
    local = subject

    def made() -> dict[str, JSON]:
        jobs = {**{name: (name, 0) for name in HASH_SEEDS}, "clock": (HASH_SEEDS[0], CLOCK_SHIFT)}
        started = {name: _start(seed) for name, (seed, _) in jobs.items()}
        return {name: _answer(process, _job(local, jobs[name][1])) for name, process in started.items()}

    return subject.once("elsewhere", made)


def _job(subject: Local, shift: int) -> bytes:
    return canonical_bytes(
        {
            "spec": subject.spec.to_json() if subject.hosted else None,
            "entry_point": subject.entry_point,
            "options": subject.options,
            "shift": shift,
            "plays": [_form(play) for play in _shared(subject)],
        }
    )


def _form(play: Play) -> dict[str, JSON]:
    effects = [turn.effects for turn in play.turns]
    return {"task": play.ref.to_json(), "actions": list(play.actions), "effects": effects}


def _start(seed: str) -> subprocess.Popen[bytes]:
    paths: Sequence[str] = [path or os.getcwd() for path in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "agentenvs.harness.check.twin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": seed},
    )


def _answer(process: subprocess.Popen[bytes], job: bytes) -> JSON:
    """Return what a process answers to its job, or a text that says why it does not."""
    try:
        said, complaint = process.communicate(job, timeout=SECONDS)
        return json.loads(said)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"no answer within {SECONDS:g} s"
    except ValueError:
        last = complaint.decode(errors="replace").strip().splitlines()
        return short(last[-1] if last else f"exit status {process.returncode}", 300)


CHECKS = (hash_seeds, wall_clock)
