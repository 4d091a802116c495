"""The application: routes, their documentation, and the life of a server.

Every route says which problems it may answer; bodies are documented by the models they are parsed with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from agentenvs._version import __version__
from agentenvs_servers import metering, sockets, wire
from agentenvs_servers.asgi import address_of
from agentenvs_servers.bodies import ClientGone
from agentenvs_servers.documents import DESCRIPTION, answers, document, takes
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer, Handlers
from agentenvs_servers.hot import Front
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError
from agentenvs_servers.settings import V1, Settings
from agentenvs_servers.worlds import host

CONTROL = ("unauthorized", "wrong_scope")
KEPT = ("journal_unavailable", "elsewhere", "version_changed", "diverged", "journal_damaged", "session_lost")
SESSION = (*CONTROL, *KEPT, "session_unknown")
OPEN = (*SESSION, "closed", "expired")
BODY = ("bad_json", "request_slow", "body_too_large", "media_type", "invalid_request")
SEALED = ("sealed_closed", "sealed_rule", "split_exhausted")
ROOM = ("journal_unavailable", "quota_reached", "too_many_creates", "at_capacity", "draining")
TICKET = ("ticket_unknown", "sealed_closed", "env_unknown", *KEPT)
TURN = ("turn_past", "turn_conflict", "turn_ahead", "episode_ended", "action_too_large", "environment_failed")

SessionPath = Annotated[str, Path(description="The session, as its create answered it.")]


def make_app(
    envs: Sequence[str], settings: Settings | None = None, options: Mapping[str, Any] | None = None, **hall: Any
) -> Front:
    """Return the ASGI application of a server.

    Args:
        envs: Ids or slugs of the environments to host.
        settings: The limits.
        options: What the operator sets of their options.
        **hall: Further arguments of :class:`~agentenvs_servers.hall.Hall`, such as a clock.

    Raises:
        UserError: Some subclass: no such environment, or an option that none of them takes.
    """
    settings = settings or Settings()
    sessions = Hall(host(envs, options or {}), settings, **hall)
    handlers = Handlers(sessions)
    native = V1 in settings.open_doors
    app = FastAPI(
        title="agentenvs",
        version=__version__,
        description=DESCRIPTION,
        lifespan=_lifespan(sessions),
        redirect_slashes=False,
    )
    _add_problems(app, sessions)
    _add_public(app, handlers)
    if native:
        _add_operations(app, handlers)
        _add_sessions(app, handlers)
        _add_episodes(app, handlers)
        _add_agent(app, handlers)
        _add_tickets(app, handlers)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return Front(app, handlers, native=native)


def _lifespan(hall: Hall) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(hall.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await hall.close()

    return lifespan


def _add_problems(app: FastAPI, hall: Hall) -> None:
    def _problem(problem: ProblemError) -> Response:
        hall.metrics.problems.add(problem.code)
        return Response(problem.body, problem.status, problem.headers, MEDIA_TYPE)

    async def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        if status != 405 and request.url.path == sockets.PATH:
            said = f"{sockets.PATH} is for sockets"
            return _problem(ProblemError("route_unknown", said, fix="open it with a WebSocket handshake"))
        if status != 405:
            return _problem(ProblemError("route_unknown"))
        return _problem(ProblemError("method_unknown", headers={"Allow": ", ".join(_methods(app, request))}))

    async def invalid(_: Request, error: Exception) -> Response:
        faults = error.errors() if isinstance(error, RequestValidationError) else []
        said = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5])
        return _problem(ProblemError("invalid_request", said))

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # nobody reads it

    async def failed(_: Request, __: Exception) -> Response:
        return _problem(ProblemError("internal"))

    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(ClientGone, gone)
    app.add_exception_handler(Exception, failed)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Return every method of an address; the framework tells those of its first route alone."""
    scope = {**request.scope, "method": ""}
    routes = [route for route in app.routes if route.matches(scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in getattr(route, "methods", ())}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def _sending(handlers: Handlers) -> Callable[[Awaitable[Answer]], Awaitable[Response]]:
    """Return what makes the framework's answer of a handler's."""

    async def sent(work: Awaitable[Answer]) -> Response:
        answer = await handlers.answered(work)
        return Response(answer.body, answer.status, dict(answer.headers), answer.media_type)

    return sent


def _headers(request: Request) -> dict[bytes, bytes]:
    return dict(request.scope["headers"])


def _add_public(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)

    @app.get("/health", tags=["server"], **answers(wire.HealthReply))
    async def health() -> Response:
        """Whether the process answers."""
        return await sent(handlers.health())

    @app.get("/ready", tags=["server"], **answers(wire.ReadyReply, "not_ready"))
    async def ready() -> Response:
        """Whether the server does all that it should: it takes sessions, and its journal can be written."""
        return await sent(handlers.ready())


def _add_operations(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)

    @app.get("/metrics", tags=["server"], **answers(metering.CONTENT_TYPE, *CONTROL))
    async def metrics(request: Request) -> Response:
        """What the server counts, in Prometheus' text format."""
        return await sent(handlers.metrics(_headers(request)))

    @app.get("/v1/envs", tags=["environments"], **answers(wire.EnvsReply, *CONTROL))
    async def envs(request: Request) -> Response:
        """The environments of this server."""
        return await sent(handlers.envs(_headers(request)))

    @app.get("/v1/envs/{env:path}", tags=["environments"], **answers(wire.EnvReply, *CONTROL, "env_unknown"))
    async def env(request: Request, env: Annotated[str, Path(description="Id or slug.")]) -> Response:
        """All that may be known of an environment before it is played: spec, splits, options, budgets, score card."""
        return await sent(handlers.env(_headers(request), env))


def _add_sessions(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)

    made = (
        *CONTROL,
        *BODY,
        "env_unknown",
        "key_conflict",
        "durability_refused",
        *ROOM,
        "option_refused",
        "task_unknown",
    )

    @app.post(
        "/v1/sessions",
        status_code=201,
        tags=["sessions"],
        **takes(wire.CreateBody),
        **answers([wire.SessionReply, wire.GroupReply], *made, *SEALED, "environment_failed", status=201),
    )
    async def create(request: Request) -> Response:
        """Make a session with its first episode; a group with ``count`` or ``tasks``."""
        return await sent(handlers.create(_headers(request), request.receive, address_of(request.scope)))

    @app.get("/v1/sessions/{session}", tags=["sessions"], **answers(wire.StatusReply, *OPEN, "invalid_request"))
    async def status(request: Request, session: SessionPath) -> Response:
        """How the session stands: episode, turn, last answer; ending and verdict once its episode has ended."""
        return await sent(handlers.status(_headers(request), session))

    @app.post(
        "/v1/sessions/{session}/fork",
        status_code=201,
        tags=["sessions"],
        **takes(wire.ForkBody),
        **answers(
            wire.ForksReply,
            *OPEN,
            *BODY,
            *ROOM,
            "not_forkable",
            "sealed_rule",
            "episode_ended",
            "key_conflict",
            "environment_failed",
            status=201,
        ),
    )
    async def fork(request: Request, session: SessionPath) -> Response:
        """Copy the session at its turn: new sessions with names of their own, that go on independently."""
        return await sent(handlers.fork(_headers(request), request.receive, session, address_of(request.scope)))

    @app.post("/v1/sessions/{session}/ping", tags=["sessions"], **answers(wire.PingReply, *OPEN, "invalid_request"))
    async def ping(request: Request, session: SessionPath) -> Response:
        """Keep the session alive."""
        return await sent(handlers.ping(_headers(request), session))

    @app.delete(
        "/v1/sessions/{session}",
        tags=["sessions"],
        **answers(wire.StatusReply, *SESSION, "expired", "invalid_request"),
    )
    async def close(
        request: Request,
        session: SessionPath,
        ending: Annotated[
            Literal["abandoned", "truncated"], Query(description="What becomes of a running episode.")
        ] = "abandoned",
    ) -> Response:
        """Close the session; closing it again answers the same."""
        return await sent(handlers.close(_headers(request), session, ending))


def _add_episodes(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)

    reset_may = (*OPEN, *BODY, "key_conflict", "episode_conflict", "episodes_spent", "split_exhausted", "task_unknown")

    @app.post(
        "/v1/sessions/{session}/reset",
        tags=["episodes"],
        **takes(wire.ResetBody),
        **answers(wire.EpisodeReply, *reset_may, "sealed_rule", "environment_failed"),
    )
    async def reset(request: Request, session: SessionPath) -> Response:
        """End the episode that ``ends`` names and begin another."""
        return await sent(handlers.reset(_headers(request), request.receive, session))

    @app.post(
        "/v1/sessions/{session}/step",
        tags=["episodes"],
        **takes(wire.StepBody),
        **answers([wire.StepReply, wire.TracedReply], *OPEN, *BODY, *TURN, "episode_conflict", "sealed_rule"),
    )
    async def step(request: Request, session: SessionPath) -> Response:
        """Play a turn; the last turn asked again is answered again, byte for byte."""
        return await sent(handlers.step(_headers(request), request.receive, session))

    @app.post(
        "/v1/steps",
        tags=["episodes"],
        **takes(wire.StepsBody),
        **answers(wire.StepsReply, *CONTROL, *BODY, "batch_too_long"),
    )
    async def steps(request: Request) -> Response:
        """Play turns of many sessions; each item is answered, or refused, as its step alone would be."""
        return await sent(handlers.steps(_headers(request), request.receive))

    @app.get(
        "/v1/sessions/{session}/trace",
        tags=["episodes"],
        **answers(wire.TracesReply, *OPEN, "trace_off", "invalid_request"),
    )
    async def trace(
        request: Request,
        session: SessionPath,
        start: Annotated[int, Query(alias="from", ge=1, le=2**53, description="The first turn wanted.")] = 1,
    ) -> Response:
        """The traces of the current episode, for a session that keeps them."""
        return await sent(handlers.traces(_headers(request), session, start))

    @app.get(
        "/v1/sessions/{session}/record",
        tags=["episodes"],
        **answers("application/jsonl", *SESSION, "episode_unknown", "episode_running", "invalid_request"),
    )
    async def record(
        request: Request,
        session: SessionPath,
        episode: Annotated[str | None, Query(max_length=200, description="The last one where left out.")] = None,
    ) -> Response:
        """The record of an ended episode, as JSON Lines; kept for the retention time after the session is over."""
        return await sent(handlers.record(_headers(request), session, episode))


def _add_agent(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)

    @app.get("/v1/agent", tags=["agent"], **answers(wire.AgentReply, "unauthorized", *KEPT, "closed", "expired"))
    async def agent(request: Request) -> Response:
        """What the holder of an agent key may see of its episode."""
        return await sent(handlers.agent(_headers(request)))

    @app.post(
        "/v1/agent/step",
        tags=["agent"],
        **takes(wire.AgentStepBody),
        **answers(wire.StepReply, "unauthorized", *KEPT, "closed", "expired", *BODY, *TURN),
    )
    async def agent_step(request: Request) -> Response:
        """Play a turn of the key's episode; the same promises as the session's step."""
        return await sent(handlers.agent_step(_headers(request), request.receive))


def _add_tickets(app: FastAPI, handlers: Handlers) -> None:
    sent = _sending(handlers)
    made = ("too_many_creates", "at_capacity", "quota_reached", "draining", "environment_failed", "task_unknown")

    @app.get("/v1/tickets", tags=["tickets"], **answers(wire.TicketReply, *TICKET, *made))
    async def ticket(request: Request) -> Response:
        """How a ticket stands: its scenarios, its time, and the environment it plays."""
        return await sent(handlers.ticket(_headers(request)))

    @app.post(
        "/v1/tickets/next",
        tags=["tickets"],
        **answers(wire.NextReply, *TICKET, *made, "ticket_used", "ticket_expired"),
    )
    async def ticket_next(request: Request) -> Response:
        """Open the next sealed scenario of a ticket, or give again the one that runs; the answer has its agent key."""
        return await sent(handlers.ticket_next(_headers(request)))

    @app.post(
        "/v1/tickets/end",
        tags=["tickets"],
        **takes(wire.TicketEndBody),
        **answers(wire.TicketReply, *TICKET, *BODY, *made, "episode_unknown"),
    )
    async def ticket_end(request: Request) -> Response:
        """Give up an episode of a ticket: it counts 0."""
        return await sent(handlers.ticket_end(_headers(request), request.receive))

    @app.get(
        "/v1/tickets/record",
        tags=["tickets"],
        **answers(
            "application/jsonl",
            *TICKET,
            *made,
            "episode_unknown",
            "episode_running",
            "session_unknown",
            "invalid_request",
        ),
    )
    async def ticket_record(
        request: Request, episode: Annotated[str, Query(max_length=200, description="One that has ended.")]
    ) -> Response:
        """The redacted record of an ended episode of a ticket, as JSON Lines."""
        return await sent(handlers.ticket_record(_headers(request), episode))
