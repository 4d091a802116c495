"""What was sent and waits to be verified: a bounded queue in the database, and a few threads that work it off.

Each verification runs in a process of its own; a thread only waits for it. The queue outlives the server: what was
being verified when it was killed is begun again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import RowMapping, func, select

from agentenvs.core.canon import canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.harness.manifest import now
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.schema import boards, queue
from agentenvs.leaderboard.store import SOON, Store

MOST_WAITING = 64
_LATER = frozenset(("limits", "busy", "closed", "wrong-environment", "wrong-scoring", "attempts", "not-yours"))
"""Refusals that may not be given again, so that the same file may be sent again."""

_IDLE_SECONDS = 5.0


class Queue:
    """The queue of a store.

    Args:
        store: Where the boards are.
        workers: Verifications at a time.
        most: Submissions that may wait.
    """

    def __init__(self, store: Store, workers: int = 1, most: int = MOST_WAITING) -> None:
        self._store = store
        self._most = most
        self._wake = threading.Condition()
        self._stopped = False
        self._stale: set[str] = set()
        self._recover()
        self._threads = [threading.Thread(target=self._work, name=f"verifier-{n}") for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Take no more; what is being verified comes to its end first."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def add(self, board_id: str, path: Path, owner: str) -> dict[str, Any]:
        """Queue a bundle that lies in the inbox; one that is known is not queued again.

        Args:
            board_id: Of the board.
            path: Of the bundle; its name is its digest.
            owner: In whose name it must be; anybody's where empty.

        Raises:
            Refused: Too much is waiting.
        """
        digest = path.stem
        with self._store.writing() as connection:
            known = connection.execute(_asked(board_id, digest)).mappings().first()
            if known is not None and not _again(known):
                return _job(known)
            waiting = select(func.count()).where(queue.c.state.in_(("waiting", "verifying")))
            if connection.execute(waiting).scalar_one() >= self._most:
                raise Refused(
                    "busy",
                    f"{self._most} submissions are waiting",
                    why="each is played again before the next",
                    fix="send it again later",
                )
            values = {"state": "waiting", "created": now(), "done": 0, "total": 0, "answer": None, "owner": owner}
            if known is None:
                connection.execute(queue.insert().values(board=board_id, bundle=digest, **values))
            else:
                connection.execute(queue.update().where(queue.c.no == known["no"]).values(**values))
            made = _job(connection.execute(_asked(board_id, digest)).mappings().one())
        with self._wake:
            self._wake.notify()
        return made

    def state(self, board_id: str, digest: str) -> dict[str, Any]:
        """Return how a submission stands.

        Raises:
            Refused: It is not known.
        """
        row = None
        if "\0" not in board_id + digest:
            with self._store.reading() as connection:
                row = connection.execute(_asked(board_id, digest)).mappings().first()
        if row is None:
            raise Refused("no-board", f"nothing was sent here under {digest[:12]!r}", fix="send it")
        return _job(row)

    def _recover(self) -> None:
        """Begin again what was being verified when the server ended; forget what is not there any more."""
        with self._store.writing() as connection:
            connection.execute(queue.update().where(queue.c.state == "verifying").values(state="waiting"))
            rows = connection.execute(select(queue.c.no, queue.c.bundle).where(queue.c.state == "waiting")).all()
            for number, digest in rows:
                if not self._inbox(digest).exists():
                    connection.execute(queue.delete().where(queue.c.no == number))
            kept = {digest for _, digest in rows}
        folder = self._store.folder / "inbox"
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.stem not in kept:
                path.unlink(missing_ok=True)

    def _work(self) -> None:
        while True:
            job = self._take()
            if job is None:
                self._tidy()
                with self._wake:
                    if self._stopped:
                        return
                    self._wake.wait(_IDLE_SECONDS)
                continue
            self._verify(job)

    def _take(self) -> RowMapping | None:
        with self._wake:
            if self._stopped:
                return None
        with self._store.reading() as connection:
            asked = select(queue).where(queue.c.state == "waiting").order_by(queue.c.no).limit(1)
            if connection.execute(asked).first() is None:
                return None
        with self._store.writing() as connection:
            job = connection.execute(asked).mappings().first()
            if job is not None:
                connection.execute(queue.update().where(queue.c.no == job["no"]).values(state="verifying"))
        return job

    def _verify(self, job: RowMapping) -> None:
        path = self._inbox(job["bundle"])

        def tell(done: int, total: int) -> None:
            self._set(job["no"], {"done": done, "total": total})

        try:
            board = self._store.board(job["board"])
            entry = self._store.admit_file(job["board"], board, path, job["owner"], tell)
            self._set(job["no"], {"state": "admitted", "answer": json.dumps(entry)})
            self._stale.add(job["board"])
        except Refused as refused:
            self._set(job["no"], {"state": "refused", "answer": canonical(refused.to_json())})
        except Exception as error:  # noqa: BLE001 - boundary: one submission must not end the worker of all
            what = error.what if isinstance(error, AgentEnvsError) else type(error).__name__
            failed = Refused("limits", "verification failed", why=what, fix="send it again, or tell whoever runs this")
            self._set(job["no"], {"state": "refused", "answer": canonical(failed.to_json())})
        finally:
            self.drop(path)

    def drop(self, path: Path) -> None:
        """Remove a bundle from the inbox, where it waits for no board: the same file may be sent to several."""
        wanted = (queue.c.bundle == path.stem, queue.c.state.in_(("waiting", "verifying")))
        with self._store.writing() as connection:
            if connection.execute(select(queue.c.no).where(*wanted).limit(1)).first() is None:
                path.unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Compute the places of large boards while nothing waits."""
        while self._stale:
            board_id = self._stale.pop()
            with self._store.reading() as connection:
                many = connection.execute(select(boards.c.entries).where(boards.c.id == board_id)).scalar()
            if many is not None and many > SOON:
                self._store.rank(board_id)

    def _set(self, number: int, values: Mapping[str, Any]) -> None:
        with self._store.writing() as connection:
            connection.execute(queue.update().where(queue.c.no == number).values(**values))

    def _inbox(self, digest: str) -> Path:
        return self._store.folder / "inbox" / f"{digest}.zip"


def _asked(board_id: str, digest: str) -> sa.Select[Any]:
    return select(queue).where(queue.c.board == board_id, queue.c.bundle == digest)


def _again(known: RowMapping) -> bool:
    return known["state"] == "refused" and json.loads(known["answer"] or "{}").get("reason") in _LATER


def _job(row: RowMapping) -> dict[str, Any]:
    answer = None if row["answer"] is None else json.loads(row["answer"])
    names = ("board", "bundle", "state", "created", "done", "total")
    return {**{name: row[name] for name in names}, "answer": answer}
