"""Runs an audit: hacks, anchors, relations, shaping, secrets, records, and last the score, which all others feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError
from agentenvs.harness.audit import addresses, anchors, borrowed, grader, hacks, relations, shaping, tampering
from agentenvs.harness.audit.report import Report
from agentenvs.harness.audit.rows import Row
from agentenvs.harness.audit.theatre import Theatre
from agentenvs.harness.check.local import Local
from agentenvs.harness.check.run import subject_of
from agentenvs.harness.check.subject import QUICK as QUICK_CHECK
from agentenvs.harness.check.subject import Effort, Subject, slowed
from agentenvs_scoring.audits import Audit, audit_of

if TYPE_CHECKING:
    import httpx

Progress = Callable[[int, int, int], None]
"""Called with rows done, rows in all, and breaches."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is tried; every number is a count."""

    episodes: int
    """Tasks of the main split that each hack is played on; other splits get one each."""
    own: int
    """Of these, how many the environment's own hacks are played on, which its tests play on more."""
    anchored: int
    """Episodes of an anchor's band."""
    mutants: int
    outcomes: int
    """Of the battery that mutants are tried with."""


QUICK = Size(episodes=12, own=4, anchored=6, mutants=150, outcomes=4_000)
FULL = Size(episodes=48, own=24, anchored=60, mutants=100_000, outcomes=12_000)


def audit_env(
    target: str | type[Environment],
    *,
    quick: bool = False,
    seed: int = 0,
    episodes: int | None = None,
    options: Mapping[str, Any] | None = None,
    split: str | None = None,
    env: str | None = None,
    token: str | None = None,
    transport: httpx.BaseTransport | None = None,
    progress: Progress = lambda done, total, breaches: None,
) -> Report:
    """Try to earn what is not deserved, and say what came of it.

    Args:
        target: An environment class, ``"module:Class"``, a file, an id or slug of the registry, or a server's URL.
        quick: Try less of everything.
        seed: Seed of all draws; the same gives the same table.
        episodes: Tasks of the main split each hack is played on.
        options: Options the environment is made with.
        split: The one split to look at.
        env: Which environment of a server.
        token: What a server asks of its clients.
        transport: What carries the requests to a server instead of a connection.
        progress: Called after each row.

    Raises:
        ConfigError: The target is no environment, or none of its tasks can be begun.
        UserError: Some subclass: there is none of that id, it refuses its options, it has no such split.
    """
    size = QUICK if quick else FULL
    if episodes is not None:
        if episodes < 1:
            raise ConfigError(f"{episodes} episodes are none", fix="give at least 1")
        size = replace(size, episodes=episodes)
    subject = subject_of(target, options, split=split, env=env, token=token, transport=transport)
    subject.effort = _effort(subject, size)
    said = audit_of(subject.spec.slug, _class_of(subject))
    theatre = Theatre(subject, said, seed)
    try:
        rows = list(_rows(theatre, size, progress))
        tasks = tuple(f"{ref.split}/{ref.index}" for ref in subject.refs)
        return Report(subject.name, subject.spec, quick, seed, tasks, tuple(rows))
    finally:
        theatre.close()


def _effort(subject: Subject, size: Size) -> Effort:
    effort = replace(QUICK_CHECK, tasks=size.episodes)
    hosted = subject.spec.capabilities.execution == "process" or not isinstance(subject, Local)
    return replace(slowed(effort), tasks=max(size.episodes // 4, 3)) if hosted else effort


def _class_of(subject: Subject) -> type[Any] | None:
    if not isinstance(subject, Local):
        return None
    return subject.cls or registry.load(subject.entry_point)


def _rows(theatre: Theatre, size: Size, progress: Progress) -> Iterator[Row]:
    parts = (hacks, addresses, relations, shaping, borrowed, tampering)
    most = sum(part.count(theatre) for part in (*parts, grader)) + anchors.count(theatre, size.anchored)
    breaches = 0
    for number, row in enumerate(_in_order(theatre, size), start=1):
        breaches += row.verdict == "breach"
        progress(number, most, breaches)
        yield row


def _in_order(theatre: Theatre, size: Size) -> Iterator[Row]:
    yield from anchors.rows(theatre, size.anchored)
    yield from hacks.rows(theatre, size.own)
    yield from addresses.rows(theatre)
    yield from relations.rows(theatre)
    yield from shaping.rows(theatre)
    yield from borrowed.rows(theatre)
    yield from tampering.rows(theatre)
    yield from grader.rows(theatre, mutants=size.mutants, outcomes=size.outcomes)


__all__ = ["FULL", "QUICK", "Audit", "Progress", "Size", "audit_env"]
