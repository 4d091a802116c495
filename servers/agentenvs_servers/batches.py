"""Many steps in one request: each is played, and answered, as it would be alone.

Sessions are independent of each other, so their steps are begun one after another and then waited for together: a
world on the event loop is played at once, and what all of them wait for is one commit of the journal. Steps of one
session are played in the order of the list. Nothing is rolled back: a step that is refused says why in its place, and
those after it are played all the same, since each names its turn.

Items are checked by hand; whatever is not plainly right is left to the model to judge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentenvs_servers import bodies
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import StepItem, StepsBody

_LAST_TURN = 2**53
_MOST_NAME = 200
_FIELDS = frozenset(StepItem.model_fields)

log = logging.getLogger("agentenvs.server")


class Step(NamedTuple):
    """One step that is asked for."""

    session: str
    episode: str
    turn: int
    action: Any
    trace: bool


def parse(form: Any, most: int) -> list[Step]:
    """Return the steps of a batch.

    Args:
        form: The JSON value that was sent.
        most: How many there may be.

    Raises:
        ProblemError: ``batch_too_long`` or ``invalid_request``.
    """
    items = form.get("items") if type(form) is dict and len(form) == 1 else None
    if type(items) is not list:
        return _judged(form)
    if len(items) > most:
        raise ProblemError("batch_too_long", f"{len(items)} steps; the limit is {most}")
    steps = [step_of(item) for item in items]
    return steps if None not in steps else _judged(form)  # type: ignore[return-value]


def step_of(item: Any) -> Step | None:
    """Return the step that an item asks for; None where that is not plain, and the model must judge."""
    try:
        session, episode, turn, action = item["session"], item["episode"], item["turn"], item["action"]
        size = len(item)
        trace = item["trace"] if size == len(_FIELDS) else False
    except (KeyError, TypeError, IndexError):
        return None
    plain = (
        type(session) is str
        and type(episode) is str
        and type(turn) is int
        and type(trace) is bool
        and type(item) is dict
        and 4 <= size <= len(_FIELDS)
    )
    # Lone surrogates are no text: the model refuses them, and all else that is not ASCII is left to it too.
    if plain and session.isascii() and episode.isascii() and len(episode) <= _MOST_NAME and 1 <= turn <= _LAST_TURN:
        return Step(session, episode, turn, action, trace)
    return None


def _judged(form: Any) -> list[Step]:
    try:
        items = StepsBody.model_validate(form).items
    except ValidationError as error:
        raise ProblemError("invalid_request", bodies.faults(error)) from error
    return [Step(item.session, item.episode, item.turn, item.action, item.trace) for item in items]


async def play(hall: Hall, steps: Sequence[Step]) -> bytes:
    """Play the steps and return the answer to their batch.

    It comes to its end, whether or not its client still waits.
    """
    task = asyncio.get_running_loop().create_task(_play(hall, steps))
    return await asyncio.shield(task)


async def _play(hall: Hall, steps: Sequence[Step]) -> bytes:
    replies: list[bytes] = [b""] * len(steps)
    chains: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        chains.setdefault(step.session, []).append(place)
    loop = asyncio.get_running_loop()
    work = [loop.create_task(_chain(hall, steps, places, replies)) for places in chains.values()]
    if work:
        await asyncio.wait(work)
    return b'{"items":[%b]}' % b",".join(replies)


async def _chain(hall: Hall, steps: Sequence[Step], places: list[int], replies: list[bytes]) -> None:
    for place in places:
        replies[place] = await _reply(alone(hall, steps[place]))


async def alone(hall: Hall, step: Step) -> bytes:
    """Play one step and return its answer; see :meth:`~agentenvs_servers.sessions.Session.step`."""
    async with hall.using(step.session) as found:
        return await found.step(step.episode, step.turn, step.action, trace=step.trace)


async def _reply(work: Coroutine[Any, Any, bytes]) -> bytes:
    try:
        return b'{"status":200,"result":%b}' % await work
    except ProblemError as problem:
        return b"{%b}" % refusal(problem)
    except Exception as error:  # noqa: BLE001 - boundary: the failure of one step must not take the others' answers
        log.error("a step of a batch failed: %s", told(error))
        return b"{%b}" % refusal(ProblemError("internal"))


def refusal(problem: ProblemError) -> bytes:
    """Return the fields that say what was refused, where that is no message of its own."""
    fields = b'"status":%d,"problem":%b' % (problem.status, problem.body)
    wait = problem.headers.get("Retry-After")
    return fields if wait is None else fields + b',"retry_after":%b' % wait.encode()
