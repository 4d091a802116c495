"""Every error the servers answer, as one catalogue: a stable code, a status, a title, and what to do about it.

An answer is ``application/problem+json`` (RFC 9457) with two fields more: ``code``, for programs, and ``fix``, for
people. Nothing secret stands in one: no session, no key, no token, no part of a scenario.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import orjson

from agentenvs.core.canon import clean_text

MEDIA_TYPE = "application/problem+json"


class Kind(NamedTuple):
    """What is always the same about a problem."""

    status: int
    title: str
    fix: str


CATALOGUE: Mapping[str, Kind] = {
    "bad_http": Kind(400, "That is no HTTP request", "send HTTP/1.1"),
    "bad_json": Kind(400, "The body is no JSON", "send one JSON object; NaN and Infinity are not JSON"),
    "unauthorized": Kind(401, "A token is needed", "send it as Authorization: Bearer TOKEN"),
    "ticket_unknown": Kind(401, "A ticket is needed", "send the one that was issued as Authorization: Bearer TICKET"),
    "wrong_scope": Kind(403, "This key may not do that", "an agent key is for GET /v1/agent and POST /v1/agent/step"),
    "host_foreign": Kind(
        403,
        "That is no name of this server",
        "call it localhost or 127.0.0.1, name it in --hosts, or give the server a token",
    ),
    "origin_foreign": Kind(403, "No page of another site may do that", "connect from a program, or from this server"),
    "sealed_rule": Kind(403, "That may not be done with a sealed scenario", "play it once, to its end"),
    "sealed_closed": Kind(403, "The sealed split is not served", "play another split"),
    "env_unknown": Kind(404, "No such environment here", "GET /v1/envs lists them"),
    "session_unknown": Kind(404, "No such session", "create one with POST /v1/sessions"),
    "episode_unknown": Kind(404, "No such episode in this session", "GET the session; it lists its episodes"),
    "library_unknown": Kind(404, "No such document collection here", "GET /libraries lists them"),
    "route_unknown": Kind(404, "No such route", "GET /openapi.json lists them"),
    "method_unknown": Kind(405, "Not by this method", "GET /openapi.json lists the methods of each route"),
    "request_slow": Kind(408, "The request did not arrive in time", "send it at once, and again on a good connection"),
    "turn_past": Kind(409, "That turn is over", "GET the session for its turn and last answer"),
    "turn_conflict": Kind(409, "That turn was played with another action", "GET the session for its last answer"),
    "turn_ahead": Kind(409, "That turn is not yet", "play the turns one after another; GET the session for its turn"),
    "episode_conflict": Kind(409, "The session plays another episode", "GET the session for its episode"),
    "episode_ended": Kind(409, "The episode has ended", "reset the session, or fetch the record"),
    "episode_running": Kind(409, "The episode is still running", "fetch the record once it has ended"),
    "key_conflict": Kind(409, "That key was used for another request", "choose a new key for each new intent"),
    "split_exhausted": Kind(409, "The split has no next scenario", "name a task, or close the session"),
    "ticket_used": Kind(409, "The ticket is used up", "every scenario of it was opened, each once"),
    "not_begun": Kind(409, "No episode was begun", "reset first; over HTTP send back its X-Session-ID or cookie"),
    "trace_off": Kind(409, "This session keeps no traces", "create it with trace: true"),
    "durability_refused": Kind(409, "Sessions are not kept like that here", "leave durability out"),
    "not_forkable": Kind(409, "The session cannot be copied", "play its turns again in another session"),
    "episodes_spent": Kind(409, "The session has had its episodes", "close it and create another"),
    "diverged": Kind(410, "The session cannot be made again", "create another; report it with the server's log"),
    "journal_damaged": Kind(410, "The session's part of the journal is damaged", "create another session"),
    "session_lost": Kind(410, "The session was lost with its server", "create another"),
    "version_changed": Kind(410, "The session was begun under another version", "create another"),
    "closed": Kind(410, "The session is closed", "create another; its records can still be fetched"),
    "expired": Kind(410, "The session has expired", "create another, and ping while it waits"),
    "ticket_expired": Kind(410, "The time of the ticket is over", "what it did not open counts 0"),
    "body_too_large": Kind(413, "The body is too large", "send less"),
    "action_too_large": Kind(413, "The action is too large", "send a shorter action"),
    "batch_too_long": Kind(413, "The batch is too long", "send it in parts"),
    "media_type": Kind(415, "The body is not declared as JSON", "send Content-Type: application/json"),
    "invalid_request": Kind(422, "The request makes no sense", "GET /openapi.json has the form of every request"),
    "task_unknown": Kind(422, "No such scenario", "GET /v1/envs/{env} lists splits and sizes"),
    "option_refused": Kind(422, "An option is refused", "GET /v1/envs/{env} lists the options"),
    "quota_reached": Kind(429, "The tenant has all its sessions", "close some, or try again later"),
    "too_many_creates": Kind(429, "Sessions are made too fast", "wait as Retry-After says; reset sessions you have"),
    "head_too_large": Kind(431, "The head of the request is too large", "send a shorter address and fewer headers"),
    "internal": Kind(500, "The server failed", "report it with the server's log"),
    "environment_failed": Kind(500, "The environment failed", "the episode counts as aborted; reset or close"),
    "at_capacity": Kind(503, "All session slots are taken", "close sessions, or try again later"),
    "elsewhere": Kind(503, "Another worker has the session", "ask again, by a proxy that keeps sessions together"),
    "journal_unavailable": Kind(503, "The journal cannot be used now", "ask again; nothing was done"),
    "too_many_connections": Kind(503, "All connections are taken", "share a socket, or try again later"),
    "not_ready": Kind(503, "The server is not ready", "ask another, or this one later"),
    "draining": Kind(503, "The server is stopping", "go on elsewhere; running requests are still answered"),
}


class ProblemError(Exception):
    """An answer that is a problem.

    Args:
        code: One of :data:`CATALOGUE`.
        detail: What is so in this case; nothing secret.
        fix: What to do, where it is more precise than the catalogue.
        headers: Further headers of the answer.
    """

    def __init__(self, code: str, detail: str = "", *, fix: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code, detail)
        kind = CATALOGUE[code]
        self.code = code
        self.detail = detail
        self.status = kind.status
        self.headers = dict(headers or {})
        self.body = orjson.dumps(
            {
                "type": f"urn:agentenvs:problem:{code}",
                "title": kind.title,
                "status": kind.status,
                "code": code,
                "detail": clean_text(detail)[:2000] or kind.title,
                "fix": clean_text(fix)[:2000] or kind.fix,
            }
        )


def codes_by_status() -> dict[int, list[str]]:
    """Return the codes of every status, for the documentation."""
    found: dict[int, list[str]] = {}
    for code, kind in CATALOGUE.items():
        found.setdefault(kind.status, []).append(code)
    return found


def phrase(status: int) -> str:
    """Return the standard words of a status."""
    return HTTPStatus(status).phrase
