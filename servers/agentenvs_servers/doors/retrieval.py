"""Searching a world's documents without a session: the two requests that trainers' retrieval servers answer.

    POST /retrieve  {"queries": [...], "topk": 3, "return_scores": true}    Search-R1, and whoever has its client
    POST /access    {"urls": [...]}                                         ASearcher

Both are about the first library of the first environment that has one; ``/ENV/libraries/NAME/retrieve`` and
``/ENV/libraries/NAME/access`` are about a certain one, whose name may have two parts, and ``GET /libraries`` lists
them. A document is ``{"id", "contents", "url"}``, where the first line of the contents is the title in quotes, as in
Search-R1's corpora. Search-R1's own server cannot answer without scores, though its clients' default asks for that;
this one can.

These clients repeat whatever was answered with 5xx, for minutes. So a query is never a fault: one that finds nothing,
or on which a library fails, has an empty list of results. Clients that can only be told an address send a token as the
password in it: ``http://any:TOKEN@HOST:PORT/retrieve``.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic import ConfigDict, Field

from agentenvs.core.canon import clean_text
from agentenvs.core.environment import Environment
from agentenvs.core.library import Library
from agentenvs_servers import auth, bodies
from agentenvs_servers.doors.keys import headers_of
from agentenvs_servers.doors.routing import Call, Route
from agentenvs_servers.dumping import dump
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import Wire

DEFAULT_RESULTS = 3
MOST_RESULTS = 50
"""More than this many results are asked for in vain: nobody needs them but to copy a library."""
MOST_QUERIES = 1024
MOST_OPEN = 32
"""Libraries that are kept open; the one that was not asked for longest goes first."""
MOST_CHARACTERS = 2000
"""What is beyond in a query is not looked at."""

_AT_ONCE = 8  # more queries than this are searched in a thread, so that others need not wait

T = TypeVar("T")

log = logging.getLogger("agentenvs.server")


_OPEN = ConfigDict(strict=True, frozen=True, extra="ignore")
"""Others' clients send fields of their own, which their servers leave unread."""


class RetrieveAsk(Wire):
    """``POST /retrieve``."""

    model_config = _OPEN

    queries: list[str] = Field(max_length=MOST_QUERIES)
    topk: int | None = None
    return_scores: bool = False


class AccessAsk(Wire):
    """``POST /access``."""

    model_config = _OPEN

    urls: list[str] = Field(max_length=MOST_QUERIES)


