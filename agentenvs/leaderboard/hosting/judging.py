"""Plays the records of a ticket again, with the operator's secret, and says what each is worth.

The records are the operator's own, whole; they are believed as little as anybody's. A single one that cannot be had
again, to the last digest, or is of something else than the ticket gave out, and nothing of the ticket is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from agentenvs._version import __version__
from agentenvs.core import registry
from agentenvs.core.errors import RecordError
from agentenvs.core.record import Record, parse_records
from agentenvs.core.replay import env_for, replay
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Verdict
from agentenvs.harness.rollout import counted
from agentenvs.leaderboard.hosting.epoch import Epoch
from agentenvs.leaderboard.hosting.panels import place_of
from agentenvs.leaderboard.hosting.results import HostedEpisode, HostedResult


@dataclass(frozen=True, slots=True)
class Given:
    """A scenario of a ticket, and what its server has of it."""

    number: int
    """Index in the sealed split."""
    opened: bool
    ending: str | None
    """As the server says; None where it was never ended."""
    record: bytes | None
    """The whole record."""


@dataclass(frozen=True, slots=True)
class Played:
    """A ticket whose time is over."""

    ticket: str
    contestant: str
    agent: str
    attempt: int
    scenarios: tuple[Given, ...]
    """In the order in which they were given out."""


def judge(played: Played, epoch: Epoch, machine: Mapping[str, Any] | None = None) -> HostedResult:
    """Play every record of a ticket again, and return what it is worth.

    Args:
        played: What the server has of it.
        epoch: What was promised; its secret is that of the environment's variables.
        machine: Options that no record holds, such as a folder of data.

    Raises:
        ConfigError: The secret is another one.
        RecordError: A record is damaged, of something else, or does not happen again.
        UserError: Some other subclass: the environment cannot be played here.
    """
    epoch.must_be_ours()
    spec = registry.spec(epoch.env)
    numbers = [given.number for given in played.scenarios]
    episodes = []
    for given in played.scenarios:
        record = None if given.record is None else _whole(given, epoch, machine or {})
        episodes.append(_counted(given, record, numbers, epoch.shared))
    return HostedResult(
        ticket=played.ticket,
        board=epoch.board,
        contestant=played.contestant,
        agent=played.agent,
        attempt=played.attempt,
        env=spec.id,
        release=spec.release,
        spec=spec.digest,
        version=__version__,
        options=epoch.options,
        split=epoch.split,
        secret=epoch.secret,
        commitment=epoch.commitment,
        episodes=tuple(episodes),
    )


def _whole(given: Given, epoch: Epoch, machine: Mapping[str, Any]) -> Record:
    """Return a record that was played again."""
    where = f"the record of scenario {given.number}"
    found = parse_records(given.record or b"", where)
    if len(found) != 1:
        raise RecordError(f"{where} is {len(found)} records")
    (record,) = found
    _check_header(record, TaskRef(epoch.split, given.number), epoch, where)
    if record.footer is None or record.footer["ending"] != given.ending:
        raise RecordError(f"{where} has not the end that its server says")
    report = replay(record, env_for(record, **machine))
    if not report.equal:
        raise RecordError(f"{where} does not happen again", why=str(report.divergence)[:300])
    return record


def _check_header(record: Record, ref: TaskRef, epoch: Epoch, where: str) -> None:
    header, spec = record.header, registry.spec(epoch.env)
    if record.ref != ref or header["env"] != epoch.env:
        raise RecordError(f"{where} is of {header['env']} {record.ref}", why=f"the ticket gave out {ref}")
    if (header["release"], header["spec"]) != (spec.release, spec.digest):
        raise RecordError(f"{where} is of release {header['release']}, here is {spec.release}")
    if header["options"] != epoch.options:
        raise RecordError(f"{where} was made with other options than the board's")
    if header["privileged"] or header.get("forked_from") is not None or header["library"] is not None:
        raise RecordError(f"{where} is of a player with knowledge from elsewhere")


def _counted(given: Given, record: Record | None, numbers: Sequence[int], shared: int) -> HostedEpisode:
    panel, place = place_of(given.number, numbers, shared)
    if not given.opened:
        return HostedEpisode(place, panel, None, 0, False, 0.0, None)
    if record is None or record.footer is None:  # lost with its world, or still running at the deadline
        lost: Literal["abandoned", "aborted"] = "abandoned" if given.ending == "abandoned" else "aborted"
        return HostedEpisode(place, panel, lost, 0, False, 0.0, None)
    ending = cast("Literal['terminated', 'truncated', 'abandoned', 'aborted']", record.footer["ending"])
    reward, success = counted(ending, record.verdict or Verdict(0.0, False))
    return HostedEpisode(place, panel, ending, record.footer["turns"], success, reward, record.digest)
