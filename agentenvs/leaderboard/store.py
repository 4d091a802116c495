"""Where boards and their entries are kept: a database, and beside it the bundles, each under its digest.

    FOLDER/board.db      boards, entries, refusals, the queue; or a PostgreSQL database
    FOLDER/bundles/      what was admitted, so that it can be verified and scored again
    FOLDER/inbox/        what is waiting to be verified

A bundle is on disk before its entry is in the database, and a transaction decides: two who send at once wait for each
other there, and sending the same file twice is sending it once. Places are computed when an entry comes in, never when
a page is asked for.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, RowMapping, func, select

from agentenvs.core.canon import JSON, canonical, sha256
from agentenvs.core.database import Kept
from agentenvs.core.errors import DataError
from agentenvs.harness.manifest import now
from agentenvs.leaderboard import clean, ranking, texts
from agentenvs.leaderboard.boards import Board, machine_options
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.clean import BOUNDS, Bounds, Outcome
from agentenvs.leaderboard.copies import Earlier, Likeness, likeness
from agentenvs.leaderboard.counting import Counted, count
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.schema import VERSION_TABLE, boards, entries, metadata, plays, refusals
from agentenvs.leaderboard.verifying import Progress, Terms, Verified

KEPT = Kept(
    "leaderboard",
    "--db",
    metadata,
    Path(__file__).parent / "migrations",
    lock=7267217,
    version_table=VERSION_TABLE,
)

_OURS = "the board"
"""Contestant of its yardsticks."""

SOON = 2_000
"""Entries up to which places are computed at once as one comes in; above, when nothing is waiting."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What comes into a board."""

    id: str
    kind: str
    tier: str
    submission: Submission
    counted: Counted
    bundle: str | None = None
    player: str | None = None
    knows: bool = False
    """An anchor that is shown the scenarios."""
    detail: Mapping[str, JSON] = field(default_factory=dict)


