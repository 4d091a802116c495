"""What is told of a journal, and what is taken out of it, on both kinds, while others write."""

import json
import threading

import pytest

from agentenvs.core.errors import ConfigError, DataError, ServiceError
from agentenvs_servers.journal import looking
from agentenvs_servers.journal import operations as do
from agentenvs_servers.journal.opening import open_journal, visit
from agentenvs_servers.journal.pruning import SLACK_SECONDS, prune, vacuum
from agentenvs_servers.journal.rows import Ended, Saved, lookup
from agentenvs_servers.journal.soundness import STATES
from tests.journal.test_operations import call, make, play, session, turn


@pytest.fixture
def journal(url):
    opened = open_journal(url)
    yield opened
    opened.engine.dispose()


@pytest.fixture
def visited(journal, url):
    opened = visit(url, writes=False)
    yield opened
    opened.engine.dispose()


def filled(journal):
    """Three sessions: one at turn 2, one at a saved world, one over; the clock of the journal is some way on."""
    now = call(journal, journal.now)
    ones = [session(f"name {n}", f"ep-{n}", env="e/E-v0", strict=n == 2, options='{"a":1}') for n in range(3)]
    for n, one in enumerate(ones):
        make(journal, one, key=f"secret key {n}", now=now - 100 + n)
    play(journal, turn(ones[0], 1, episode="ep-0"), turn(ones[0], 2, episode="ep-0"))
    call(journal, do.keep_checkpoint, "ep-1", Saved(7, b"world"))
    import zlib

    ended = Ended("ep-2", 0, "terminated", zlib.compress(b'{"record":1}\n'))
    assert call(journal, do.end_session, ones[2].id, ended, "closed", None, now - 50)
    return ones


def test_sessions_are_listed_without_their_names(journal, visited):
    ones = filled(journal)
    lines = looking.lines(visited)
    assert [line.session for line in lines] == [one.id.hex()[:12] for one in ones]
    assert [(line.state, line.turn, line.durability) for line in lines] == [
        ("open", 2, "group"),
        ("open", 7, "group"),
        ("closed", None, "strict"),
    ]
    first = lines[0]
    assert (first.tenant, first.env, first.split, first.number, first.episodes) == ("t", "e/E-v0", "train", 7, 1)
    assert [round(line.age) in range(97, 105) for line in lines] == [True] * 3
    assert round(lines[2].idle) in range(50, 55)
    assert [len(looking.lines(visited, state)) for state in STATES] == [2, 1, 0]
    assert (len(looking.lines(visited, None, "t")), looking.lines(visited, None, "u")) == (3, [])


def test_an_export_has_all_but_names_and_keys(journal, visited):
    ones = filled(journal)
    forms = list(looking.export(visited))
    assert [form["kind"] for form, _ in forms] == ["session", "episode", "turn", "turn", *["session", "episode"] * 2]
    assert [form["action"] for form, _ in forms if form["kind"] == "turn"] == ["look", "look"]
    assert [record for _, record in forms if record is not None] == [b'{"record":1}\n']
    assert forms[0][0]["options"] == {"a": 1}
    assert forms[0][0]["session"] == forms[1][0]["session"] == ones[0].id.hex()
    text = json.dumps([form for form, _ in forms])
    for hidden in ("name 0", "name 2", "secret key", "key of", lookup("key of ep-0").hex(), b"opening".hex()):
        assert hidden not in text


def test_what_is_damaged_is_told_as_it_is(journal, visited):
    (one, *_) = filled(journal)
    play(journal, (*turn(one, 3, episode="ep-0")[:2], b'{"half', b"d" * 16, b"\xff", None, 1))
    last = [form for form, _ in looking.export(visited) if form["kind"] == "turn"][-1]
    assert (last["action"], last["effects"]) == ({"damaged": b'{"half'.hex()}, {"damaged": "ff"})


def test_an_export_sees_one_moment_and_holds_nobody_up(journal, visited):
    (one, *_) = filled(journal)
    export = looking.export(visited)
    next(export)
    done = threading.Thread(target=play, args=(journal, turn(one, 3, episode="ep-0")))
    done.start()
    done.join(5)
    assert not done.is_alive()
    assert sum(form["kind"] == "turn" for form, _ in export) == 2
    assert sum(form["kind"] == "turn" for form, _ in looking.export(visited)) == 3


