"""The routes that a run spends its time in, as plain ASGI in front of the framework: steps, batches, the socket.

A step through the framework costs five times what it costs here. Everything else passes through; so does a step whose
address is odd. It is also the outermost boundary: whatever fails behind it is logged and answered as a problem.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from agentenvs_servers import sockets
from agentenvs_servers.asgi import App, Receive, Scope, Send
from agentenvs_servers.bodies import ClientGone
from agentenvs_servers.failures import told
from agentenvs_servers.handlers import Answer, Handlers, answered
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError

_PREFIX = "/v1/sessions/"
_SUFFIX = "/step"
_AGENT_STEP = "/v1/agent/step"
_STEPS = "/v1/steps"

log = logging.getLogger("agentenvs.server")


class Front:
    """The application a server runs.

    Args:
        app: The framework's application.
        handlers: What both call.
    """

    def __init__(self, app: App, handlers: Handlers) -> None:
        self.app = app
        self.handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        work = self._hot(scope, receive) if scope["type"] == "http" and scope["method"] == "POST" else None
        if work is None:
            await self._through(scope, receive, send)
            return
        try:
            answer = await answered(work)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            log.error("a step failed: %s", told(error))
            problem = ProblemError("internal")
            answer = Answer(problem.status, problem.body, MEDIA_TYPE)
        await reply(answer, send)

    async def _through(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == sockets.PATH:
            await sockets.serve(self.handlers.hall, scope, receive, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - boundary: the framework has answered it, and would have it logged
            log.error("a request failed: %s", told(error))

    def _hot(self, scope: Scope, receive: Receive) -> Awaitable[Answer] | None:
        path: str = scope["path"]
        if path == _STEPS:
            return self.handlers.steps(dict(scope["headers"]), receive)
        if path == _AGENT_STEP:
            return self.handlers.agent_step(dict(scope["headers"]), receive)
        if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
            session = path[len(_PREFIX) : -len(_SUFFIX)]
            if session and "/" not in session:
                return self.handlers.step(dict(scope["headers"]), receive, session)
        return None


async def reply(answer: Answer, send: Send) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.media_type.encode("latin-1")),
        (b"content-length", str(len(answer.body)).encode("latin-1")),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
