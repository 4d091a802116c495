"""The server of a store: pages for people, JSON for programs, and one route that takes a submission.

A submission is the raw body of a request: no form, no name of a file. It is bounded in size and in time, written to
disk as it comes, and queued; the answer says where to ask what became of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from agentenvs.core.errors import AgentEnvsError
from agentenvs.leaderboard import asking, pages
from agentenvs.leaderboard.pages import ServedLinks
from agentenvs.leaderboard.queueing import Queue
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.store import Store
from agentenvs.leaderboard.unpacking import LIMITS

_STATUS = {"no-board": 404, "oversize": 413, "busy": 503, "not-yours": 403, "needs-receipt": 403, "closed": 409}
_LINKS = ServedLinks()
_Page = Annotated[int, Query(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class Service:
    """How a store is served."""

    store: Store
    queue: Queue
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Contestant by token; whoever sends must have one where there are any."""
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "[::1]", "testserver")
    """Names by which the server may be called."""
    open: bool = True
    """Whether it takes submissions."""
    upload_seconds: float = 120.0
    uploads: int = 8
    """At a time."""


def make_app(service: Service) -> FastAPI:
    """Return the application."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.queue.close()

    app = FastAPI(title="agentenvs leaderboard", docs_url=None, redoc_url=None, lifespan=life)
    app.state.service = service
    app.state.slots = asyncio.Semaphore(service.uploads)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(service.hosts))
    app.middleware("http")(_headers)
    app.add_exception_handler(AgentEnvsError, _mistake)
    _add_pages(app, service)
    _add_api(app, service)
    app.post("/api/boards/{board_id}/submissions")(submit)
    return app


async def _headers(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call(request)
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src {pages.style_source()}; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _mistake(request: Request, error: Exception) -> Response:
    """Answer with a mistake: a page for people, JSON for programs."""
    if not isinstance(error, AgentEnvsError):
        raise error
    status = _STATUS.get(error.reason, 422) if isinstance(error, Refused) else 500
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": error.to_json()}, status)
    return HTMLResponse(pages.error(_LINKS, error), status)


def _add_pages(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/", response_class=HTMLResponse)
    def home() -> str:
        return pages.home(_LINKS, asking.listed(store))

    @app.get("/tiers", response_class=HTMLResponse)
    def tiers() -> str:
        return pages.tiers(_LINKS)

    @app.get("/queue", response_class=HTMLResponse)
    def queue() -> str:
        return pages.queue(_LINKS, asking.waiting(store))

    @app.get("/boards/{board_id}", response_class=HTMLResponse)
    def board(board_id: str, page: _Page = 1, q: Annotated[str, Query(max_length=60)] = "") -> str:
        shown = asking.one_board(store, board_id)
        rows, last = asking.page(store, board_id, page, q)
        return pages.board(_LINKS, shown, rows, page, last, q)

    @app.get("/boards/{board_id}/entries/{entry_id}", response_class=HTMLResponse)
    def entry(board_id: str, entry_id: str) -> str:
        return pages.entry(_LINKS, asking.one_board(store, board_id), asking.one_entry(store, board_id, entry_id))

    @app.get("/boards/{board_id}/refused", response_class=HTMLResponse)
    def refused(board_id: str) -> str:
        return pages.refused(_LINKS, asking.one_board(store, board_id), asking.refused(store, board_id))


def _add_api(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/api/boards")
    def boards() -> dict[str, Any]:
        return {"boards": [shown.to_json() for shown in asking.listed(store)]}

    @app.get("/api/boards/{board_id}")
    def board(board_id: str) -> dict[str, Any]:
        return asking.one_board(store, board_id).to_json()

    @app.get("/api/boards/{board_id}/entries")
    def entries(board_id: str, page: _Page = 1) -> dict[str, Any]:
        shown = asking.one_board(store, board_id)
        rows, last = asking.page(store, board_id, page)
        return {"board": shown.to_json(), "page": page, "pages": last, "entries": rows}

    @app.get("/api/boards/{board_id}/entries/{entry_id}")
    def entry(board_id: str, entry_id: str) -> dict[str, Any]:
        return asking.one_entry(store, board_id, entry_id)

    @app.get("/api/boards/{board_id}/refused")
    def refused(board_id: str) -> dict[str, Any]:
        return {"refused": asking.refused(store, board_id)}

    @app.get("/api/boards/{board_id}/submissions/{digest}")
    def submission(board_id: str, digest: str) -> dict[str, Any]:
        return service.queue.state(board_id, digest)

    @app.get("/api/queue")
    def queue() -> dict[str, Any]:
        return {"queue": asking.waiting(store)}


async def submit(request: Request, board_id: str) -> JSONResponse:
    """Take a submission: the raw bytes of a bundle, as ``application/zip``."""
    service: Service = request.app.state.service
    owner = _owner(request, service)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/zip":
        raise Refused("form", "a submission is sent as application/zip", fix="agentenvs leaderboard submit does so")
    await asyncio.to_thread(_check_board, service.store, board_id)
    slots: asyncio.Semaphore = request.app.state.slots
    if slots.locked():
        raise Refused("busy", "too many are sending at once", fix="send it again in a minute")
    async with slots:
        path = await _received(request, service)
    try:
        job = await asyncio.to_thread(service.queue.add, board_id, path, owner)
    except Refused:
        await asyncio.to_thread(service.queue.drop, path)
        raise
    if job["state"] in ("admitted", "refused"):
        await asyncio.to_thread(service.queue.drop, path)
    return JSONResponse(job, 200 if job["state"] in ("admitted", "refused") else 202)


def _check_board(store: Store, board_id: str) -> None:
    shown = asking.one_board(store, board_id)
    if shown.board.sealed:
        raise Refused(
            "needs-receipt",
            "the board is sealed: it takes what was played on its own server",
            why="records from elsewhere do not show that its scenarios were unknown",
        )
    if not shown.open:
        raise Refused("closed", f"the board {board_id} takes no more entries", fix=f"send it to {shown.successor}")


def _owner(request: Request, service: Service) -> str:
    """Return the contestant whose token came with a request; empty where none is asked for."""
    if not service.open:
        raise Refused("not-yours", "this server shows boards and takes nothing", fix="ask whoever runs it")
    if not service.tokens:
        return ""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    known = [name for token, name in service.tokens.items() if hmac.compare_digest(token.encode(), given.encode())]
    if kind.lower() != "bearer" or not known:
        raise Refused(
            "not-yours",
            "a submission needs a token here",
            why="so that the attempts of a contestant can be counted",
            fix="ask whoever runs the board, and set AGENTENVS_LEADERBOARD_TOKEN",
        )
    return known[0]


async def _received(request: Request, service: Service) -> Path:
    """Write the body to the inbox under its digest.

    Raises:
        Refused: It is too large, too slow, or ends too early.
    """
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > LIMITS.file_bytes:
        raise _too_large(int(said))
    inbox = service.store.folder / "inbox"
    await asyncio.to_thread(inbox.mkdir, parents=True, exist_ok=True)
    part = inbox / f".{os.getpid()}-{os.urandom(8).hex()}"
    try:
        async with asyncio.timeout(service.upload_seconds):
            digest = await _written(request, part)
    except TimeoutError as error:
        raise Refused(
            "oversize", "the file came too slowly", why=f"it may take {service.upload_seconds:g} s", fix="send it again"
        ) from error
    except ClientDisconnect as error:
        raise Refused("no-bundle", "the file came only in part", fix="send it again") from error
    else:
        path = inbox / f"{digest}.zip"
        part.replace(path)
        return path
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


async def _written(request: Request, part: Path) -> str:
    size, known = 0, hashlib.sha256()
    with part.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LIMITS.file_bytes:
                raise _too_large(size)
            known.update(chunk)
            file.write(chunk)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    return known.hexdigest()


def _too_large(size: int) -> Refused:
    return Refused("oversize", f"the file has {size:,} bytes or more", why=f"at most {LIMITS.file_bytes:,} are taken")
