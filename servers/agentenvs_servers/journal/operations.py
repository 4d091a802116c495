"""What is done to the journal: one function an operation, each within somebody's transaction.

Whatever ends, resets or expires a session locks its row first and looks whether the session stands as the caller
believes: at this episode, at this turn. A turn that another worker is committing holds that lock too, so none can slip
in between the look and the deed. The caller of an operation that answers False must read the journal again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from agentenvs_servers.journal.rows import (
    CreateRow,
    Ended,
    EpisodeRow,
    Head,
    Loaded,
    PlayedTurn,
    Saved,
    SessionRow,
)
from agentenvs_servers.journal.schema import (
    attempts,
    checkpoints,
    counters,
    creates,
    episodes,
    meta,
    playing,
    sessions,
    tickets,
    turns,
)
from agentenvs_servers.journal.soundness import DamagedError, must_be_sound

ALL = "*"
"""The counter of every tenant's sessions together."""

LEASE_SECONDS = 15.0
"""How long a worker that says nothing still counts as alive."""

FORGET_AT_ONCE = 500
"""Sessions that one transaction forgets at most."""


class Full(Exception):
    """There is no room for more sessions.

    Args:
        open_: How many are open.
        tenant: Whether it is the tenant's own quota.
    """

    def __init__(self, open_: int, *, tenant: bool) -> None:
        super().__init__(open_)
        self.open = open_
        self.tenant = tenant


# ---- create ----------------------------------------------------------------------------------------------------------


def find_create(connection: Connection, tenant: str, key: str) -> CreateRow | None:
    """Return a create that was answered.

    Raises:
        DamagedError: Its sessions cannot be told any more.
    """
    found = connection.execute(
        sa.select(creates.c.form, creates.c.single).where(creates.c.tenant == tenant, creates.c.key == key)
    ).one_or_none()
    if found is None:
        return None
    first = sa.select(episodes.c.opening).where(episodes.c.session == sessions.c.id, episodes.c.n == 1)
    made = connection.execute(
        sa.select(sessions.c.name, sessions.c.env, sessions.c.idle, sessions.c.absolute, first.scalar_subquery())
        .where(sessions.c.tenant == tenant, sessions.c.create_key == key)
        .order_by(sessions.c.place)
    ).all()
    if not made or any(row[-1] is None for row in made):
        raise DamagedError("the answer to this create is damaged")
    return CreateRow(found.form, found.single, [tuple(row) for row in made])


def insert_create(
    connection: Connection,
    create: tuple[str, str, bytes, bool],
    made: Sequence[tuple[SessionRow, EpisodeRow]],
    room: int,
    quota: int | None,
    now: float,
) -> bool:
    """Keep a create with its sessions and their first episodes.

    Args:
        connection: A transaction.
        create: Tenant, key, form, and whether a single session was asked for.
        made: The sessions.
        room: The most sessions that may be open.
        quota: The most that the tenant may have open.
        now: The journal's clock.

    Returns:
        Whether it was kept; False where the key is taken.

    Raises:
        Full: There is no room.
    """
    tenant, key, form, single = create
    if not _inserted(connection, creates, {"tenant": tenant, "key": key, "form": form, "single": single}):
        return False
    count(connection, tenant, len(made), room, quota)
    standing = {"born": now, "touched": now, "state": "open", "begun": 1, "lease": now + LEASE_SECONDS}
    connection.execute(sa.insert(sessions), [{**session._asdict(), **standing} for session, _ in made])
    connection.execute(sa.insert(episodes), [episode._asdict() for _, episode in made])
    _play(connection, [episode.id for _, episode in made])
    return True


def insert_worlds(
    connection: Connection,
    create: tuple[str, str, bytes, bool],
    made: Sequence[tuple[SessionRow, EpisodeRow]],
    saved: Sequence[Saved | None],
    room: int,
    quota: int | None,
    now: float,
) -> bool:
    """Keep a create, with the worlds of those sessions that do not begin with a reset; see :func:`insert_create`."""
    if not insert_create(connection, create, made, room, quota, now):
        return False
    for (_, episode), world in zip(made, saved, strict=True):
        if world is not None:
            keep_checkpoint(connection, episode.id, world)
    return True


