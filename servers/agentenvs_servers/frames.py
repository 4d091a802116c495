"""The messages of a socket: each is done as the same request over HTTP is, and answered by its id.

A frame is one JSON object: ``id`` (a whole number of the client's), ``op``, and the fields of the request, ``session``
among them where HTTP has it in the path. Its answer has the same ``id``, a ``status``, and ``body`` or ``problem``.
What cannot be read so far that its id is known is answered with ``"id": null``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from pydantic import Field, ValidationError

from agentenvs.core.verdict import Ending
from agentenvs_servers import batches, bodies, forking, logs
from agentenvs_servers.auth import Pass
from agentenvs_servers.dumping import dump
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.metering import Route
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.requests import Request, current
from agentenvs_servers.wire import CreateBody, EpisodeId, ForkBody, ResetBody, SessionName, StepItem, Wire

MOST_ID = 2**53

M = TypeVar("M", bound=Wire)
Fields: TypeAlias = dict[str, Any]
Work: TypeAlias = Coroutine[Any, Any, bytes]

_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*(0|[1-9]\d{0,14})\s*[,}]')

_MAKING = frozenset({"create", "fork"})
_DOORS = {"step": "socket", "steps": "batch"}

log = logging.getLogger("agentenvs.server")


class EnvFrame(Wire):
    """``{"op": "env"}``."""

    env: str


class SessionFrame(Wire):
    """``{"op": "status"}`` and ``{"op": "ping"}``."""

    session: SessionName


class ResetFrame(ResetBody):
    """``{"op": "reset"}``."""

    session: SessionName


class ForkFrame(ForkBody):
    """``{"op": "fork"}``."""

    session: SessionName


class TraceFrame(SessionFrame):
    """``{"op": "trace"}``."""

    start: int = Field(default=1, alias="from", ge=1, le=2**53)


class RecordFrame(SessionFrame):
    """``{"op": "record"}``."""

    episode: EpisodeId | None = None


class CloseFrame(SessionFrame):
    """``{"op": "close"}``."""

    ending: Literal["abandoned", "truncated"] = "abandoned"


class Frame(NamedTuple):
    """A request."""

    id: int
    op: str
    fields: Fields


class Waiting(NamedTuple):
    """A turn that was played, and waits for the journal."""

    frame: Frame
    begun: batches.Begun
    request: Request
    began: float


class FrameError(Exception):
    """A frame that is no request; ``answer`` says why."""

    def __init__(self, number: int | None, problem: ProblemError) -> None:
        super().__init__(problem.code)
        self.code = problem.code
        self.answer = refusal(number, problem)


class NoTextError(Exception):
    """A frame of text that is no UTF-8: RFC 6455 wants its socket closed."""


def read(data: bytes, most: int) -> Frame:
    """Return the request of a frame.

    Args:
        data: The frame.
        most: Its limit in bytes.

    Raises:
        FrameError: It is none.
        NoTextError: It is not even text.
    """
    if len(data) > most:
        raise FrameError(_id_at_the_front(data), ProblemError("body_too_large", f"the limit is {most} bytes"))
    try:
        form = bodies.loads(data)
    except ProblemError as problem:
        if not _is_text(data):
            raise NoTextError from problem
        raise FrameError(_id_at_the_front(data), problem) from problem
    if type(form) is not dict:
        raise FrameError(None, ProblemError("invalid_request", "a frame is one JSON object"))
    number, op = form.pop("id", None), form.pop("op", None)
    if type(number) is not int or not 0 <= number <= MOST_ID:
        raise FrameError(None, ProblemError("invalid_request", "id: a whole number, another one for each request"))
    if type(op) is not str:
        raise FrameError(number, ProblemError("invalid_request", "op: the name of a request"))
    return Frame(number, op, form)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _id_at_the_front(data: bytes) -> int | None:
    found = _ID.match(data, 0, 80)
    return None if found is None else int(found[1])


def refusal(number: int | None, problem: ProblemError) -> bytes:
    """Return the answer that is a problem."""
    name = b"null" if number is None else b"%d" % number
    return b'{"id":%b,%b}' % (name, batches.refusal(problem))


class Desk:
    """Does what frames ask for.

    Args:
        hall: The sessions.
        entered: What its socket was opened with.
        address: Of the client.
    """

    def __init__(self, hall: Hall, entered: Pass, address: str) -> None:
        self._hall = hall
        self._entered = entered
        self._address = address
        self._metrics = hall.metrics
        self._routes: dict[str, Route] = {}
        self._ops: Mapping[str, Callable[[Fields], Work]] = {
            "close": self._close,
            "create": self._create,
            "env": self._env,
            "envs": self._envs,
            "fork": self._fork,
            "ping": self._ping,
            "record": self._record,
            "reset": self._reset,
            "status": self._status,
            "step": self._step,
            "steps": self._steps,
            "trace": self._trace,
        }

    def begin(self, frame: Frame) -> bytes | Waiting | None:
        """Do at once what can be: a step, up to the journal.

        Returns:
            The answer; or a turn that waits for the journal (see :meth:`ended`); None where :meth:`answer` must be
            awaited.
        """
        step = batches.step_of(frame.fields) if frame.op == "step" else None
        if step is None:
            return None
        began = perf_counter()
        request = Request()
        current.set(request)
        try:
            self._entered.tenant()
            begun = batches.begin(self._hall, step)
            if begun is None:
                return None
            if begun.pending is not None:
                return Waiting(frame, begun, request, began)
            begun.leave()
            return self._told(frame, request, began, begun.answer)
        except ProblemError as problem:
            return self._told(frame, request, began, problem)
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            return self._told(frame, request, began, _internal(error))

    def ended(self, waiting: Waiting) -> bytes:
        """Return the answer to a turn that the journal has."""
        frame, begun, request, began = waiting
        begun.leave()
        return self._told(frame, request, began, begun.answer)

    async def settled(self, waiting: Waiting) -> bytes:
        """Return the answer to a turn that the journal has not taken, or not yet."""
        current.set(waiting.request)
        try:
            said: bytes | ProblemError = await waiting.begun.settled()
        except ProblemError as problem:
            said = problem
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            said = _internal(error)
        finally:
            waiting.begun.leave()
        return self._told(waiting.frame, waiting.request, waiting.began, said)

    async def answer(self, frame: Frame) -> bytes:
        """Return the answer to a request; whatever goes wrong is one too."""
        began = perf_counter()
        request = Request()
        current.set(request)
        try:
            self._entered.tenant()
            op = self._ops.get(frame.op)
            if op is None:
                raise ProblemError("invalid_request", f"op: one of {', '.join(self._ops)}")
            said: bytes | ProblemError = await op(frame.fields)
        except ProblemError as problem:
            said = problem
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            said = _internal(error)
        return self._told(frame, request, began, said)

    def _told(self, frame: Frame, request: Request, began: float, said: bytes | ProblemError) -> bytes:
        """Return the answer with its envelope, and count it."""
        if isinstance(said, ProblemError):
            status, answer = said.status, refusal(frame.id, said)
            self._metrics.problems.add(said.code)
        else:
            status = 201 if frame.op in _MAKING else 200
            answer = b'{"id":%d,"status":%d,"body":%b}' % (frame.id, status, said)
        took = perf_counter() - began
        route = self._routes.get(frame.op) or self._route(frame.op)
        route.answered(status, took)
        if logs.access.isEnabledFor(logging.INFO):
            logs.told_of(request, route.name, status, took)
        return answer

    def count(self, code: str) -> None:
        """Count a problem of a frame that is no request."""
        self._metrics.problems.add(code)

    def _route(self, op: str) -> Route:
        """Return the counters of an op; of one that is none, those of the unknown."""
        name = op if op in self._ops else "(unknown)"
        route = self._metrics.route(f"WS {name}", _DOORS.get(name))
        if name == op:
            self._routes[op] = route
        return route

    async def _step(self, fields: Fields) -> bytes:
        step = batches.step_of(fields)
        if step is None:
            item = _parsed(StepItem, fields)
            step = batches.Step(item.session, item.episode, item.turn, item.action, item.trace)
        return await batches.alone(self._hall, step)

    async def _steps(self, fields: Fields) -> bytes:
        return await batches.play(self._hall, batches.parse(fields, self._hall.settings.max_batch))

    async def _create(self, fields: Fields) -> bytes:
        return await self._hall.create(_parsed(CreateBody, fields), self._entered.tenant(), self._address)

    async def _reset(self, fields: Fields) -> bytes:
        frame = _parsed(ResetFrame, fields)
        body = ResetBody(**{name: getattr(frame, name) for name in ResetBody.model_fields})
        async with self._hall.using(frame.session) as found:
            return await found.reset(body)

    async def _fork(self, fields: Fields) -> bytes:
        frame = _parsed(ForkFrame, fields)
        body = ForkBody(key=frame.key, count=frame.count)
        async with self._hall.using(frame.session) as found:
            return await forking.fork(self._hall, found, body, self._entered.tenant(), self._address)

    async def _status(self, fields: Fields) -> bytes:
        async with self._hall.using(_parsed(SessionFrame, fields).session) as found:
            return await found.status()

    async def _trace(self, fields: Fields) -> bytes:
        frame = _parsed(TraceFrame, fields)
        async with self._hall.using(frame.session) as found:
            return await found.traces(frame.start)

    async def _record(self, fields: Fields) -> bytes:
        frame = _parsed(RecordFrame, fields)
        async with self._hall.using(frame.session) as found:
            return dump((await found.record(frame.episode)).decode())

    async def _ping(self, fields: Fields) -> bytes:
        async with self._hall.using(_parsed(SessionFrame, fields).session) as found:
            found.must_be_open()
        idle, absolute = self._hall.left(found)
        return dump({"idle": idle, "absolute": absolute})

    async def _close(self, fields: Fields) -> bytes:
        frame = _parsed(CloseFrame, fields)
        async with self._hall.using(frame.session) as found:
            if found.over is not None and found.over[0] == "expired":
                found.must_be_open()
            return await self._hall.end(found, "closed", cast("Ending", frame.ending))

    async def _env(self, fields: Fields) -> bytes:
        return dump(self._hall.world(_parsed(EnvFrame, fields).env).describe())

    async def _envs(self, fields: Fields) -> bytes:
        _parsed(Wire, fields)
        return dump({"envs": [world.line() for world in self._hall.worlds.values()]})


def _parsed(model: type[M], fields: Fields) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ProblemError("invalid_request", bodies.faults(error)) from error


def _internal(error: Exception) -> ProblemError:
    log.error("a request on a socket failed: %s", told(error))
    return ProblemError("internal")
