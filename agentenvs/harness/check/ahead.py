"""Tries an environment in a worker process before it is played in this one.

One that hangs, or takes its process down, and does not declare ``execution: process`` would take the check with it, and
nobody would be told why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentenvs.core.process import WorkerFailure
from agentenvs.core.record import parse_records
from agentenvs.harness.check.findings import UNDONE, Fault, Sight, short
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.plays import ORACLE, rolled, strolls, where_of
from agentenvs.harness.check.subject import Effort, Subject

HARMS = ("step_timeout", "step_crashed")
"""Codes of what a process does not survive, or does not come back from."""

SECONDS = {"inline": 10.0, "thread": 60.0}
"""Wall-clock limits of a turn here: ``inline`` means that it is bounded, ``thread`` that it comes back."""

_EFFORT = Effort(tasks=1, walks=1, turns=8, points=0, branched=0, endings=0, junk=0, twins=0, strolls=1)
_FIX = 'mend it, or declare Capabilities(execution="process") and check again: then it lives in a worker of its own'


def harm(subject: Subject) -> Fault | None:
    """Return what an environment does to the process it runs in; None where it does nothing, or cannot be tried."""
    declared = subject.spec.capabilities
    if not isinstance(subject, Local) or Sight.SOURCE not in subject.sights or declared.execution == "process":
        return None
    seconds = SECONDS[declared.execution]
    hosted = replace(declared, execution="process", step_seconds=seconds, memory_mb=0, cpu_seconds=None)
    spec = replace(subject.spec, capabilities=hosted)
    split = subject.split or spec.default_split
    guest = Local(subject.name, spec, subject.entry_point, None, subject.options, _EFFORT, split)
    guest.patience = 1
    try:
        return next(_harms(guest), None)
    except Exception:  # noqa: BLE001 - boundary: what is wrong otherwise is told by the checks
        return None
    finally:
        guest.end()


def _harms(guest: Local) -> Iterator[Fault]:
    if ORACLE in guest.spec.players:
        (record,) = parse_records(rolled(guest, ORACLE, guest.ref).record)
        for turn in record.turns:
            if turn["error"] in HARMS:
                task = f"{guest.ref.split}/{guest.ref.index} ({ORACLE})"
                yield _fault("a turn", turn["error"], f"{task}, turn {turn['turn']}: {short(turn['action'], 80)}")
    for play in strolls(guest, guest.ref, 1):
        for number, seen in enumerate(play.turns[1:], start=1):
            if seen.error in HARMS:
                yield _fault("a turn", seen.error, where_of(play, number))
        cause = None if play.broken is None else play.broken.error.__cause__
        if play.broken is not None and isinstance(cause, WorkerFailure) and cause.code in HARMS:
            yield _fault("it", cause.code, play.broken.where)


def _fault(who: str, code: str, where: str) -> Fault:
    return Fault(f"{who} {UNDONE[code]} ({code})", where, _FIX)