def _play(connection: Connection, ids: Sequence[str]) -> None:
    """Let turns of episodes be played."""
    which = sa.select(episodes.c.id, episodes.c.session, episodes.c.no).where(episodes.c.id.in_(ids))
    connection.execute(sa.insert(playing).from_select(["episode", "session", "no"], which))


def count(connection: Connection, tenant: str, more: int, room: int, quota: int | None) -> None:
    """Count sessions in, where there is room for them.

    Raises:
        Full: There is none.
    """
    limits = [(ALL, room), *([(tenant, quota)] if quota is not None else [(tenant, room)])]
    for name, most in limits:
        _inserted(connection, counters, {"tenant": name, "open": 0})
        grown = connection.execute(
            sa.update(counters)
            .where(counters.c.tenant == name, counters.c.open + more <= most)
            .values(open=counters.c.open + more)
        )
        if grown.rowcount == 0:
            raise Full(open_sessions(connection, name), tenant=name != ALL)


def open_sessions(connection: Connection, tenant: str = ALL) -> int:
    """Return how many sessions are open."""
    return connection.execute(sa.select(counters.c.open).where(counters.c.tenant == tenant)).scalar() or 0


def open_by_tenant(connection: Connection) -> list[tuple[str, str, int]]:
    """Return environment, tenant and number of open sessions."""
    found = connection.execute(
        sa.select(sessions.c.env, sessions.c.tenant, sa.func.count())
        .where(sessions.c.state == "open")
        .group_by(sessions.c.env, sessions.c.tenant)
        .order_by(sessions.c.env, sessions.c.tenant)
    )
    return [(env, tenant, count) for env, tenant, count in found]


def probe(connection: Connection, now: float) -> None:
    """Write something, to see whether that can be done."""
    value = repr(now)
    if not _inserted(connection, meta, {"name": "probe", "value": value}):
        connection.execute(sa.update(meta).where(meta.c.name == "probe").values(value=value))


def _inserted(connection: Connection, table: sa.Table, values: dict[str, Any]) -> bool:
    """Insert a row, and return whether it was not there."""
    insert = insert_sqlite if connection.dialect.name == "sqlite" else insert_postgresql
    statement = insert(table).values(values).on_conflict_do_nothing().returning(sa.literal(1))
    return connection.execute(statement).first() is not None


def attempt(connection: Connection, tenant: str, env: str, split: tuple[str, int], secret: str, key: str) -> int | None:
    """Give a tenant a sealed scenario that it has not had, and return its index; None where it has had all.

    Args:
        connection: A transaction.
        tenant: Who asks.
        env: Id of the environment.
        split: Name and size of its sealed split.
        secret: Name of the operator's secret.
        key: Of the create; one that is asked again gets the same scenario.
    """
    name, size = split
    asked = (attempts.c.tenant == tenant, attempts.c.env == env, attempts.c.split == name, attempts.c.secret == secret)
    had = dict(connection.execute(sa.select(attempts.c.key, attempts.c.number).where(*asked)).all())
    if key in had:
        return int(had[key])
    row = {"tenant": tenant, "env": env, "split": name, "secret": secret, "key": key}
    for number in sorted(set(range(size)).difference(had.values())):
        if _inserted(connection, attempts, {**row, "number": number}):
            return number
    return None


# ---- episodes --------------------------------------------------------------------------------------------------------


