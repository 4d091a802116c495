"""Takes in what was played on a board's own server: results that its host has verified, with or without a receipt.

The host has the records of its sealed scenarios and has played them again; nothing of them comes here. What comes is
who played, how each episode ended and what it was worth. A ticket is good for one row, and so is a receipt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sqlalchemy import select

from agentenvs.core.canon import JSON, canonical, digest, sha256
from agentenvs.core.verdict import Ending
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.counting import count
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.schema import entries, receipts
from agentenvs.leaderboard.store import Entry, Store, opened
from agentenvs.leaderboard.verifying import Played


class HostedEpisode(Protocol):
    """One episode of a hosted run."""

    @property
    def place(self) -> int:
        """Of its scenario in its panel."""

    @property
    def panel(self) -> str:
        """``shared`` by all contestants, or the contestant's ``own``."""

    @property
    def ending(self) -> str | None:
        """None where it was never opened: it counts 0."""

    @property
    def turns(self) -> int:
        """Turns played."""

    @property
    def success(self) -> bool:
        """Whether it was won."""

    @property
    def reward(self) -> float:
        """What it was worth."""

    @property
    def record(self) -> str | None:
        """Digest of its record."""


class HostedRun(Protocol):
    """What a host hands over of a run."""

    @property
    def ticket(self) -> str:
        """Its name: one row a ticket."""

    @property
    def board(self) -> str:
        """Id of the board."""

    @property
    def contestant(self) -> str:
        """In whose name it was played."""

    @property
    def env(self) -> str:
        """Id of the environment."""

    @property
    def release(self) -> str:
        """Of the environment."""

    @property
    def spec(self) -> str:
        """Digest of its spec."""

    @property
    def options(self) -> Mapping[str, JSON]:
        """Of the episodes."""

    @property
    def split(self) -> str:
        """The sealed split."""

    @property
    def secret(self) -> str:
        """Name of the secret behind the scenarios."""

    @property
    def commitment(self) -> str:
        """What was published of it."""

    @property
    def episodes(self) -> Sequence[HostedEpisode]:
        """All of them, those that were never opened too."""


def admit_hosted(board: Path, result: HostedRun, receipt: bytes | None) -> str:
    """Enter a hosted run in a store and return the id of its row; the same ticket again changes nothing.

    Args:
        board: Folder of the store.
        result: What its host verified.
        receipt: The signed receipt, verified by the caller; the row is attested then.

    Raises:
        Refused: Another board, a name that cannot be shown, no more attempts, or a receipt that was used before.
    """
    with opened(board) as store:
        return admit(store, result, receipt)


def admit(store: Store, result: HostedRun, receipt: bytes | None) -> str:
    """Like :func:`admit_hosted`, in an opened store."""
    row = row_of(result.board, result.ticket)
    played = _episodes(result)
    if store.has(result.board, row):
        _the_same(store, result, row, played)
        return row
    made = _board(result)
    store.make(made, result.board)
    there = store.board(result.board)
    if there.lineage != made.lineage:
        raise Refused(
            "wrong-receipt",
            f"the run is not of the board {result.board}",
            why="another environment, release, secret, options or number of episodes",
            fix="send it to its own board",
        )
    _use(store, result, receipt, row)
    counted = count(played, there, row.encode())
    detail: dict[str, JSON] = {
        "told": dict.fromkeys(("agent", "model", "again", "learned", "suite")),  # nobody said
        "ticket": result.ticket,
        "commitment": result.commitment,
        "receipt": None if receipt is None else _readable(receipt),
        "played": _mark(played),
        "never_opened": sum(one.ending is None for one in result.episodes),
    }
    named = Submission(contestant=result.contestant, agent=getattr(result, "agent", "") or "agent")
    tier = "hosted" if receipt is None else "attested"
    store.insert(result.board, there, Entry(row, "contestant", tier, named, counted, detail=detail))
    store.rank_soon(result.board)
    return row


def _mark(played: Sequence[Played]) -> str:
    return digest([[one.place, one.record, one.ending, one.success, one.turns] for one in played])


def _the_same(store: Store, result: HostedRun, row: str, played: Sequence[Played]) -> None:
    """See that a ticket's row is of this run: a host begun anew with the same secret gives the same names again.

    Raises:
        Refused: It is another run.
    """
    with store.reading() as connection:
        found = select(entries.c.detail).where(entries.c.board == result.board, entries.c.id == row)
        detail = json.loads(connection.execute(found).scalar_one())
    if detail.get("played") != _mark(played):
        raise Refused(
            "old-receipt",
            f"the ticket {result.ticket} has a row of another run",
            why="a host begun anew with the same secret names its tickets alike, and a ticket is good for one row",
            fix="host with a new secret, or for a board of another name",
        )


def row_of(board: str, ticket: str) -> str:
    """Return the id of a ticket's row."""
    return f"ticket-{digest([board, ticket])[:40]}"


def _use(store: Store, result: HostedRun, receipt: bytes | None, row: str) -> None:
    """Note ticket and receipt as used.

    Raises:
        Refused: One of them was used for another row.
    """
    marks = [f"ticket/{result.board}/{result.ticket}"[:200]]
    marks += [] if receipt is None else [f"receipt/{sha256(receipt)}"]
    with store.writing() as connection:
        for mark in marks:
            used = connection.execute(select(receipts.c.entry).where(receipts.c.mark == mark)).scalar()
            if used is not None and used != row:
                raise Refused(
                    "old-receipt",
                    "the receipt was used before",
                    why=f"it is that of the row {used[:20]}; a receipt is good for one row",
                    fix="play with a new ticket",
                )
            if used is None:
                connection.execute(receipts.insert().values(mark=mark, board=result.board, entry=row))


def _board(result: HostedRun) -> Board:
    return Board(
        env=result.env,
        release=result.release,
        spec=result.spec,
        split=result.split,
        start=0,
        scenarios=len(result.episodes),
        trials=1,
        panel=digest([result.secret, result.commitment]),
        options=canonical(dict(result.options)),
        budgets="{}",
        scoring="",
        sealed=True,
    )


def _episodes(result: HostedRun) -> list[Played]:
    shared = sum(one.panel == "shared" for one in result.episodes)
    found = []
    for number, one in enumerate(result.episodes):
        mark = digest([result.ticket, number])
        place = one.place if one.panel == "shared" else shared + one.place
        ending: Ending = _ending(one.ending)
        counts = ending not in ("abandoned", "aborted")
        found.append(
            Played(
                place=place,
                record=one.record or mark,
                actions=mark,
                moves=mark,
                success=one.success and counts,
                reward=one.reward if counts else min(one.reward, 0.0),
                turns=one.turns,
                invalid=0,
                ending=ending,
                failed=ending == "aborted",
            )
        )
    return found


def _ending(said: str | None) -> Ending:
    endings: dict[str | None, Ending] = {"terminated": "terminated", "truncated": "truncated", "aborted": "aborted"}
    return endings.get(said, "abandoned")


def _readable(receipt: bytes) -> JSON:
    try:
        return json.loads(receipt)
    except ValueError:
        return {"sha256": sha256(receipt)}
