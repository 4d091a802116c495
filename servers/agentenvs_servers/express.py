"""Steps over HTTP without a scope, a task or events in between: the bytes of a request in, the bytes of its answer out.

What a server between connection and application costs is more than a step costs itself. So where the connection is one
of our own (:mod:`~agentenvs_servers.connection`), a step that is plain goes past all that: it is played as soon as its
bytes are there, and answered when the journal has it.

Nothing is parsed here that a parser might read in another way. A request is plain where its first line is that of a
step to the letter, and the rest of its head is, to the byte, one that a connection's parser has read before: equal
bytes mean the same, whoever sent them. Whatever else it may be, a refusal included, is none of this module's business:
nothing was done then, and the application is asked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from agentenvs_servers import auth, batches, bodies, logs
from agentenvs_servers.batches import Begun, Step
from agentenvs_servers.failures import told
from agentenvs_servers.handlers import JSON_TYPE, Answer, Handlers
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError
from agentenvs_servers.requests import Request, current

MOST_HEADS = 4_096
"""Heads that are remembered; beyond them all are forgotten, and read anew."""

MOST_HEAD_BYTES = 2_048

Headers = Sequence[tuple[bytes, bytes]]

_LINE = re.compile(rb"POST /v1/sessions/([0-9a-f]{8}\.s\.[\w-]{43})/step HTTP/1\.1\r\n", re.ASCII)
_LENGTH = re.compile(rb"\d{1,9}", re.ASCII)
_ODD = frozenset({b"connection", b"expect", b"transfer-encoding", b"upgrade", b"x-request-id"})
"""Headers of requests that are not plain, whatever stands in them."""

log = logging.getLogger("agentenvs.server")


class Line(Protocol):
    """A connection, as far as it matters here."""

    def answer(self, answer: Answer, request: Request) -> None:
        """Send the answer to the request that runs, and go on to the next."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end; a server that stops waits for it."""


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
        self._route = handlers.hall.metrics.route("POST /v1/sessions/{session}/step", "http")
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
        if names.count(b"content-length") != 1 or not _ODD.isdisjoint(names):
            return
        found = dict(headers)
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
        began = perf_counter()
        request = Request()
        current.set(request)
        try:
            head.entered.tenant()
            step = _step(first[1].decode(), data[end:])
            begun = None if step is None else batches.begin(self._hall, step)
        except ProblemError:
            return False  # the application says so as well, with all that belongs to it
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            self.answer(line, _internal(error), request, began)
            return True
        if begun is None:
            return False
        running = _Running(self, line, begun, request, began)
        if begun.pending is None:
            running.known()
        else:
            begun.pending.tell(running.known)
        return True

    def answer(self, line: Line, said: bytes | ProblemError, request: Request, began: float) -> None:
        """Answer a request, and count it."""
        if isinstance(said, ProblemError):
            self._hall.metrics.problems.add(said.code)
            answer = Answer(said.status, said.body, MEDIA_TYPE, said.headers)
        else:
            answer = Answer(200, said)
        took = perf_counter() - began
        self._route.answered(answer.status, took)
        if logs.access.isEnabledFor(logging.INFO):
            logs.told_of(request, self._route.name, answer.status, took)
        line.answer(answer, request)


class _Running:
    """A step that was played, and waits for the journal."""

    __slots__ = ("_began", "_begun", "_door", "_line", "_request")

    def __init__(self, door: Express, line: Line, begun: Begun, request: Request, began: float) -> None:
        self._door = door
        self._line = line
        self._begun = begun
        self._request = request
        self._began = began

    def known(self) -> None:
        """Answer a step that the journal has; where it has not, somebody must find out what is so."""
        begun = self._begun
        if not begun.is_in:
            self._line.spawn(self._settled())
            return
        begun.leave()
        self._door.answer(self._line, begun.answer, self._request, self._began)

    async def _settled(self) -> None:
        current.set(self._request)
        try:
            said: bytes | ProblemError = await self._begun.settled()
        except ProblemError as problem:
            said = problem
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            said = _internal(error)
        finally:
            self._begun.leave()
        self._door.answer(self._line, said, self._request, self._began)


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
