"""Addresses, and what a browser may do with what it gets.

Only GET and HEAD; only hosts that are meant (a page elsewhere cannot make a browser read runs by a name that resolves
here); no script or style but our files; nothing is kept by caches but those files. Whatever a run folder holds, a page
says so: there is no status 500 for it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from agentenvs.core.errors import UserError
from agentenvs.view import asking, episodes, files, pairs, rendering, sidecars
from agentenvs.view.pages import EXPORTED_ROWS, MissingError, Pages
from agentenvs.view.rendering import Page

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_EXPORT_WAIT = 60.0


def make_app(pages: Pages, hosts: Sequence[str] = ()) -> FastAPI:
    """Return the application.

    Args:
        pages: What it shows.
        hosts: Names it may be asked by, beside addresses and ``localhost``.
    """
    app = FastAPI(title="agentenvs view", docs_url=None, redoc_url=None, openapi_url=None)
    allowed = {"localhost", *(host.lower() for host in hosts)}

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if not _is_meant(request.headers.get("host", ""), allowed):
            said = "This name is not served here; --allow-host NAME lets it be.\n"
            return PlainTextResponse(said, 421, headers=_HEADERS)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be changed here.\n", 405, headers={**_HEADERS, "Allow": "GET, HEAD"})
        answer = await go_on(request)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    _add_pages(app, pages)
    _add_files(app, pages)
    return app


def _add_pages(app: FastAPI, pages: Pages) -> None:
    @app.get("/")
    def runs(request: Request) -> Response:
        return _answer(request, lambda: pages.runs(request.query_params))

    @app.get("/run/{name}")
    def run(name: str, request: Request) -> Response:
        rows = EXPORTED_ROWS if request.query_params.get("export") else asking.ROWS
        return _answer(request, lambda: pages.run(name, request.query_params, rows=rows))

    @app.get("/run/{name}/episode/{number}")
    def episode(name: str, number: str, request: Request) -> Response:
        whole = bool(request.query_params.get("export"))
        return _answer(request, lambda: pages.episode(name, _number(number), request.query_params, whole=whole))

    @app.get("/compare")
    def compare(request: Request) -> Response:
        names = request.query_params.getlist("run")
        if not request.query_params.get("export"):
            return _answer(request, lambda: pages.compare(names, request.query_params))
        return _answer(
            request, lambda: pages.compare(names, request.query_params, wait=_EXPORT_WAIT, rows=20 * pairs.FLIPS)
        )

    @app.get("/compare/episode")
    def side(request: Request) -> Response:
        names = request.query_params.getlist("run")
        return _answer(request, lambda: pages.side(names, request.query_params))

    @app.get("/training/{name}")
    def training(name: str, request: Request) -> Response:
        return _answer(request, lambda: pages.training(name))


def _add_files(app: FastAPI, pages: Pages) -> None:
    @app.get("/run/{name}/episode/{number}/record")
    def record(name: str, number: str, request: Request) -> Response:
        return _file(request, pages, name, number, episodes.record_name, "jsonl")

    @app.get("/run/{name}/episode/{number}/sidecar")
    def sidecar(name: str, number: str, request: Request) -> Response:
        return _file(request, pages, name, number, sidecars.name_of, "json")

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in rendering.STATIC:
            return PlainTextResponse("There is no such file.\n", 404)
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(rendering.static(name), media_type=rendering.TYPES[name.rpartition(".")[2]], headers=kept)

    @app.get("/{path:path}")
    def nothing(path: str, request: Request) -> Response:
        return _answer(request, _nowhere)


def _nowhere() -> Page:
    raise MissingError("Nothing is at this address.")


def _answer(request: Request, make: Callable[[], Page]) -> Response:
    try:
        page = make()
    except MissingError as error:
        page = Pages.message("Not here", str(error), 404)
    except UserError as error:
        page = Pages.message("This cannot be shown", f"{error.what}{f': {error.why}' if error.why else ''}", 422)
    if request.query_params.get("export") and page.status == 200:
        name = f'attachment; filename="{page.name}.html"'
        made = rendering.exported(page).encode("utf-8", "replace")
        return HTMLResponse(made, headers={"Content-Disposition": name})
    return HTMLResponse(rendering.served(page).encode("utf-8", "replace"), page.status)


def _file(request: Request, pages: Pages, name: str, number: str, path: Callable[[int], str], ending: str) -> Response:
    try:
        run = pages.found(name)
        data = files.read(run.folder, path(_number(number)), 256 * 1024 * 1024)
    except (MissingError, files.UnreadableError) as error:
        why = str(error)
        return HTMLResponse(rendering.served(Pages.message("Not here", why, 404)).encode("utf-8", "replace"), 404)
    headers = {"Content-Disposition": f'attachment; filename="{run.name}-{_number(number):06d}.{ending}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _number(given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise MissingError("Episodes have numbers.")
    return int(given)


def _is_meant(host: str, allowed: set[str]) -> bool:
    name: Any = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name in allowed:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
