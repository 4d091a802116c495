"""Enters a hosted run by its receipt, on a board that has not the secret: it trusts the key that signed it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import select

from agentenvs.core.errors import ConfigError, DataError
from agentenvs.leaderboard import receipts, schema
from agentenvs.leaderboard.receipts import ReceiptError
from agentenvs.leaderboard.receiving import admit, row_of
from agentenvs.leaderboard.store import Store, opened

TRUSTED = "trusted.keys"
"""File of public keys in a store's folder: one a line, ``#`` begins a comment."""


def attest(folder: Path, data: bytes, board: str, keys: Mapping[str, bytes]) -> str:
    """Enter what a receipt says, and return the id of its row.

    Args:
        folder: Of the store.
        data: The receipt.
        board: Id of the board.
        keys: Public keys that are trusted besides those of the store, by name.

    Raises:
        ReceiptError: It is not believed.
        Refused: The board does not take it.
    """
    trusted = {**keys, **kept(folder)}
    if not trusted:
        raise ConfigError("no key is trusted", fix=f"give --trust KEY, or write keys into {TRUSTED} in the store")
    with opened(folder) as store:
        now = time.time()
        receipt = receipts.check(data, trusted, board, now)
        row = row_of(board, receipt.result.ticket)
        if store.has(board, row):
            known = _known(store, board, row)
            latest = {receipt.result.ticket: int(str(known.get("issued", 0)))}
            receipts.check(data, trusted, board, now, {str(known.get("nonce"))}, latest)
            raise ReceiptError("used", f"the ticket {receipt.result.ticket} has its row; a ticket is good for one")
        return admit(store, receipt.result, data)


def kept(folder: Path) -> dict[str, bytes]:
    """Return the keys that a store trusts, by name.

    Raises:
        DataError: Their file cannot be read.
        ConfigError: One is none.
    """
    try:
        lines = (folder / TRUSTED).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / TRUSTED} cannot be read", why=str(error)[:200]) from error
    found = [line.partition("#")[0].strip() for line in lines]
    return receipts.trusted(*(key for key in found if key))


def _known(store: Store, board: str, row: str) -> Mapping[str, object]:
    """Return the receipt of a row; empty where it came without."""
    with store.reading() as connection:
        query = select(schema.entries.c.detail).where(schema.entries.c.board == board, schema.entries.c.id == row)
        detail = connection.execute(query).scalar()
    receipt = json.loads(detail or "{}").get("receipt")
    found: Mapping[str, object] = receipt.get("receipt", {}) if isinstance(receipt, dict) else {}
    return found
