"""Hosted runs become rows: on the host's own board by its word, on another one by a receipt of a trusted key."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from agentenvs.cli.main import app
from agentenvs.core.errors import ConfigError
from agentenvs.leaderboard import schema
from agentenvs.leaderboard.building import build
from agentenvs.leaderboard.hosting.attesting import TRUSTED, attest
from agentenvs.leaderboard.receipts import ReceiptError, Signer, trusted
from agentenvs.leaderboard.receiving import admit_hosted
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.store import opened
from tests.leaderboard.hosted.test_receipts import RESULT


def rows(folder, board="spring"):
    with opened(folder) as store, store.reading() as connection:
        found = select(schema.entries).where(schema.entries.c.board == board, schema.entries.c.kind == "contestant")
        return [(row.contestant, row.tier, row.successes, row.episodes) for row in connection.execute(found)]


def test_a_hosted_run_is_a_row_once(tmp_path):
    row = admit_hosted(tmp_path, RESULT, None)
    assert admit_hosted(tmp_path, RESULT, None) == row
    assert rows(tmp_path) == [("ada", "hosted", 1, 3)]


@pytest.mark.parametrize("receipt", [None, b'{"receipt":{}}'])
def test_the_pages_of_a_hosted_row_can_be_made(tmp_path, receipt):
    row = admit_hosted(tmp_path / "board", RESULT, receipt)
    with opened(tmp_path / "board") as store:
        build(store, tmp_path / "site")
    page = (tmp_path / "site" / "boards" / "spring" / "entries" / f"{row}.html").read_text()
    assert "planner" in page
    assert ("Receipt" in page) == (receipt is not None)


def test_another_board_believes_the_receipt_of_a_key_that_it_trusts(tmp_path):
    signer = Signer.of(tmp_path / "signing.key")
    data = signer.sign(RESULT, time.time())
    keys = trusted(signer.public.hex())
    assert attest(tmp_path / "board", data, "spring", keys)
    assert rows(tmp_path / "board") == [("ada", "attested", 1, 3)]
    for again, reason in (
        (data, "used"),
        (signer.sign(RESULT, time.time() - 60), "superseded"),
        (signer.sign(RESULT, time.time() + 60), "used"),
    ):
        with pytest.raises(ReceiptError) as caught:
            attest(tmp_path / "board", again, "spring", keys)
        assert caught.value.reason == reason
    assert rows(tmp_path / "board") == [("ada", "attested", 1, 3)]


def test_the_keys_of_a_store_stand_in_a_file(tmp_path):
    signer, board = Signer.of(tmp_path / "signing.key"), tmp_path / "board"
    data = signer.sign(RESULT, time.time())
    board.mkdir()
    with pytest.raises(ConfigError, match="no key is trusted"):
        attest(board, data, "spring", {})
    (board / TRUSTED).write_text(f"# hosts\n{signer.public.hex()}  # ours\n\n")
    (tmp_path / "receipt.json").write_bytes(data)
    said = CliRunner().invoke(
        app, ["leaderboard", "attest", str(tmp_path / "receipt.json"), "--store", str(board), "--on", "spring"]
    )
    assert (said.exit_code, said.stdout.startswith("ticket-")) == (0, True)
    (board / TRUSTED).write_text("nonsense\n")
    with pytest.raises(ConfigError, match="a trusted key is none"):
        attest(board, data, "spring", {})


def test_a_receipt_enters_only_the_board_it_is_of(tmp_path):
    signer = Signer.of(tmp_path / "signing.key")
    keys = trusted(signer.public.hex())
    with pytest.raises(ReceiptError, match="another board"):
        attest(tmp_path / "board", signer.sign(RESULT, time.time()), "autumn", keys)
    attest(tmp_path / "board", signer.sign(RESULT, time.time()), "spring", keys)
    other = replace(RESULT, ticket="tk-2", contestant="bob", commitment="02" * 32)
    with pytest.raises(Refused, match="not of the board"):
        attest(tmp_path / "board", signer.sign(other, time.time()), "spring", keys)
    assert len(rows(tmp_path / "board")) == 1