class Store:
    """The boards in a folder. Use :func:`opened`."""

    def __init__(self, folder: Path, engine: Engine, machine: Mapping[str, Any], bounds: Bounds) -> None:
        self.folder = folder
        self.engine = engine
        self.machine = machine
        self.bounds = bounds

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that takes no lock."""
        with self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a transaction that no other writer is beside."""
        with self.engine.begin() as connection:
            KEPT.lock_writers(connection)
            yield connection

    def make(self, board: Board, board_id: str | None = None) -> bool:
        """Add a board; return False where it is there already.

        Args:
            board: The board.
            board_id: Its name, where that is not made of its own content: a hosted run's.
        """
        made = board_id or board.id
        with self.writing() as connection:
            if connection.execute(select(boards.c.id).where(boards.c.id == made)).first():
                return False
            values = {"lineage": board.lineage, "form": canonical(board.to_json()), "created": now(), "open": True}
            counts = {"entries": 0, "contestants": 0, "standing": "{}"}
            connection.execute(boards.insert().values(id=made, **values, **counts))
        return True

    def board(self, board_id: str) -> Board:
        """Return a board.

        Raises:
            Refused: There is none.
        """
        with self.reading() as connection:
            form = connection.execute(select(boards.c.form).where(boards.c.id == board_id)).scalar()
        if form is None:
            raise Refused("no-board", f"there is no board {board_id[:160]!r}", fix="agentenvs leaderboard ls")
        return Board.from_json(json.loads(form))

    def verify(self, path: Path, board: Board, progress: Progress | None = None) -> Outcome:
        """Verify a bundle for a board in a clean process.

        Raises:
            Refused: See :func:`agentenvs.leaderboard.clean.verified`.
        """
        terms = Terms(machine=machine_options(board, self.machine))
        return clean.verified(path, board, terms, self.bounds, progress)

    def admit(self, board_id: str, data: bytes, owner: str = "", progress: Progress | None = None) -> str:
        """Verify a bundle, take it in, and return the id of its entry. The same bundle again changes nothing.

        Args:
            board_id: Of the board.
            data: The bundle.
            owner: Who is known to send it; its submission must be in that name. Nobody is known where empty.
            progress: Told of every few episodes.

        Raises:
            Refused: It is not taken; where it came so far that it has a name, the refusal is kept.
        """
        digest = sha256(data)
        if self.has(board_id, digest):
            return digest
        board = self._taking(board_id)
        # A file of its own: somebody else may send the same bundle at this moment.
        with tempfile.TemporaryDirectory(prefix="agentenvs-bundle-") as folder:
            path = Path(folder) / f"{digest}.zip"
            path.write_bytes(data)
            return self.admit_file(board_id, board, path, owner, progress)

    def admit_file(
        self, board_id: str, board: Board, path: Path, owner: str = "", progress: Progress | None = None
    ) -> str:
        """Like :meth:`admit`, for a bundle that is a file already."""
        try:
            found = self.verify(path, board, progress)
        except Refused as refused:
            self.note(board_id, path.stem, None, refused)
            raise
        try:
            if owner and texts.key_of(owner) != texts.key_of(found.submission.contestant):
                raise Refused(
                    "not-yours",
                    f"it is in the name of {found.submission.contestant}",
                    why=f"the token is that of {owner}",
                    fix="send it in your own name",
                )
            self.keep("bundles", path.read_bytes())
            self.insert(board_id, board, _entry(found, board))
        except Refused as refused:
            mine = found.submission if refused.reason != "not-yours" else None  # it tells nothing of whom it names
            self.note(board_id, found.digest, mine, refused)
            raise
        self.rank_soon(board_id)
        return found.digest

    def insert(self, board_id: str, board: Board, entry: Entry) -> bool:
        """Take an entry in; return False where it is there already.

        Raises:
            Refused: The board is closed, the contestant has had all attempts, or the play is that of another entry.
        """
        who = texts.key_of(entry.submission.contestant)
        with self.writing() as connection:
            known = select(entries.c.no).where(entries.c.board == board_id, entries.c.id == entry.id)
            if connection.execute(known).first():
                return False
            if not connection.execute(select(boards.c.open).where(boards.c.id == board_id)).scalar():
                raise _closed(board_id)
            mine = (entries.c.board == board_id, entries.c.who == who, entries.c.kind == "contestant")
            before = connection.execute(select(func.count()).where(*mine)).scalar_one()
            detail = dict(entry.counted.detail) | dict(entry.detail)
            if entry.kind == "contestant":
                _check_name(entry.submission.contestant)
                detail["alike"] = [list(note) for note in _check_entry(connection, board_id, board, entry, who, before)]
            _write(connection, board_id, entry, who, before + 1, detail)
            _recount(connection, board_id)
        return True

    def has(self, board_id: str, entry: str) -> bool:
        """Return whether a board has an entry."""
        with self.reading() as connection:
            found = select(entries.c.no).where(entries.c.board == board_id, entries.c.id == entry)
            return connection.execute(found).first() is not None

    def note(self, board_id: str, digest: str, who: Submission | None, refused: Refused) -> None:
        """Keep a refusal, for everybody to see."""
        named = {
            "contestant": who.contestant if who else "",
            "who": texts.key_of(who.contestant) if who else "",
            "agent": who.agent if who else "",
        }
        said = {name: getattr(refused, name)[:1_000] for name in ("code", "what", "why", "fix")}
        with self.writing() as connection:
            same = (refusals.c.board == board_id, refusals.c.bundle == digest, refusals.c.code == refused.code)
            if not connection.execute(select(refusals.c.no).where(*same)).first():
                row = {"board": board_id, "bundle": digest[:64], "created": now(), **named, **said}
                connection.execute(refusals.insert().values(**row))

    def rank_soon(self, board_id: str) -> None:
        """Compute the places of a board now, unless that takes so long that it should wait."""
        with self.reading() as connection:
            many = connection.execute(select(boards.c.entries).where(boards.c.id == board_id)).scalar_one()
        if many <= SOON:
            self.rank(board_id)

    def rank(self, board_id: str) -> None:
        """Compute the places of a board."""
        with self.reading() as connection:
            rows = connection.execute(_ranking(board_id)).mappings().all()
        order = sorted(rows, key=lambda row: (-row["rate"], -row["reward"], row["turns"], row["no"]))
        players = [row for row in order if row["kind"] == "contestant"]
        found = _places(players)
        intervals = dict(zip((row["no"] for row in players), found.intervals, strict=True))
        values = [
            {
                "b_no": row["no"],
                "position": place,
                "best": intervals[row["no"]].best if row["no"] in intervals else None,
                "worst": intervals[row["no"]].worst if row["no"] in intervals else None,
            }
            for place, row in enumerate(order, start=1)
        ]
        standing = {"method": ranking.METHOD, "pairs": found.pairs, "critical": found.critical, "entries": len(players)}
        with self.writing() as connection:
            if values:
                placed = entries.update().where(entries.c.no == sa.bindparam("b_no"))
                names = ("position", "best", "worst")
                connection.execute(placed.values({name: sa.bindparam(name) for name in names}), values)
            connection.execute(boards.update().where(boards.c.id == board_id).values(standing=canonical(standing)))

    def keep(self, room: str, data: bytes) -> Path:
        """Write a bundle under its digest, whole or not at all, and return its path.

        Raises:
            DataError: The disk does not take it.
        """
        digest = sha256(data)
        folder = self.folder / room / digest[:2] if room == "bundles" else self.folder / room
        path = folder / f"{digest}.zip"
        part = folder / f".{digest}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists():
                return path
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise DataError(f"a bundle cannot be written to {folder}", why=str(error), fix="make room") from error
        return path

    def bundle_path(self, digest: str) -> Path:
        """Return where an admitted bundle lies."""
        return self.folder / "bundles" / digest[:2] / f"{digest}.zip"

    def _taking(self, board_id: str) -> Board:
        board = self.board(board_id)
        if board.sealed:
            raise Refused(
                "needs-receipt",
                "the board is sealed: it takes what was played on its own server",
                why="records from elsewhere do not show that its scenarios were unknown",
                fix="play it with a ticket: agentenvs leaderboard ticket, then agentenvs eval --ticket",
            )
        with self.reading() as connection:
            if not connection.execute(select(boards.c.open).where(boards.c.id == board_id)).scalar():
                raise _closed(board_id)
        return board


