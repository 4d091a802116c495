"""What was played on a board's own server: a ticket is good for one row, and what was left counts nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.canon import digest
from agentenvs.leaderboard import asking
from agentenvs.leaderboard.receiving import admit_hosted
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.store import opened


@dataclass(frozen=True)
class Episode:
    place: int
    panel: str = "shared"
    ending: str | None = "terminated"
    turns: int = 7
    success: bool = True
    reward: float = 1.0
    record: str | None = None
    number: int = 0


@dataclass(frozen=True)
class Run:
    ticket: str
    board: str = "household-sealed-1"
    contestant: str = "Ada"
    env: str = "agentenvs/Household-v0"
    release: str = "0"
    spec: str = digest("spec")
    options: dict[str, Any] = field(default_factory=dict)
    split: str = "sealed"
    secret: str = "s1"
    commitment: str = digest("commitment")
    episodes: tuple[Episode, ...] = tuple(Episode(place) for place in range(6))


def test_a_hosted_run_is_ranked_and_comes_in_once(tmp_path: Path):
    row = admit_hosted(tmp_path, Run("t1"), None)
    assert admit_hosted(tmp_path, Run("t1"), None) == row
    admit_hosted(tmp_path, Run("t2", contestant="Bob"), b'{"nonce": "n1"}')
    with opened(tmp_path) as store:
        rows, _ = asking.page(store, "household-sealed-1")
    assert {entry["contestant"]: entry["tier"] for entry in rows} == {"Ada": "hosted", "Bob": "attested"}
    assert [entry["best"] for entry in rows] == [1, 1]


def test_what_was_left_or_never_opened_counts_nothing(tmp_path: Path):
    mixed = (
        Episode(0),
        Episode(1, ending="abandoned"),
        Episode(2, ending="aborted"),
        Episode(3, ending=None, turns=0),
        Episode(0, panel="own"),
        Episode(1, panel="own", success=False, reward=0.0),
    )
    row = admit_hosted(tmp_path, Run("t1", episodes=mixed), None)
    with opened(tmp_path) as store:
        entry = asking.one_entry(store, "household-sealed-1", row)
    assert (entry["successes"], entry["episodes"], entry["never_opened"]) == (2, 6, 1)
    assert entry["endings"] == {"abandoned": 2, "aborted": 1, "terminated": 3}


def refused(folder: Path, run: Run, receipt: bytes | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        admit_hosted(folder, run, receipt)
    return caught.value


def test_another_run_of_a_ticket_that_has_a_row(tmp_path: Path):
    admit_hosted(tmp_path, Run("t1"), None)
    lost = tuple(Episode(place, success=False, reward=0.0) for place in range(6))
    found = refused(tmp_path, Run("t1", episodes=lost))
    assert (found.reason, found.what) == ("old-receipt", "the ticket t1 has a row of another run")


def test_an_old_receipt(tmp_path: Path):
    admit_hosted(tmp_path, Run("t1"), b"receipt")
    found = refused(tmp_path, Run("t2", contestant="Mallory"), b"receipt")
    assert (found.reason, "good for one row" in found.why) == ("old-receipt", True)


@pytest.mark.parametrize(
    "change", [{"release": "1"}, {"secret": "s2"}, {"options": {"limit": 9}}, {"episodes": (Episode(0),)}]
)
def test_a_run_of_another_board(tmp_path: Path, change):
    admit_hosted(tmp_path, Run("t1"), None)
    assert refused(tmp_path, replace(Run("t2"), **change)).reason == "wrong-receipt"


def test_names_and_attempts_are_held_there_too(tmp_path: Path):
    assert refused(tmp_path, Run("t0", contestant="<b>")).reason == "text"
    for number in range(10):
        admit_hosted(tmp_path, Run(f"t{number}"), None)
    assert refused(tmp_path, Run("t10")).reason == "attempts"