def begin_episode(connection: Connection, ended: Ended, episode: EpisodeRow, key: str, form: bytes, now: float) -> bool:
    """Let a session go on to another episode.

    Args:
        connection: A transaction.
        ended: The episode it leaves, as the caller knows it.
        episode: The one it begins.
        key: Of the reset.
        form: What was asked with that key.
        now: The journal's clock.

    Returns:
        Whether the session stood as the caller knew it; else nothing was done.
    """
    if not _stands(connection, episode.session, ended):
        return False
    _end_episode(connection, ended)
    connection.execute(sa.insert(episodes).values(episode._asdict()))
    _play(connection, [episode.id])
    connection.execute(
        sa.update(sessions)
        .where(sessions.c.id == episode.session)
        .values(episode=episode.id, begun=episode.n, reset_key=key, reset_form=form, touched=now)
    )
    return True


def end_session(
    connection: Connection, session: bytes, ended: Ended, how: str, farewell: bytes | None, now: float
) -> bool:
    """Close a session, or let it expire; see :func:`begin_episode` for the result."""
    if not _stands(connection, session, ended):
        return False
    _end_episode(connection, ended)
    tenant = connection.execute(sa.select(sessions.c.tenant).where(sessions.c.id == session)).scalar_one()
    connection.execute(
        sa.update(sessions).where(sessions.c.id == session).values(state=how, over=now, farewell=farewell)
    )
    _count_out(connection, tenant)
    return True


def _count_out(connection: Connection, tenant: str) -> None:
    connection.execute(sa.update(counters).where(counters.c.tenant.in_([ALL, tenant])).values(open=counters.c.open - 1))


def _stands(connection: Connection, session: bytes, ended: Ended) -> bool:
    """Lock the current episode, and return whether it is that of the session, at this turn."""
    no = connection.execute(
        sa.select(playing.c.no).where(playing.c.episode == ended.id, playing.c.session == session).with_for_update()
    ).scalar()
    if no is None:
        return False
    return _last_turn(connection, ended.id, no) == ended.turns


def _last_turn(connection: Connection, episode: str, no: int) -> int:
    last = connection.execute(sa.select(sa.func.max(turns.c.turn)).where(turns.c.episode == no)).scalar()
    if last is None:  # a fork begins with a saved world
        last = connection.execute(sa.select(checkpoints.c.turn).where(checkpoints.c.episode == episode)).scalar()
    return last or 0


def _end_episode(connection: Connection, ended: Ended) -> None:
    connection.execute(sa.delete(playing).where(playing.c.episode == ended.id))
    connection.execute(
        sa.update(episodes).where(episodes.c.id == ended.id).values(ending=ended.ending, record=ended.record)
    )
    if ended.record is not None:  # the record holds all that the turns hold
        connection.execute(sa.delete(turns).where(turns.c.episode == _no(ended.id)))
        connection.execute(sa.delete(checkpoints).where(checkpoints.c.episode == ended.id))


def _no(episode: str) -> sa.ScalarSelect[int]:
    return sa.select(episodes.c.no).where(episodes.c.id == episode).scalar_subquery()


def keep_checkpoint(connection: Connection, episode: str, saved: Saved) -> None:
    """Keep a saved world, instead of an earlier one."""
    connection.execute(sa.delete(checkpoints).where(checkpoints.c.episode == episode))
    connection.execute(sa.insert(checkpoints).values(episode=episode, turn=saved.turn, data=saved.data))


# ---- reading ---------------------------------------------------------------------------------------------------------


def head(connection: Connection, session: bytes) -> Head | None:
    """Return how a session stands, in short."""
    row = connection.execute(
        sa.select(sessions.c.state, sessions.c.episode).where(sessions.c.id == session)
    ).one_or_none()
    return None if row is None else Head(row.state, row.episode)


def turns_after(connection: Connection, episode: str, turn: int) -> list[PlayedTurn]:
    """Return the turns of an episode after one."""
    found = connection.execute(
        sa.select(turns.c.turn, turns.c.action, turns.c.digest, turns.c.effects, turns.c.failed)
        .where(turns.c.episode == _no(episode), turns.c.turn > turn)
        .order_by(turns.c.turn)
    )
    return [PlayedTurn(*row) for row in found]