@contextmanager
def opened(
    folder: Path, url: str | None = None, machine: Mapping[str, Any] | None = None, bounds: Bounds = BOUNDS
) -> Iterator[Store]:
    """Give the boards in a folder, made where need be.

    Args:
        folder: Where the bundles are, and the database where it is a file.
        url: Another database.
        machine: Options of environments that belong to this machine, such as a folder of data.
        bounds: What a verification may use.

    Raises:
        UserError: Some subclass: the folder or the database cannot be used.
    """
    with KEPT.opened(url or str(folder / "board.db")) as engine:
        yield Store(folder, engine, dict(machine or {}), bounds)


def _closed(board_id: str) -> Refused:
    return Refused(
        "closed",
        f"the board {board_id} takes no more entries",
        why="its scoring was changed: the board that followed it has all its entries, scored again",
        fix="send it to that board",
    )


def _entry(found: Outcome, board: Board) -> Entry:
    counted = count(found.verified.episodes, board, found.verified.records_root.encode())
    detail = {"told": dict(found.verified.told), "image": found.submission.image, "root": found.verified.records_root}
    return Entry(
        found.digest,
        "contestant",
        "replayed",
        found.submission,
        counted,
        found.digest,
        found.verified.player,
        detail=detail,
    )


def anchor_entry(
    name: str, found: Outcome | Verified, board: Board, *, knows: bool, wants: Mapping[str, JSON]
) -> Entry:
    """Return the entry of a yardstick that was measured here."""
    verified = found.verified if isinstance(found, Outcome) else found
    counted = count(verified.episodes, board, verified.records_root.encode())
    detail = {"told": dict(verified.told), "wants": dict(wants), "knows": knows, "root": verified.records_root}
    named = Submission(contestant=f"{_OURS}: {name}", agent=name)
    bundle = found.digest if isinstance(found, Outcome) else None
    return Entry(f"anchor-{name}", "anchor", "replayed", named, counted, bundle, name, knows, detail)


def _check_name(contestant: str) -> None:
    """Keep the name of the board's own rows to them."""
    if texts.key_of(contestant.partition(":")[0]) == texts.key_of(_OURS):
        raise Refused("text", f"the name {contestant} is that of the board itself", fix="choose another")


