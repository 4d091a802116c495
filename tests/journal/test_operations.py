"""What is done to a journal is done whole or not at all, whoever else is at it."""

import asyncio

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from agentenvs.core.database import shown
from agentenvs.core.errors import ConfigError, DataError
from agentenvs_servers.journal import operations as do
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.journal.rows import Ended, EpisodeRow, PlayedTurn, Saved, SessionRow, lookup
from agentenvs_servers.journal.schema import metadata, sessions, turns
from agentenvs_servers.journal.writing import JournalDown, Writer


@pytest.fixture
def journal(url):
    opened = open_journal(url)
    yield opened
    opened.engine.dispose()


def session(name, episode="ep-1", **more):
    given = {
        "id": lookup(name), "name": name, "tenant": "t", "create_key": "k", "place": 0, "env": "e", "release": "0",
        "spec": "s", "options": "{}", "traced": False, "strict": False, "idle": 10, "absolute": 100,
        "episode": episode, "owner": "aa",
    }  # fmt: skip
    return SessionRow(**{**given, **more})


def episode(of, name="ep-1", n=1):
    return EpisodeRow(name, of.id, n, lookup(f"key of {name}"), "train", 7, "{}", b"opening", None)


def make(journal, *rows, key="k", now=0.0, room=100, quota=None):
    with journal.engine.begin() as connection:
        return do.insert_create(
            connection, ("t", key, b"form", True), [(row, episode(row, row.episode)) for row in rows], room, quota, now
        )


def call(journal, function, *arguments):
    with journal.engine.begin() as connection:
        return function(connection, *arguments)


def turn(of, number, worker=1, episode="ep-1"):
    return (episode, number, b'"look"', b"d" * 16, None, None, worker)


def play(journal, *rows, strict=False):
    async def main():
        writer = Writer(journal, asyncio.get_running_loop())
        try:
            return await asyncio.gather(*(writer.turn(row, strict=strict) for row in rows))
        finally:
            await asyncio.to_thread(writer.close)

    return asyncio.run(main())


def test_the_migrations_make_what_the_models_say(journal):
    with journal.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_opening_twice_changes_nothing(url):
    first = open_journal(url)
    one = session("a")
    make(first, one)
    first.engine.dispose()
    second = open_journal(url)
    assert call(second, do.head, one.id) == ("open", "ep-1")
    second.engine.dispose()


def test_a_journal_of_a_later_version_is_refused(url):
    opened = open_journal(url)
    with opened.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    opened.engine.dispose()
    with pytest.raises(DataError, match="of a later version"):
        open_journal(url)


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "j").write_text("not a database, but long enough to be looked at as one " * 50)
    with pytest.raises(DataError, match="cannot be used"):
        open_journal(str(tmp_path / "j"))


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", "://"])
def test_an_address_that_is_none_is_a_mistake(url):
    with pytest.raises(ConfigError):
        open_journal(url)


def test_the_password_of_a_journal_is_not_shown():
    assert "hunter2" not in shown("postgresql://me:hunter2@host/db")


def test_a_journal_file_is_for_its_owner_alone(tmp_path):
    open_journal(str(tmp_path / "j")).engine.dispose()
    assert (tmp_path / "j").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("strict", [False, True])
def test_a_turn_is_inserted_once_whoever_asks(journal, strict):
    one = session("a")
    make(journal, one)
    assert play(journal, turn(one, 1), turn(one, 2), strict=strict) == [True, True]
    assert play(journal, turn(one, 2, worker=2), turn(one, 3, worker=2)) == [False, True]
    assert [row.turn for row in call(journal, do.turns_after, "ep-1", 0)] == [1, 2, 3]


def test_no_turn_is_inserted_into_a_closed_session_or_another_episode(journal):
    one, two = session("a"), session("b", "ep-2", place=1)
    make(journal, one, two)
    assert call(journal, do.end_session, one.id, Ended("ep-1", 0, "abandoned", b"r"), "closed", b"bye", 1.0)
    assert play(journal, turn(one, 1), turn(two, 1, episode="ep-9"), turn(two, 1, episode="ep-2")) == [
        False,
        False,
        True,
    ]


