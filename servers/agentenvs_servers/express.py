"""Steps and batches over HTTP without uvicorn's scope and events: the bytes of a request in, those of its answer out.

What a server between connection and application costs is more than a step costs itself. So where the connection is one
of our own (:mod:`~agentenvs_servers.connection`), a step that is plain goes past all that: it is played as soon as its
bytes are there, and answered when the journal has it. So does a batch of steps.

Nothing is parsed here that a parser might read in another way. A request is plain where its first line is that of a
step to the letter, and the rest of its head is, to the byte, one that a connection's parser has read before: equal
bytes mean the same, whoever sent them. Whatever else it may be, a refusal included, is none of this module's business:
nothing was done then, and the application is asked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from agentenvs_servers import auth, batches, bodies, logs
from agentenvs_servers.batches import Begun, Step
from agentenvs_servers.failures import told
from agentenvs_servers.handlers import JSON_TYPE, Answer, Handlers
from agentenvs_servers.metering import Route
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError
from agentenvs_servers.requests import Request, current

MOST_HEADS = 4_096
"""Heads that are remembered; beyond them all are forgotten, and read anew."""

MOST_HEAD_BYTES = 2_048

Headers = Sequence[tuple[bytes, bytes]]

_LINE = re.compile(rb"POST /v1/(?:sessions/([0-9a-f]{8}\.s\.[\w-]{43})/step|steps) HTTP/1\.1\r\n", re.ASCII)
_LENGTH = re.compile(rb"\d{1,9}", re.ASCII)
_ODD = frozenset({b"expect", b"transfer-encoding", b"upgrade", b"x-request-id"})
"""Headers of requests that are not plain, whatever stands in them."""

log = logging.getLogger("agentenvs.server")


class Line(Protocol):
    """A connection, as far as it matters here."""

    def answer(self, answer: Answer, request: Request) -> None:
        """Send the answer to the request that runs, and go on to the next."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end; a server that stops waits for it."""


class _Asked(NamedTuple):
    """A request that runs."""

    line: Line
    request: Request
    began: float


class _Head(NamedTuple):
    """What a head means, but for its first line."""

    length: int
    """Of the body."""
    entered: auth.Pass


class Express:
    """The door of plain steps.

    Args:
        handlers: What the application calls.
        admit: Raises the problem that a request is answered for its headers alone, if any.
    """

    def __init__(self, handlers: Handlers, admit: Callable[[Mapping[bytes, bytes]], None]) -> None:
        self._hall = handlers.hall
        self._admit = admit
        self._step = handlers.hall.metrics.route("POST /v1/sessions/{session}/step", "http")
        self._steps = handlers.hall.metrics.route("POST /v1/steps", "batch")
        self._heads: dict[bytes, _Head] = {}

    def learn(self, data: bytes, headers: Headers) -> None:
        """Remember the head of a request.

        Args:
            data: What came, from the first byte of the request on.
            headers: What the parser read; names in lower case.
        """
        line = _LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or not 0 < end <= MOST_HEAD_BYTES:
            return
        rest = data[line.end() : end + 4]
        # With no line ended in any other way, the first empty line is where the head ends for any parser.
        if not rest.count(b"\r\n") == rest.count(b"\n") == rest.count(b"\r"):
            return
        names = [name for name, _ in headers]
        if names.count(b"content-length") != 1 or names.count(b"connection") > 1 or not _ODD.isdisjoint(names):
            return
        found = dict(headers)
        if found.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return
        length = found[b"content-length"]
        kind = found.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != JSON_TYPE.encode() or not _LENGTH.fullmatch(length):
            return
        if int(length) > self._hall.settings.max_body_bytes:
            return
        try:
            self._admit(found)
            entered = auth.Pass(found, self._hall.keyring)
        except ProblemError:
            return
        if len(self._heads) >= MOST_HEADS:
            self._heads.clear()
        self._heads[rest] = _Head(int(length), entered)

    def begin(self, line: Line, data: bytes) -> bool | None:
        """Take a request where it is plain, and answer it now or later.

        Args:
            line: Where it came; nothing else runs there.
            data: What came.

        Returns:
            Whether it was plain; None where it is so far, and not all of it is there.
        """
        first = _LINE.match(data)
        if first is None:
            return False
        at = first.end()
        end = data.find(b"\r\n\r\n", at) + 4
        head = self._heads.get(data[at:end])
        if head is None:
            return False
        missing = head.length - (len(data) - end)
        if missing:
            return None if missing > 0 else False
        asked = _Asked(line, Request(), perf_counter())
        current.set(asked.request)
        try:
            head.entered.tenant()
            if first[1] is None:
                return self._play(asked, bodies.loads(data[end:]))
            return self._begin(asked, _step(first[1].decode(), data[end:]))
        except ProblemError:
            return False  # the application says so as well, with all that belongs to it
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            self._answer(asked, self._steps if first[1] is None else self._step, _internal(error))
            return True

    # ---- a step ----------------------------------------------------------------------------------------------------

    def _begin(self, asked: _Asked, step: Step | None) -> bool:
        begun = None if step is None else batches.begin(self._hall, step)
        if begun is None:
            return False
        if begun.pending is None:
            self._known(asked, begun)
        else:
            begun.pending.tell(partial(self._known, asked, begun))
        return True

    def _known(self, asked: _Asked, begun: Begun) -> None:
        """Answer a step that the journal has; where it has not, somebody must find out what is so."""
        if not begun.is_in:
            asked.line.spawn(self._settled(asked, begun))
            return
        begun.leave()
        self._answer(asked, self._step, begun.answer)

    async def _settled(self, asked: _Asked, begun: Begun) -> None:
        current.set(asked.request)
        try:
            said: bytes | ProblemError = await begun.settled()
        except ProblemError as problem:
            said = problem
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            said = _internal(error)
        finally:
            begun.leave()
        self._answer(asked, self._step, said)

    # ---- a batch ---------------------------------------------------------------------------------------------------

    def _play(self, asked: _Asked, form: Any) -> bool:
        asked.line.spawn(self._played(asked, batches.parse(form, self._hall.settings.max_batch)))
        return True

    async def _played(self, asked: _Asked, steps: Sequence[Step]) -> None:
        current.set(asked.request)
        try:
            said: bytes | ProblemError = await batches.played(self._hall, steps)
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            said = _internal(error)
        self._answer(asked, self._steps, said)

    # ---- out -------------------------------------------------------------------------------------------------------

    def _answer(self, asked: _Asked, route: Route, said: bytes | ProblemError) -> None:
        """Answer a request, and count it."""
        if isinstance(said, ProblemError):
            self._hall.metrics.problems.add(said.code)
            answer = Answer(said.status, said.body, MEDIA_TYPE, said.headers)
        else:
            answer = Answer(200, said)
        took = perf_counter() - asked.began
        route.answered(answer.status, took)
        if logs.access.isEnabledFor(logging.INFO):
            logs.told_of(asked.request, route.name, answer.status, took)
        asked.line.answer(answer, asked.request)


def _step(session: str, body: bytes) -> Step | None:
    """Return the step that a body asks for; None where that is not plain.

    Raises:
        ProblemError: It is no JSON.
    """
    form = bodies.loads(body)
    if type(form) is not dict or "session" in form:
        return None
    form["session"] = session
    return batches.step_of(form)


def _internal(error: Exception) -> ProblemError:
    log.error("a step failed: %s", told(error))
    return ProblemError("internal")