def test_what_is_over_for_long_is_forgotten(journal, url, monkeypatch):
    filled(journal)
    monkeypatch.setattr(do, "FORGET_AT_ONCE", 1)
    opened = visit(url, writes=True)
    assert prune(opened, 60.0) == (0, 0)
    assert prune(opened, 40.0) == (0, 1)
    assert [line.state for line in looking.lines(opened)] == ["open", "open"]
    vacuum(opened)
    assert len(looking.lines(opened)) == 2
    opened.engine.dispose()


def test_sessions_whose_time_is_up_expire_where_that_is_asked_for(journal, url):
    now = call(journal, journal.now)
    late, soon, due = (session(name, f"ep-{name}", idle=10) for name in ("late", "soon", "due"))
    make(journal, late, key="1", now=now - SLACK_SECONDS - 30)
    make(journal, soon, key="2", now=now - 30)
    make(journal, due, key="3", now=now - SLACK_SECONDS - 30)
    play(journal, turn(late, 1, episode="ep-late"))
    opened = visit(url, writes=True)
    assert prune(opened, 3600.0) == (0, 0)
    assert prune(opened, 3600.0, expire=True) == (2, 0)
    assert {line.session: line.state for line in looking.lines(opened)} == {
        late.id.hex()[:12]: "expired",
        soon.id.hex()[:12]: "open",
        due.id.hex()[:12]: "expired",
    }
    assert call(journal, do.open_sessions) == call(journal, do.open_sessions, "t") == 1
    endings = {form["episode"]: form["ending"] for form, _ in looking.export(opened) if form["kind"] == "episode"}
    assert endings == {"ep-late": "aborted", "ep-soon": None, "ep-due": "aborted"}
    assert play(journal, turn(late, 2, episode="ep-late")) == [False]
    opened.engine.dispose()


def test_rows_that_hold_anything_are_told_as_they_are(tmp_path):
    journal = open_journal(str(tmp_path / "journal.db"))
    filled(journal)
    with journal.engine.begin() as connection:
        for change in (
            "turns SET action = 'torn' WHERE turn = 1",
            "turns SET digest = 'torn' WHERE turn = 1",
            "turns SET effects = X'FF' WHERE turn = 2",
            "episodes SET record = X'00' WHERE record IS NOT NULL",
            "episodes SET player = X'FF'",
            "sessions SET options = '{', touched = 'then'",
        ):
            connection.exec_driver_sql(f"UPDATE {change}")
    assert [line.idle for line in looking.lines(journal)][:2] == [0.0, 0.0]
    with journal.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sessions SET episode = 'gone' WHERE name = 'name 1'")
    assert [line.split for line in looking.lines(journal)].count("(missing)") == 1
    told = list(looking.export(journal))
    assert [record for _, record in told if record is not None] == []
    turns = [form for form, _ in told if form["kind"] == "turn"]
    assert (turns[0]["action"], turns[0]["digest"]) == ({"damaged": "torn"}, {"damaged": "torn"})
    assert turns[1]["effects"] == {"damaged": "ff"}
    assert {str(form["options"]) for form, _ in told if form["kind"] == "session"} == {"{'damaged': '{'}"}
    journal.engine.dispose()


def test_a_session_without_rows_that_fit_expires_all_the_same(journal, url):
    now = call(journal, journal.now)
    make(journal, session("torn", "ep-torn", idle=10), key="1", now=now - SLACK_SECONDS - 30)
    with journal.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM playing")
    opened = visit(url, writes=True)
    assert prune(opened, 3600.0, expire=True) == (1, 0)
    assert call(journal, do.open_sessions) == 0
    opened.engine.dispose()


def test_a_journal_of_another_version_is_left_alone(journal, url):
    with journal.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for writes in (False, True):
        with pytest.raises(DataError, match="of another version") as caught:
            visit(url, writes=writes)
        assert "9999" in caught.value.why


def test_what_is_no_journal_is_told_so(tmp_path):
    with pytest.raises(DataError, match="there is no journal"):
        visit(str(tmp_path / "none.db"), writes=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("words " * 1000)
    with pytest.raises(DataError, match="cannot be used"):
        visit(str(tmp_path / "text"), writes=False)
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match="is none"):
        visit(str(tmp_path / "empty"), writes=False)
    with pytest.raises(ConfigError):
        visit("mysql://host/name", writes=False)
    with pytest.raises(ServiceError):
        visit("postgresql://nobody@127.0.0.1:1/none", writes=False)
