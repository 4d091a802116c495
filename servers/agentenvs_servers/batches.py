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
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentenvs_servers import bodies
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.journal.writing import Handed
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
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
    return await asyncio.shield(asyncio.get_running_loop().create_task(played(hall, steps)))


async def played(hall: Hall, steps: Sequence[Step]) -> bytes:
    """Play the steps, in a task that nobody cancels, and return the answer to their batch."""
    return await _Batch(hall, steps).play()


class Begun:
    """A step that was played at once, and may wait for the journal; its session is held until :meth:`leave`.

    Args:
        hall: The sessions.
        session: That of the step.
        step: What was asked for.
        answer: The answer.
        pending: The turn on its way to the journal.
    """

    __slots__ = ("_hall", "_session", "_step", "answer", "pending")

    def __init__(
        self, hall: Hall, session: Session, step: Step, answer: bytes | ProblemError, pending: Handed | None
    ) -> None:
        self._hall = hall
        self._session = session
        self._step = step
        self.answer = answer
        self.pending = pending

    def leave(self) -> None:
        """Give the session back."""
        self._hall.leave(self._session)

    @property
    def is_in(self) -> bool:
        """Whether the journal has the turn already, so that its answer may leave."""
        return self.pending is None or self.pending.outcome is True

    def body(self) -> bytes:
        """Return the answer.

        Raises:
            ProblemError: It is one.
        """
        if isinstance(self.answer, ProblemError):
            raise self.answer
        return self.answer

    async def settled(self) -> bytes:
        """Return the answer once it may leave; see :meth:`~agentenvs_servers.sessions.Session.settled`."""
        if self.is_in:
            return self.body()
        step = self._step
        return await self._session.settled(self.answer, self.pending, step.episode, step.turn, step.action)


def begin(hall: Hall, step: Step) -> Begun | None:
    """Play a step at once; None where that cannot be, and :func:`alone` must be awaited.

    Raises:
        ProblemError: It is refused.
    """
    session = hall.enter(step.session)
    if session is None:
        return None
    started = None
    try:
        started = session.start_step(step.episode, step.turn, step.action, trace=step.trace)
    finally:
        if started is None:
            hall.leave(session)
    return None if started is None else Begun(hall, session, step, *started)


async def alone(hall: Hall, step: Step) -> bytes:
    """Play one step and return its answer; see :meth:`~agentenvs_servers.hall.Hall.step`."""
    return await hall.step(step.session, step.episode, step.turn, step.action, trace=step.trace)


class _Batch:
    def __init__(self, hall: Hall, steps: Sequence[Step]) -> None:
        self._hall = hall
        self._steps = steps
        self._replies: list[bytes] = [b""] * len(steps)

    async def play(self) -> bytes:
        """Return the answer to the batch."""
        begun: list[tuple[int, Begun]] = []
        slow: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        for places in self._chains():
            found = self._begin(places[0]) if len(places) == 1 else None
            if found is not None:
                begun.append((places[0], found))
            elif not self._replies[places[0]]:
                slow.append(loop.create_task(self._chain(places)))
        if begun and (last := begun[-1][1].pending) is not None:
            await last.known()
        for place, found in begun:
            # What was begun together is committed together: nearly always only the last was waited for.
            if found.is_in and not isinstance(found.answer, ProblemError):
                self._replies[place] = b'{"status":200,"result":%b}' % found.answer
                found.leave()
                continue
            try:
                await self._reply(place, found.settled())
            finally:
                found.leave()
        if slow:
            await asyncio.wait(slow)
        return b'{"items":[%b]}' % b",".join(self._replies)

    def _chains(self) -> Iterable[Sequence[int]]:
        """Return the places of the steps of each session."""
        if len({step.session for step in self._steps}) == len(self._steps):
            return ((place,) for place in range(len(self._steps)))
        chains: dict[str, list[int]] = {}
        for place, step in enumerate(self._steps):
            chains.setdefault(step.session, []).append(place)
        return chains.values()

    def _begin(self, place: int) -> Begun | None:
        """Play a step at once, where that can be; one that is refused at once has its reply."""
        try:
            return begin(self._hall, self._steps[place])
        except ProblemError as problem:
            self._replies[place] = self._refused(problem)
        except Exception as error:  # noqa: BLE001 - boundary: the failure of one step must not take the others' answers
            self._replies[place] = self._refused(_internal(error))
        return None

    async def _chain(self, places: Sequence[int]) -> None:
        """Play the steps of one session."""
        for place in places:
            await self._reply(place, alone(self._hall, self._steps[place]))

    async def _reply(self, place: int, work: Awaitable[bytes]) -> None:
        try:
            self._replies[place] = b'{"status":200,"result":%b}' % await work
        except ProblemError as problem:
            self._replies[place] = self._refused(problem)
        except Exception as error:  # noqa: BLE001 - boundary: the failure of one step must not take the others' answers
            self._replies[place] = self._refused(_internal(error))

    def _refused(self, problem: ProblemError) -> bytes:
        self._hall.metrics.problems.add(problem.code)
        return b"{%b}" % refusal(problem)


def _internal(error: Exception) -> ProblemError:
    log.error("a step of a batch failed: %s", told(error))
    return ProblemError("internal")


def refusal(problem: ProblemError) -> bytes:
    """Return the fields that say what was refused, where that is no message of its own."""
    fields = b'"status":%d,"problem":%b' % (problem.status, problem.body)
    wait = problem.headers.get("Retry-After")
    return fields if wait is None else fields + b',"retry_after":%b' % wait.encode()
