"""A host's folder: its promise, its journal, its signing key, and what became of its tickets.

=======================  =======================================================================
``epoch.json``           what the board is about, with the salt of the commitment; for its owner
``published.json``       the same without what is secret, with the public key; for everybody
``journal.db``           the server's journal, with the tickets
``signing.key``          signs receipts
``runs/TICKET``          ``result.json`` and the whole records of a settled ticket
``receipts``             signed receipts of settled tickets
=======================  =======================================================================

This is where servers and boards meet: neither knows of the other. Settling may be killed anywhere and done again: a
ticket is marked as settled when all else is written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import AgentEnvsError, ConfigError, DataError
from agentenvs.core.sealed import sealed_secret
from agentenvs.leaderboard import receipts, texts
from agentenvs.leaderboard.hosting import epoch as epochs
from agentenvs.leaderboard.hosting import panels
from agentenvs.leaderboard.hosting.judging import Given, Played, judge
from agentenvs.leaderboard.hosting.results import HostedResult

if TYPE_CHECKING:
    from agentenvs_servers.journal.opening import Opened
    from agentenvs_servers.journal.tickets import Held

Admit = Callable[[HostedResult], str]
"""Enters what came of a ticket on a board, once, and returns the name of its row."""

JOURNAL = "journal.db"

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Line(NamedTuple):
    """A ticket, in short."""

    ticket: str
    contestant: str
    attempt: int
    planned: int
    opened: int
    seconds: float
    """Until nothing more is opened."""
    state: str
    """``open``, ``due`` or ``settled``."""


class Settled(NamedTuple):
    """A ticket that was settled."""

    result: HostedResult
    receipt: Path
    row: str | None
    """On the board; None where none was given."""


def begin(folder: Path, wanted: Mapping[str, Any]) -> epochs.Epoch:
    """Return the epoch of a folder; a new one where the folder has none.

    Args:
        folder: The host's.
        wanted: What it is to be about: board, env, split, size, options, shared, own.

    Raises:
        ConfigError: The folder hosts something else, or the secret is another one, or none.
    """
    if not _ID.fullmatch(wanted["board"]):
        raise ConfigError(
            f"{wanted['board']!r} is no id of a board", fix="lower-case letters, digits, '.', '_' and '-'"
        )
    if not (folder / epochs.NAME).exists():
        made = epochs.Epoch.begin(**wanted)
        panels.order(sealed_secret(), "", made.shared, made.own, made.size)  # a mistake in it is to be told now
        made.write(folder)
    found = epochs.read(folder)
    if different := [name for name, value in wanted.items() if getattr(found, name) != value]:
        raise ConfigError(
            f"{folder} hosts another board",
            why=f"its {different[0]} is {getattr(found, different[0])!r}",
            fix="give what it was begun with, or another --folder",
        )
    found.must_be_ours()
    signer = receipts.Signer.of(folder / "signing.key")
    published = {**found.published(), "key": signer.public.hex(), "key_id": signer.id}
    try:
        (folder / "published.json").write_bytes(canonical_bytes(published) + b"\n")
    except OSError as error:
        raise DataError(f"{folder} cannot be written", why=str(error)) from error
    return found


def issue(
    folder: Path, contestant: str, seconds: float, *, agent: str = "agent", again: bool = False
) -> tuple[str, Held]:
    """Issue a ticket for a host's board, and return it with what is known of it.

    Raises:
        Refused: The name cannot be shown.
        ConfigError: The contestant had one, or the time makes no sense.
        DataError: The folder hosts nothing.
    """
    from agentenvs_servers.journal import tickets

    epoch = epochs.read(folder)
    epoch.must_be_ours()
    texts.check_name(contestant, "contestant")
    texts.check_name(agent, "agent")
    now = time.time()
    terms = tickets.Terms(epoch.board, contestant, epoch.env, epoch.split, epoch.secret, now + seconds, agent)
    order = partial(panels.order, sealed_secret(), shared=epoch.shared, own=epoch.own, size=epoch.size)
    named = partial(panels.name_of, epoch.board, epoch.secret, contestant)
    with _journal(folder) as opened, opened.engine.begin() as connection:
        _must_be_one(contestant, tickets.known(connection))
        return tickets.issue(connection, terms, order, now, again=again, named=named)


def _must_be_one(contestant: str, issued: Iterable[Held]) -> None:
    """Refuse a name that looks like that of an earlier ticket: a second one would pass for a first attempt.

    Raises:
        ConfigError: It does.
    """
    for held in issued:
        if held.contestant != contestant and texts.key_of(held.contestant) == texts.key_of(contestant):
            raise ConfigError(
                f"{contestant!r} looks like {held.contestant!r}, who has had a ticket",
                why="names that look alike are one contestant",
                fix="issue it in that name, as a further attempt (--again), or in a name of its own",
            )


def lines(folder: Path) -> list[Line]:
    """Return the tickets of a host, the oldest first.

    Raises:
        DataError: The folder hosts nothing.
    """
    return [line for _, line in _standing(folder)]


def due(folder: Path) -> list[Held]:
    """Return the tickets that nothing more can come of, and that are not settled.

    Raises:
        DataError: The folder hosts nothing.
    """
    return [held for held, line in _standing(folder) if line.state == "due"]


def _standing(folder: Path) -> list[tuple[Held, Line]]:
    from agentenvs_servers.journal import tickets
    from agentenvs_servers.journal.looking import reading

    epochs.read(folder)
    found, now = [], time.time()
    with _journal(folder, writes=False) as opened, reading(opened) as connection:
        for held in tickets.known(connection):
            is_due = held.settled is None and tickets.is_due(held, tickets.played(connection, held, records=False), now)
            state = "due" if is_due else "open" if held.settled is None else "settled"
            left = max(held.deadline - now, 0.0)
            line = Line(held.name, held.contestant, held.attempt, len(held.numbers), held.opened, left, state)
            found.append((held, line))
    return found


def settle(
    folder: Path, machine: Mapping[str, Any], admit: Admit | None = None
) -> Iterator[Settled | tuple[str, AgentEnvsError]]:
    """Play again what tickets came to that are due, write it down, and enter it on a board.

    A ticket that cannot be settled holds up no other: it stays due.

    Args:
        folder: The host's.
        machine: Options that no record holds, such as a folder of data.
        admit: Enters a result on a board.

    Yields:
        One after another; the name of a ticket and why, where it cannot be: a record does not happen again, or the
        board refuses it.

    Raises:
        UserError: Some subclass: the folder hosts nothing, or the secret is another one.
    """
    epoch = epochs.read(folder)
    epoch.must_be_ours()
    signer = receipts.Signer.of(folder / "signing.key")
    for held in due(folder):
        try:
            yield _settled(folder, held, epoch, signer, partial(judge, machine=machine), admit)
        except AgentEnvsError as error:
            yield held.name, error


def _settled(
    folder: Path,
    held: Held,
    epoch: epochs.Epoch,
    signer: receipts.Signer,
    judged: Callable[[Played, epochs.Epoch], HostedResult],
    admit: Admit | None,
) -> Settled:
    played, records = _taken(folder, held)
    result = judged(played, epoch)
    receipt = _written(folder, result, records, signer)
    row = None if admit is None else admit(result)
    _mark(folder, held)
    return Settled(result, receipt, row)


def _taken(folder: Path, held: Held) -> tuple[Played, list[bytes | None]]:
    """Return what a server has of a ticket; what still runs after its time is ended first."""
    from agentenvs_servers.journal import tickets

    with _journal(folder) as opened, opened.engine.begin() as connection:
        tickets.end_late(connection, held, opened.now(connection))
        outcomes = tickets.played(connection, held)
    given = tuple(Given(one.number, one.state != "unopened", one.ending, one.record) for one in outcomes)
    return Played(held.name, held.contestant, held.agent, held.attempt, given), [one.record for one in outcomes]


def _written(folder: Path, result: HostedResult, records: list[bytes | None], signer: receipts.Signer) -> Path:
    """Write the result of a ticket, its records and its receipt; a receipt that is there and says the same stays."""
    run, receipt = folder / "runs" / result.ticket, folder / "receipts" / f"{result.ticket}.json"
    for place, record in enumerate(records):
        if record is not None:
            epochs.write_private(run / "records" / f"{place:06d}.jsonl", record)
    epochs.write_private(run / "result.json", canonical_bytes(result.to_json()) + b"\n")
    now = time.time()
    try:
        keys = {signer.id: signer.public}
        known = receipts.check(receipt.read_bytes(), keys, result.board, now)
        if known.result.to_json() == result.to_json():
            return receipt
    except (OSError, receipts.ReceiptError):
        pass
    epochs.write_private(receipt, signer.sign(result, now))
    return receipt


def _mark(folder: Path, held: Held) -> None:
    from agentenvs_servers.journal import tickets

    with _journal(folder) as opened, opened.engine.begin() as connection:
        tickets.settle(connection, held, time.time())


@contextmanager
def _journal(folder: Path, *, writes: bool = True) -> Iterator[Opened]:
    """Give the journal of a host, beside its server.

    Raises:
        DataError: There is none, or it cannot be used now.
    """
    from sqlalchemy.exc import DBAPIError

    from agentenvs_servers.journal.opening import visit

    opened = visit(str(folder / JOURNAL), writes=writes)
    try:
        yield opened
    except DBAPIError as error:
        why = str(error.orig).strip().partition("\n")[0]
        raise DataError(f"the journal of {folder} cannot be used", why=why, fix="try again later") from error
    finally:
        opened.engine.dispose()