class Retrieval:
    """The door.

    Args:
        hall: Its environments.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._envs: dict[str, Environment] = {}
        self._open: OrderedDict[tuple[str, str], Library] = OrderedDict()
        self._opening = asyncio.Lock()

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        certain, parted = "/{env}/libraries/{library}", "/{env}/libraries/{library}/{part}"
        return (
            Route("GET", "/libraries", self.list, "The document collections that can be searched.", prefixed=False),
            Route("POST", "/retrieve", self.retrieve, "Search the first collection.", prefixed=False),
            Route("POST", "/access", self.access, "Read documents of the first collection.", prefixed=False),
            Route("POST", f"{certain}/retrieve", self.retrieve, "Search a collection.", prefixed=False),
            Route("POST", f"{certain}/access", self.access, "Read documents of a collection.", prefixed=False),
            Route("POST", f"{parted}/retrieve", self.retrieve, "Search a collection.", prefixed=False),
            Route("POST", f"{parted}/access", self.access, "Read documents of a collection.", prefixed=False),
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep an instance of each environment; the library of the short addresses is open before anybody asks."""
        try:
            await self._first()
            yield
        finally:
            for env in self._envs.values():
                env.close()
            self._envs.clear()
            self._open.clear()

    async def list(self, call: Call) -> Answer:
        """List the libraries."""
        self._let_in(call)
        named = [{"env": slug, "library": name} for slug, env in self._ready().items() for name in env.libraries()]
        return Answer(200, dump({"libraries": named}))

    async def retrieve(self, call: Call) -> Answer:
        """Search."""
        library = await self._library(call)
        ask = bodies.parse(RetrieveAsk, await bodies.read(call.receive, call.headers, self._hall.settings))
        most = min(max(ask.topk or DEFAULT_RESULTS, 1), MOST_RESULTS)

        def work() -> list[Any]:
            return [_found(library, clean_text(query[:MOST_CHARACTERS]), most) for query in ask.queries]

        found = work() if len(ask.queries) <= _AT_ONCE else await asyncio.to_thread(work)
        if not ask.return_scores:
            found = [[result["document"] for result in results] for results in found]
        return Answer(200, dump({"result": found}))

    async def access(self, call: Call) -> Answer:
        """Read documents; null for what is none."""
        library = await self._library(call)
        ask = bodies.parse(AccessAsk, await bodies.read(call.receive, call.headers, self._hall.settings))
        names = [clean_text(name[:MOST_CHARACTERS]) for name in ask.urls]
        return Answer(200, dump({"result": [_document(library, name) for name in names]}))

    def _let_in(self, call: Call) -> None:
        auth.control(headers_of(_with_password(call)), self._hall.keyring)

    async def _library(self, call: Call) -> Library:
        """Return the library of an address, made first where it has to be; that holds up nobody else.

        Raises:
            ProblemError: ``library_unknown``, ``env_unknown``, or it may not be asked for.
        """
        self._let_in(call)
        envs, wanted = self._ready(), call.names.get("env")
        if wanted is not None and wanted not in envs:
            raise ProblemError("env_unknown", f"this server hosts: {', '.join(envs)}")
        parts = [call.names[name] for name in ("library", "part") if name in call.names]
        found = await self._first() if wanted is None else await self._opened(wanted, "/".join(parts))
        if found is None:
            raise ProblemError("library_unknown")
        return found

    async def _first(self) -> Library | None:
        for slug, env in self._ready().items():
            for name in env.libraries()[:1]:
                return await self._opened(slug, name)
        return None

    async def _opened(self, slug: str, name: str) -> Library | None:
        found = self._open.get((slug, name))
        if found is None:
            async with self._opening:
                env = self._envs[slug]
                found = await asyncio.to_thread(_safely, f"library({name!r:.80})", lambda: env.library(name), None)
        if found is not None:
            self._open[slug, name] = found
            self._open.move_to_end((slug, name))
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return found

    def _ready(self) -> dict[str, Environment]:
        if not self._envs:
            self._envs = {world.spec.slug: world.make({}) for world in self._hall.worlds.values()}
        return self._envs


def _found(library: Library, query: str, most: int) -> list[dict[str, Any]]:
    """Return the results for a query, with scores."""
    nothing: Sequence[tuple[str, float]] = ()
    found = _safely("search", lambda: library.search(query, most), nothing)
    documents = [(_document(library, name), score) for name, score in found]
    return [{"document": document, "score": score} for document, score in documents if document is not None]


def _document(library: Library, name: str) -> dict[str, str] | None:
    """Return a document as Search-R1's corpora have it."""
    found = _safely("document", lambda: library.document(name), None)
    if found is None:
        return None
    return {"id": found.id, "contents": f'"{found.title}"\n{found.text}', "url": found.id}


def _safely(what: str, do: Callable[[], T], otherwise: T) -> T:
    try:
        return do()
    except Exception as error:  # noqa: BLE001 - boundary: a library's fault must not make clients ask for ever
        log.error("a library failed in %s: %s", what, told(error))
        return otherwise


def _with_password(call: Call) -> Call:
    """Return a call with the password of its address, if it has one, as its token."""
    kind, _, word = call.headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() == b"basic":
        try:
            token = base64.b64decode(word, validate=True).partition(b":")[2]
        except ValueError:
            token = b""
        call.headers[b"authorization"] = b"Bearer " + token
    return call