def test_a_session_is_ended_only_where_the_caller_knows_its_turn(journal):
    one = session("a")
    make(journal, one)
    play(journal, turn(one, 1))
    assert not call(journal, do.end_session, one.id, Ended("ep-1", 0, "abandoned", b"r"), "closed", None, 1.0)
    assert not call(journal, do.end_session, one.id, Ended("ep-0", 1, "abandoned", b"r"), "closed", None, 1.0)
    assert call(journal, do.end_session, one.id, Ended("ep-1", 1, "abandoned", b"r"), "closed", None, 1.0)
    assert not call(journal, do.end_session, one.id, Ended("ep-1", 1, "abandoned", b"r"), "closed", None, 1.0)
    assert call(journal, do.open_sessions) == 0
    assert call(journal, do.record, one.id, "ep-1") == b"r"


def test_a_reset_leaves_record_and_forgets_turns(journal):
    one = session("a")
    make(journal, one)
    play(journal, turn(one, 1))
    call(journal, do.keep_checkpoint, "ep-1", Saved(1, b"world"))
    following = episode(one, "ep-2", 2)
    assert not call(journal, do.begin_episode, Ended("ep-1", 3, "abandoned", b"r"), following, "r1", b"f", 2.0)
    assert call(journal, do.begin_episode, Ended("ep-1", 1, "abandoned", b"r"), following, "r1", b"f", 2.0)
    loaded = call(journal, do.load, one.id, 3.0)
    assert (loaded.episode.id, loaded.begun, loaded.reset_key, loaded.recorded) == ("ep-2", 2, "r1", ["ep-1"])
    assert (loaded.saved, list(loaded.turns)) == (None, [])
    with journal.engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(turns)).scalar() == 0


def test_a_session_is_loaded_with_its_checkpoint_and_the_turns_since(journal):
    one = session("a", options='{"limit":3}')
    make(journal, one)
    play(journal, turn(one, 1), turn(one, 2))
    call(journal, do.keep_checkpoint, "ep-1", Saved(1, b"world"))
    loaded = call(journal, do.load, one.id, 3.0)
    assert loaded.session == one
    assert loaded.saved == Saved(1, b"world")
    assert list(loaded.turns) == [PlayedTurn(2, b'"look"', b"d" * 16, None, None)]
    assert call(journal, do.load, lookup("nobody"), 0.0) is None


def test_a_create_is_kept_once_and_answered_from_the_journal(journal):
    one = session("a")
    assert make(journal, one)
    assert not make(journal, session("b", "ep-2"))
    kept = call(journal, do.find_create, "t", "k")
    assert (kept.form, kept.single, list(kept.sessions)) == (b"form", True, [("a", "e", 10, 100, b"opening")])
    assert call(journal, do.find_create, "t", "other") is None
    assert call(journal, do.find_agent, lookup("key of ep-1")) == ("a", "ep-1")
    assert call(journal, do.find_agent, b"nobody's") is None


def test_capacity_and_quota_are_counted_in_the_journal(journal):
    make(journal, session("a"), room=3, quota=2)
    make(journal, session("b", "ep-2", create_key="k2"), key="k2", room=3, quota=2)
    with pytest.raises(do.Full) as full:
        make(journal, session("c", "ep-3", create_key="k3"), key="k3", room=3, quota=2)
    assert (full.value.open, full.value.tenant) == (2, True)
    with pytest.raises(do.Full) as full:
        make(journal, session("c", "ep-3", create_key="k3"), key="k3", room=2)
    assert (full.value.open, full.value.tenant) == (2, False)
    assert call(journal, do.find_create, "t", "k3") is None
    assert call(journal, do.open_sessions) == 2


def test_sessions_are_due_by_the_journals_clock_and_a_touch_keeps_them(journal):
    make(journal, session("idle"))
    make(journal, session("busy", "ep-2", create_key="k2"), key="k2")
    call(journal, do.touch, {lookup("busy"): 1.0}, 10.0)
    call(journal, do.touch, {lookup("busy"): 7.0}, 10.0)
    assert call(journal, do.due, 5.0, 10, 12.0) == []
    assert call(journal, do.due, 5.0, 10, 16.0) == [(lookup("idle"), "idle")]
    assert sorted(name for _, name in call(journal, do.due, 5.0, 10, 101.0)) == ["busy", "idle"]
    assert call(journal, do.due, 5.0, 1, 101.0) == [(lookup("idle"), "idle")]