def _check_entry(
    connection: Connection, board_id: str, board: Board, entry: Entry, who: str, before: int
) -> Sequence[tuple[str, str, int]]:
    """Hold an entry to what a contestant may send; return what is to be noted of it."""
    if before >= board.attempts:
        raise Refused(
            "attempts",
            f"{entry.submission.contestant} has had all {board.attempts} attempts on this board",
            why="every attempt counts and is shown; nobody plays until lucky",
        )
    if entry.tier in ("hosted", "attested"):
        return ()
    found = likeness(entry.counted, _earlier(connection, board_id, who), entry.player)
    if found.same_as is not None:
        raise _copied(found, found.same_as, len(entry.counted.actions) // 8)
    if found.pooled:
        raise Refused(
            "copied",
            f"{found.shared} of its {len(entry.counted.actions) // 8} episodes are those of earlier entries, taken "
            "together",
            why="so much does not come about by chance",
            fix="send your own play",
        )
    return found.notes


def _copied(found: Likeness, other: Earlier, number: int) -> Refused:
    if other.mine:
        return Refused(
            "resubmitted",
            "the same records were sent before, in the same name",
            why=f"they are the entry {other.row[:12]}; a run counts once",
            fix="there is nothing to do",
        )
    of = f"the board's own {other.player}" if other.player and other.row.startswith("anchor-") else other.name
    signed = f", {found.records} of them byte for byte" if found.records else ""
    signed = ", but for turns that changed nothing" if found.padded else signed
    return Refused(
        "copied",
        f"{found.shared} of its {number} episodes are those of {of} ({other.row[:12]}){signed}",
        why="who plays alike in so many scenarios has the play of the other, whoever signed the records",
        fix="send your own play",
    )


def _earlier(connection: Connection, board_id: str, who: str) -> list[Earlier]:
    columns = (entries.c.id, entries.c.contestant, entries.c.who, entries.c.kind, entries.c.player, entries.c.detail)
    asked = select(*columns, plays.c.actions, plays.c.moves, plays.c.records).join(plays, plays.c.entry == entries.c.no)
    return [
        Earlier(
            row["id"],
            row["contestant"],
            row["who"] == who and row["kind"] == "contestant",
            row["kind"] == "anchor" and bool(json.loads(row["detail"]).get("knows")),
            row["player"] if row["kind"] == "anchor" else None,
            row["actions"],
            row["moves"],
            row["records"],
        )
        for row in connection.execute(asked.where(entries.c.board == board_id).order_by(entries.c.no)).mappings()
    ]


def _write(
    connection: Connection, board_id: str, entry: Entry, who: str, attempt: int, detail: Mapping[str, JSON]
) -> None:
    named = entry.submission
    values = {
        "board": board_id,
        "id": entry.id,
        "kind": entry.kind,
        "tier": entry.tier,
        "contestant": named.contestant,
        "who": who,
        "agent": named.agent,
        "version": named.version,
        "contact": named.contact,
        "notes": named.notes,
        "player": entry.player,
        "created": now(),
        "attempt": attempt,
        "bundle": entry.bundle,
        "detail": canonical(detail),
        "position": 0,
        **entry.counted.columns,
    }
    number = connection.execute(entries.insert().values(**values)).inserted_primary_key
    blobs = {name: getattr(entry.counted, name) for name in ("wins", "actions", "moves", "records")}
    if number is not None:
        connection.execute(plays.insert().values(entry=number[0], **blobs))


def _recount(connection: Connection, board_id: str) -> None:
    mine = (entries.c.board == board_id, entries.c.kind == "contestant")
    counts = select(func.count(), func.count(sa.distinct(entries.c.who))).where(*mine)
    many, contestants = connection.execute(counts).one()
    connection.execute(boards.update().where(boards.c.id == board_id).values(entries=many, contestants=contestants))


def _ranking(board_id: str) -> Any:
    columns = (entries.c.no, entries.c.kind, entries.c.rate, entries.c.reward, entries.c.turns, plays.c.wins)
    return (
        select(*columns).outerjoin(plays, plays.c.entry == entries.c.no).where(entries.c.board == board_id)
    ).order_by(entries.c.no)


def _places(players: Sequence[RowMapping]) -> ranking.Places:
    if not players:
        return ranking.Places((), 0, 0.0)
    wins = np.frombuffer(b"".join(row["wins"] for row in players), dtype=np.uint8).reshape(len(players), -1)
    return ranking.places(wins, [row["rate"] for row in players])