def load(connection: Connection, session: bytes, now: float) -> Loaded | None:
    """Return all that is needed to go on with a session.

    Raises:
        DamagedError: Its rows hold what was never written.
    """
    its = sa.and_(playing.c.episode == sessions.c.episode, playing.c.session == sessions.c.id)
    row = (
        connection.execute(
            sa.select(sessions, playing.c.no.label("plays")).outerjoin(playing, its).where(sessions.c.id == session)
        )
        .mappings()
        .one_or_none()
    )
    if row is None:
        return None
    must_be_sound(sessions, row)
    if row["state"] == "open" and row["plays"] is None:
        raise DamagedError(f"{row['episode']} is not known to be played")
    found = (
        connection.execute(sa.select(episodes).where(episodes.c.id == row["episode"], episodes.c.session == session))
        .mappings()
        .one_or_none()
    )
    if found is None:
        raise DamagedError(f"{row['episode']} is missing")
    must_be_sound(episodes, found)
    kept = connection.execute(
        sa.select(checkpoints.c.turn, checkpoints.c.data).where(checkpoints.c.episode == row["episode"])
    ).one_or_none()
    saved = None if kept is None else Saved(*kept)
    past = connection.execute(
        sa.select(episodes.c.id)
        .where(episodes.c.session == session, episodes.c.record.is_not(None))
        .order_by(episodes.c.n)
    ).scalars()
    return Loaded(
        session=SessionRow(**{name: row[name] for name in SessionRow._fields}),
        episode=EpisodeRow(**{name: found[name] for name in EpisodeRow._fields}),
        saved=saved,
        turns=turns_after(connection, row["episode"], 0 if saved is None else saved.turn),
        recorded=list(past),
        now=now,
        **{
            name: row[name]
            for name in ("state", "begun", "born", "touched", "over", "reset_key", "reset_form", "farewell")
        },
    )


