"""The store: what comes in, what is somebody else's, and what is left after a crash; on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.errors import ConfigError
from agentenvs.leaderboard import anchors, asking, schema, unpacking
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.building import build
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.store import Store, opened
from tests import postgres
from tests.leaderboard import desk
from tests.leaderboard.desk import Lines


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Cluster]:
    with postgres.running() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path, small: Board) -> Iterator[Store]:
    url = None
    if request.param == "postgresql":
        made: postgres.Cluster = request.getfixturevalue("cluster")
        url = made.create(f"b{digest(request.node.name)[:12]}")
    with opened(tmp_path / "board", url) as store:
        store.make(small)
        yield store


def refused(store: Store, board: Board, data: bytes, owner: str = "") -> Refused:
    with pytest.raises(Refused) as caught:
        store.admit(board.id, data, owner)
    return caught.value


def test_a_run_comes_in_once_and_is_shown_as_it_was_counted(either: Store, small: Board, desks):
    data = desks["expert"].named(contact="ada@example.org", notes="first").sent()
    steps = []
    row = either.admit(small.id, data, progress=lambda done, total: steps.append((done, total)))
    assert either.admit(small.id, data) == row == unpacking.read(data).digest
    (shown,), pages = asking.page(either, small.id)
    won = sum(line["success"] for line in desks["expert"].table)
    assert (shown["successes"], shown["episodes"], shown["tier"], pages) == (won, small.episodes, "replayed", 1)
    assert (shown["best"], shown["worst"], shown["attempt"], shown["attempts"]) == (1, 1, 1, 1)
    assert "contact" not in shown
    assert either.bundle_path(row).read_bytes() == data
    assert not list(either.folder.glob("inbox/*"))
    whole = asking.one_entry(either, small.id, row)
    assert sum(family["episodes"] for family in whole["families"]) == small.episodes
    assert (whole["notes_text"], whole["told"]["agent"]) == ("first", "somebody's")
    assert asking.listed(either)[0].entries == 1
    assert asking.page(either, small.id, contestant="\0") == ([], 1)
    with pytest.raises(Refused, match="no entry"):
        asking.one_entry(either, small.id, "\0")


def test_the_migrations_make_the_schema(either: Store):
    with either.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        mine = [one for one in compare_metadata(context, schema.metadata) if schema.VERSION_TABLE not in str(one)]
        assert not mine


def test_a_refusal_is_kept_for_everybody_to_see(store: Store, small: Board, desks):
    cut = desks["expert"].record(0, lambda lines: lines.pop()).sent()
    assert refused(store, small, cut).reason == "truncated"
    assert refused(store, small, cut).reason == "truncated"
    (kept,) = asking.refused(store, small.id)
    assert (kept["code"], kept["bundle"]) == ("LB205", unpacking.read(cut).digest)


def test_the_records_of_another(store: Store, small: Board, desks):
    store.admit(small.id, desks["expert"].sent())
    copy = desks["expert"].named(contestant="Mallory", agent="mine").sent()
    found = refused(store, small, copy)
    assert found.reason == "copied"
    assert f"{small.episodes} of its {small.episodes} episodes are those of Ada" in found.what
    assert f"{small.episodes} of them byte for byte" in found.what


def test_the_play_of_another_signed_anew(store: Store, small: Board, desks):
    store.admit(small.id, desks["expert"].sent())

    def learned(lines: Lines) -> None:
        lines[0].update(library="0" * 64)  # a claim nobody can prove, and another chain

    found = refused(store, small, desks["expert"].every(learned).named(contestant="Mallory").sent())
    assert (found.reason, "byte for byte" in found.what) == ("copied", False)


def test_the_play_of_another_padded_with_idle_turns(
    store: Store, small: Board, desks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store.admit(small.id, desks["expert"].sent())
    script = [[turn["action"] for turn in lines[1:-1]] for lines in desks["expert"].records]
    monkeypatch.setattr(desk.Thief, "script", script)
    run = desk.Desk.of(desk.played(tmp_path / "run", f"{desk.__name__}:Thief"))
    found = refused(store, small, run.named(contestant="Mallory").sent())
    assert (found.reason, "but for turns that changed nothing" in found.what) == ("copied", True)


def test_a_run_that_is_partly_another_s(store: Store, small: Board, desks):
    store.admit(small.id, desks["expert"].sent())
    mine, theirs = desks["prior"], desks["expert"]
    half = 5
    mixed = mine.with_records(
        [*theirs.records[:half], *mine.records[half:]], [*theirs.table[:half], *mine.table[half:]]
    )
    found = refused(store, small, mixed.named(contestant="Mallory").sent())
    assert (found.reason, f"{half} of its {small.episodes}" in found.what) == ("copied", True)


def test_the_same_run_under_another_agent_s_name(store: Store, small: Board, desks):
    store.admit(small.id, desks["expert"].sent())
    for name in ("Ada", "ADA", "\uff21da", "a-d-a"):
        found = refused(store, small, desks["expert"].named(contestant=name, agent=f"better {name}").sent())
        assert found.reason == "resubmitted"


def test_nobody_plays_until_lucky(tmp_path: Path, small: Board, desks):
    few = replace(small, attempts=2)
    with opened(tmp_path / "board") as store:
        store.make(few)
        store.admit(few.id, desks["expert"].sent())
        store.admit(few.id, desks["prior"].sent())
        found = refused(store, few, desks["prior"].named(contestant="ada", agent="third").sent())
        assert (found.reason, "all 2 attempts" in found.what) == ("attempts", True)
        rows, _ = asking.page(store, few.id)
        assert sorted((row["attempt"], row["attempts"]) for row in rows) == [(1, 2), (2, 2)]
        entry = asking.one_entry(store, few.id, rows[0]["id"])
        assert (len(entry["others"]), entry["refused"]) == (1, 1)


def test_a_submission_in_the_name_of_somebody_else(store: Store, small: Board, desks):
    assert refused(store, small, desks["expert"].sent(), owner="Bob").reason == "not-yours"
    row = store.admit(small.id, desks["expert"].sent(), owner="ADA")
    assert asking.one_entry(store, small.id, row)["refused"] == 0  # what Bob sent in her name is not counted as hers


def test_yardsticks_stand_between_the_rows_and_cannot_be_sent_as_one_s_own(store: Store, small: Board, desks, runs):
    assert anchors.measure(store, small.id, ["oracle", "expert", "random", "noop"]) == [
        "oracle",
        "expert",
        "random",
        "noop",
    ]
    store.admit(small.id, desk.Desk.of(runs["prior"]).sent())
    rows, _ = asking.page(store, small.id)
    assert [row["kind"] for row in rows].count("anchor") == 4
    assert [row["best"] for row in rows if row["kind"] == "anchor"] == [None] * 4
    shown = {row["agent"]: row for row in rows}
    assert (shown["oracle"]["knows"], shown["random"]["wants"]) == (True, {"admissible": True})
    assert shown["searcher"]["player"] == "prior"  # of a built-in player, and marked as such
    assert refused(store, small, desks["expert"].named(contestant="Mallory").sent()).reason == "copied"
    unmarked = desks["oracle"].every(lambda lines: lines[0].update(privileged=False))
    unmarked = unmarked.told(lambda told: told["agent"].update(privileged=False))
    found = refused(store, small, unmarked.named(contestant="Mallory").sent())
    assert (found.reason, "the board's own oracle" in found.what) == ("copied", True)
    posing = desks["prior"].named(contestant="The Board: expert")
    assert refused(store, small, posing.sent()).reason == "text"
    claimed = unmarked.told(lambda told: told["agent"].update(name="oracle"))  # says it is that player, and not shown
    assert refused(store, small, claimed.named(contestant="Mallory").sent()).reason == "copied"


def test_score_cards_are_yardsticks_that_nobody_replayed(tmp_path: Path):
    with opened(tmp_path / "board") as store:
        board = desk.board(split="builtin", episodes=12)
        store.make(board)
        assert anchors.from_card(store, board.id) == ["oracle", "expert", "prior", "random", "noop"]
        rows, _ = asking.page(store, board.id)
        assert {row["tier"] for row in rows} == {"self-reported"}
        assert rows[0]["rate"] == 1.0
        assert build(store, tmp_path / "site") == 5 + 6  # every row has its page


def test_two_who_send_at_once(tmp_path: Path, small: Board, desks):
    data = {name: desks[name].named(contestant=name).sent() for name in ("expert", "prior")}
    jobs = [data["expert"], data["prior"], data["expert"], desks["expert"].named(contestant="copy").sent()]
    came: list[str] = []

    def send(job: bytes) -> None:
        with opened(tmp_path / "board") as store:
            try:
                came.append(store.admit(small.id, job))
            except Refused as refusal:
                came.append(refusal.reason)

    with opened(tmp_path / "board") as store:
        store.make(small)
    threads = [threading.Thread(target=send, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opened(tmp_path / "board") as store:
        rows, _ = asking.page(store, small.id)
    assert len(rows) == 2
    assert came.count("copied") in (1, 2)  # whichever of the two came first is the one that was first
    assert sorted(row["best"] for row in rows) == [1, 1]


def test_nothing_half_written_is_left(store: Store, small: Board, desks, monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    data = desks["expert"].sent()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "insert", crash)
        with pytest.raises(KeyboardInterrupt):
            store.admit(small.id, data)
    assert asking.page(store, small.id) == ([], 1)
    assert store.admit(small.id, data)
    assert len(asking.page(store, small.id)[0]) == 1


def test_a_sealed_board_takes_nothing_that_was_played_elsewhere(tmp_path: Path, small: Board, desks):
    with opened(tmp_path / "board") as store:
        sealed = replace(small, sealed=True)
        store.make(sealed)
        assert refused(store, sealed, desks["expert"].sent()).reason == "needs-receipt"


def test_a_board_that_is_not_there(store: Store, small: Board, desks):
    assert refused(store, replace(small, split="dev"), desks["expert"].sent()).reason == "no-board"


def test_a_world_whose_records_prove_nothing_has_no_board(monkeypatch: pytest.MonkeyPatch):
    spec = registry.spec("household")
    for lost, said in (("deterministic", "the other side's word"), ("replayable", "cannot be played again")):
        loose = replace(spec, id=f"toys/{lost}-v0", slug=lost, capabilities=replace(spec.capabilities, **{lost: False}))
        monkeypatch.setitem(registry._registered, loose.id, loose)
        with pytest.raises(ConfigError, match=said):
            desk.board(env=loose.id)


def test_everything_that_moves_a_score_makes_another_board(small: Board):
    moved = {
        "release": "1", "spec": "x", "split": "dev", "scenarios": 3, "trials": 2, "panel": "x", "options": "{}",
        "budgets": "{}", "scoring": "x", "sealed": True, "image": "x", "start": 1, "env": "a/B-v0",
    }  # fmt: skip
    ids = {replace(small, **{name: value}).id for name, value in moved.items()}
    assert len(ids | {small.id}) == len(moved) + 1
    assert replace(small, scoring="x").lineage == small.lineage != replace(small, release="1").lineage
    assert replace(small, title="x", attempts=3).id == small.id


def test_verification_has_limits(tmp_path: Path, small: Board, desks):
    from agentenvs.leaderboard.clean import Bounds

    for bounds in (Bounds(wall_seconds=0.05), Bounds(memory_mb=64)):
        with opened(tmp_path / "board", bounds=bounds) as store:
            store.make(small)
            found = refused(store, small, desks["expert"].sent())
            assert found.reason == "limits"


def test_the_clean_process_has_no_secrets(store: Store, small: Board, monkeypatch: pytest.MonkeyPatch, desks):
    from agentenvs.leaderboard import clean

    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", "0" * 64)
    seen: dict[str, str] = {}
    popen = clean.subprocess.Popen

    def look(*args: object, **more: object) -> object:
        seen.update(more["env"])  # type: ignore[arg-type]
        return popen(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(clean.subprocess, "Popen", look)
    store.admit(small.id, desks["expert"].sent())
    assert "AGENTENVS_SEALED_SECRET" not in seen
    assert "PATH" in seen


def test_several_trials_are_one_cluster_a_scenario(tmp_path: Path):
    board = desk.board(episodes=4, trials=2)
    run = desk.Desk.of(desk.played(tmp_path / "run", "noop", episodes=4, trials=2))
    with opened(tmp_path / "board") as store:
        store.make(board)
        store.admit(board.id, run.sent())
        (row,), _ = asking.page(store, board.id)
    assert row["episodes"] == 8
    assert row["interval"].endswith("by scenario")
    assert [one["k"] for one in row["passes"]] == [1, 2]


def test_a_store_of_something_else(tmp_path: Path):
    from agentenvs.core.errors import DataError

    (tmp_path / "board").mkdir()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'board' / 'board.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (x INTEGER)")
    engine.dispose()
    with pytest.raises(DataError, match="no leaderboard"), opened(tmp_path / "board"):
        pass
