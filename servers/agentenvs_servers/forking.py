"""Copies of a session at its turn: sessions of their own, with names and agent keys of their own.

A fork is made between two turns, all copies of a request at the same one, and once however often it is asked. In the
journal it is a create like any other, whose episodes begin with a saved world instead of a reset; so a fork is kept as
its original is, and made again without it. Its record is whole, and its header says where it left the original.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING

from agentenvs.core.errors import CapabilityError
from agentenvs_servers.creating import Made, Order
from agentenvs_servers.dumping import spelled
from agentenvs_servers.episodes import Episode
from agentenvs_servers.failures import told
from agentenvs_servers.journal.rows import Saved, lookup
from agentenvs_servers.keeping import Keeper, pack_world
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.presence import Life
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.wire import ForkBody

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall

log = logging.getLogger("agentenvs.server")


async def fork(hall: Hall, source: Session, body: ForkBody, tenant: Tenant, address: str) -> bytes:
    """Copy a session and return the answer.

    Args:
        hall: Where sessions go.
        source: The session; held by the caller.
        body: How many copies, and the key.
        tenant: Who asks, and whose sessions they will be.
        address: From where.

    Raises:
        ProblemError: ``not_forkable``, ``sealed_rule``, ``closed``, ``expired``, ``episode_ended``, ``key_conflict``,
            ``environment_failed``, and whatever refuses a create.
    """

    async def make(made: list[Made]) -> None:
        _refuse(source)
        await source.between_turns(lambda playing: _copy(hall, source, playing, body.count, tenant, made))

    keeper = source.keeper
    order = Order(
        tenant,
        f"fork {lookup(source.name).hex()} {hashlib.sha256(body.key.encode('utf-8', 'surrogatepass')).hexdigest()}",
        spelled(body.model_dump()),
        body.count,
        single=False,
        kept=keeper is not None,
        strict=keeper is not None and keeper.strict,
        make=make,
    )
    return await hall.creates.once(order, address)


def _refuse(source: Session) -> None:
    """Refuse what cannot be copied, or not be kept.

    Raises:
        ProblemError: ``sealed_rule`` or ``not_forkable``.
    """
    if source.sealed:
        raise ProblemError("sealed_rule", "it is played once")
    spec = source.world.spec
    if not spec.capabilities.forkable:
        raise ProblemError("not_forkable", f"{spec.id} says forkable: false")
    if source.keeper is not None and not spec.capabilities.snapshot:
        raise ProblemError(
            "not_forkable",
            f"{spec.id} says snapshot: false, so that a copy cannot be kept in the journal",
            fix="create the session with durability: memory",
        )


async def _copy(hall: Hall, source: Session, playing: Episode, count: int, tenant: Tenant, made: list[Made]) -> None:
    """Make the copies, between two turns."""
    if playing.ended:
        raise ProblemError("episode_ended", f"it ended after turn {playing.turn}")
    caller = hall.tools.caller
    try:
        for _ in range(count):
            episode = await caller.call(playing.env, playing.fork, *hall.tools.make_names())
            saved = None
            if source.keeper is not None:
                saved = Saved(playing.turn, await caller.call(episode.env, pack_world, episode))
            made.append(_session(hall, source, episode, tenant, saved))
            await asyncio.sleep(0)  # a large group must not keep the others waiting
    except CapabilityError as error:
        raise ProblemError("not_forkable", error.what) from error
    except ProblemError:
        raise
    except Exception as error:
        log.error("the environment failed when %s was copied: %s", playing.name, told(error))
        raise ProblemError("environment_failed", f"{type(error).__name__} in its copying") from error


def _session(hall: Hall, source: Session, episode: Episode, tenant: Tenant, saved: Saved | None) -> Made:
    name, keeper = hall.tools.names.session(), None
    if source.keeper is not None:
        keeper = Keeper(source.keeper.journal, name, strict=source.keeper.strict)
    life = Life(hall.now(), source.life.idle, hall.settings.absolute_ttl)
    session = Session(name, source.world, episode.env, life, traced=source.traced, tools=hall.tools, keeper=keeper)
    session.tenant, session.drops = tenant.name, source.drops
    return Made(session, session.begin_with(episode), saved)