def find_agent(connection: Connection, agent: bytes) -> tuple[str, str] | None:
    """Return the name of the session and the episode of an agent key."""
    row = connection.execute(
        sa.select(sessions.c.name, episodes.c.id)
        .join_from(episodes, sessions, episodes.c.session == sessions.c.id)
        .where(episodes.c.agent == agent)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def record(connection: Connection, session: bytes, episode: str) -> bytes | None:
    """Return the packed record of a past episode."""
    return connection.execute(
        sa.select(episodes.c.record).where(episodes.c.session == session, episodes.c.id == episode)
    ).scalar()


# ---- time ------------------------------------------------------------------------------------------------------------


def touch(connection: Connection, ages: Mapping[bytes, float], now: float) -> None:
    """Note when sessions were answered last.

    Args:
        connection: A transaction.
        ages: How many seconds ago, by session.
        now: The journal's clock.
    """
    rows = [{"key": key, "at": now - ages[key]} for key in sorted(ages)]
    if rows:
        connection.execute(
            sa.update(sessions)
            .where(sessions.c.id == sa.bindparam("key"), sessions.c.touched < sa.bindparam("at"))
            .values(touched=sa.bindparam("at")),
            rows,
        )


def standing(connection: Connection, session: bytes, now: float) -> tuple[str, float, float] | None:
    """Return state, last touch and the clock."""
    row = connection.execute(sa.select(sessions.c.state, sessions.c.touched).where(sessions.c.id == session)).first()
    return None if row is None else (row.state, row.touched, now)


def due(connection: Connection, slack: float, most: int, now: float) -> list[tuple[bytes, str]]:
    """Return the sessions, with their names, whose time is up by more than a slack: a touch may be on its way."""
    late = sa.or_(sessions.c.touched + sessions.c.idle < now - slack, sessions.c.born + sessions.c.absolute < now)
    found = connection.execute(
        sa.select(sessions.c.id, sessions.c.name)
        .where(sessions.c.state == "open", late)
        .order_by(sessions.c.touched)
        .limit(most)
    )
    return [(row.id, row.name) for row in found]


def abandon(connection: Connection, session: bytes, now: float) -> bool:
    """Let a session expire whose rows make no sense: its episode is aborted without a verdict; False where it is over.

    What is left of it is kept for the retention time, for whoever wants to know what became of it.
    """
    # First what every other operation locks first; where the session is over there is none.
    connection.execute(sa.delete(playing).where(playing.c.session == session))
    gone = connection.execute(
        sa.update(sessions)
        .where(sessions.c.id == session, sessions.c.state == "open")
        .values(state="expired", over=now, farewell=None)
        .returning(sessions.c.tenant)
    ).first()
    if gone is None:
        return False
    aborted = sa.and_(episodes.c.session == session, episodes.c.ending.is_(None))
    connection.execute(sa.update(episodes).where(aborted).values(ending="aborted"))
    _count_out(connection, gone.tenant)
    return True


def give_up_due(connection: Connection, slack: float, most: int, now: float) -> int:
    """Let sessions expire that no server did in time; their episodes are aborted, without a verdict.

    Args:
        connection: A transaction.
        slack: By how many seconds their time must be up.
        most: How many at a time.
        now: The journal's clock.

    Returns:
        How many.
    """
    count = 0
    for session, _ in due(connection, slack, most, now):
        row = connection.execute(sa.select(playing.c.episode, playing.c.no).where(playing.c.session == session)).first()
        if row is None:
            count += abandon(connection, session, now)
            continue
        ended = Ended(row.episode, _last_turn(connection, row.episode, row.no), "aborted", None)
        count += end_session(connection, session, ended, "expired", None, now)
    return count


def forget(connection: Connection, retention: float, now: float) -> int:
    """Delete what is over for longer than the retention time, and return how many sessions that were.

    What a ticket has opened stays until it is settled, or a scenario of it could be opened twice.
    """
    unsettled = sa.exists().where(tickets.c.settled.is_(None), sessions.c.tenant == "ticket:" + tickets.c.name)
    gone = connection.execute(
        sa.select(sessions.c.id, sessions.c.tenant, sessions.c.create_key)
        .where(sessions.c.state != "open", sessions.c.over < now - retention, ~unsettled)
        .limit(FORGET_AT_ONCE)
    ).all()
    drop(connection, [row.id for row in gone])
    for tenant, key in dict.fromkeys((row.tenant, row.create_key) for row in gone):
        left = sa.exists().where(sessions.c.tenant == tenant, sessions.c.create_key == key)
        connection.execute(sa.delete(creates).where(creates.c.tenant == tenant, creates.c.key == key, ~left))
    return len(gone)


def drop(connection: Connection, ids: Sequence[bytes]) -> None:
    """Delete sessions with all that is theirs."""
    if not ids:
        return
    theirs = episodes.c.session.in_(ids)
    connection.execute(sa.delete(turns).where(turns.c.episode.in_(sa.select(episodes.c.no).where(theirs))))
    connection.execute(sa.delete(checkpoints).where(checkpoints.c.episode.in_(sa.select(episodes.c.id).where(theirs))))
    connection.execute(sa.delete(playing).where(playing.c.session.in_(ids)))
    connection.execute(sa.delete(episodes).where(episodes.c.session.in_(ids)))
    connection.execute(sa.delete(sessions).where(sessions.c.id.in_(ids)))


# ---- leases ----------------------------------------------------------------------------------------------------------


def renew(connection: Connection, owner: str, now: float) -> None:
    """Say that a worker is alive, and with it the worlds that only it has."""
    until = now + LEASE_SECONDS
    connection.execute(
        sa.update(sessions).where(sessions.c.owner == owner, sessions.c.state == "open").values(lease=until)
    )


def take(connection: Connection, session: bytes, owner: str, now: float) -> bool:
    """Take a session over from a worker that is gone; return whether it is the taker's now."""
    mine = sa.or_(sessions.c.owner == owner, sessions.c.lease < now)
    taken = connection.execute(
        sa.update(sessions).where(sessions.c.id == session, mine).values(owner=owner, lease=now + LEASE_SECONDS)
    )
    return taken.rowcount > 0