def test_what_is_over_is_forgotten_after_the_retention_time(journal):
    one = session("a")
    make(journal, one)
    call(journal, do.end_session, one.id, Ended("ep-1", 0, "abandoned", b"r"), "expired", None, 5.0)
    assert call(journal, do.forget, 6.0, 10.0) == 0
    assert call(journal, do.forget, 6.0, 12.0) == 1
    assert call(journal, do.load, one.id, 0.0) is None
    assert call(journal, do.find_create, "t", "k") is None


def test_a_lease_is_taken_from_a_worker_that_is_gone_only(journal):
    one = session("a")
    make(journal, one)
    assert not call(journal, do.take, one.id, "bb", 10.0)
    call(journal, do.renew, "aa", 10.0)
    assert not call(journal, do.take, one.id, "bb", 20.0)
    assert call(journal, do.take, one.id, "aa", 21.0)
    assert call(journal, do.take, one.id, "bb", 40.0)
    assert not call(journal, do.take, one.id, "aa", 41.0)


def test_a_failed_request_of_a_group_harms_no_other(journal):
    one = session("a")
    make(journal, one)

    async def main():
        writer = Writer(journal, asyncio.get_running_loop())
        futures = [
            writer.turn(turn(one, 1), strict=False),
            writer.run(lambda connection: 1 / 0),
            writer.run(lambda connection: connection.execute(sa.insert(sessions).values(one._asdict()))),
            writer.run(lambda connection: do.head(connection, one.id)),
        ]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        await asyncio.to_thread(writer.close)
        return answers

    written, divided, doubled, head = asyncio.run(main())
    assert (written, head) == (True, ("open", "ep-1"))
    assert isinstance(divided, ZeroDivisionError)
    assert isinstance(doubled, sa.exc.IntegrityError)


def test_a_journal_that_is_away_tells_everybody_and_is_found_again(cluster):
    opened = open_journal(cluster.create("away"))
    one = session("a")
    make(opened, one)

    async def main():
        writer = Writer(opened, asyncio.get_running_loop())
        assert await writer.turn(turn(one, 1), strict=False)
        cluster.stop("immediate")
        with pytest.raises(JournalDown):
            await writer.turn(turn(one, 2), strict=False)
        cluster.start()
        assert await writer.turn(turn(one, 2), strict=False)
        await asyncio.to_thread(writer.close)

    asyncio.run(main())
    opened.engine.dispose()


def test_racing_workers_insert_each_turn_once(journal):
    one = session("a")
    make(journal, one)

    async def main():
        writers = [Writer(journal, asyncio.get_running_loop()) for _ in range(4)]
        wins = []
        for number in range(1, 31):
            asked = [writer.turn(turn(one, number, worker), strict=False) for worker, writer in enumerate(writers)]
            wins.append(sum(await asyncio.gather(*asked)))
        for writer in writers:
            await asyncio.to_thread(writer.close)
        return wins

    assert asyncio.run(main()) == [1] * 30


@pytest.mark.parametrize("many", [3, 64, 65, 600])
@pytest.mark.parametrize("odd", [None, (b"[1]", None), (None, "ValueError")], ids=["plain", "effects", "failed"])
def test_a_group_of_any_size_keeps_what_it_was_given(journal, many, odd):
    one = session("a")
    make(journal, one)
    rows = [turn(one, number) for number in range(1, many + 1)]
    if odd is not None:
        rows[1] = (*rows[1][:4], *odd, 1)
    assert play(journal, *rows) == [True] * many
    kept = call(journal, do.turns_after, "ep-1", 0)
    assert [(row.turn, row.action, row.digest, row.effects, row.failed) for row in kept] == [row[1:6] for row in rows]
    assert play(journal, *rows) == [True] * many  # ours already
    others = [(*row[:6], 2) for row in rows]
    assert play(journal, *others, turn(one, many + 1, 2)) == [False] * many + [True]
