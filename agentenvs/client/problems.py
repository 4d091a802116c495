"""What a server's refusal becomes here: the error that the same mistake raises in process.

What has no counterpart is a :class:`ProblemReply`, a :class:`~agentenvs.core.errors.ServiceError` that carries the
server's code. The words are the server's: they are cut, and cleaned of what no terminal should get.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from agentenvs.client.calls import Answer
from agentenvs.core.errors import (
    AgentEnvsError,
    CapabilityError,
    ContractError,
    EpisodeEnded,
    OptionError,
    ServiceError,
    SplitError,
    UnknownEnvError,
)

_MOST_CHARACTERS = 500

_COUNTERPARTS: Mapping[str, type[AgentEnvsError]] = {
    "env_unknown": UnknownEnvError,
    "task_unknown": SplitError,
    "split_exhausted": SplitError,
    "sealed_closed": SplitError,
    "option_refused": OptionError,
    "episode_ended": EpisodeEnded,
    "expired": EpisodeEnded,
    "trace_off": CapabilityError,
    "not_forkable": CapabilityError,
    "environment_failed": ContractError,
}

_URL_FIX = "check the URL: it ends where /v1 begins"
_FIXES: Mapping[str, str] = {
    "route_unknown": _URL_FIX,
    "ticket_unknown": "give --ticket, or set AGENTENVS_TICKET, to the ticket that the operator issued",
    "unauthorized": "give token=, or set AGENTENVS_TOKEN, to one of the server's tokens",
}


class ProblemReply(ServiceError):
    """A server refused a request for a reason that has no counterpart in process."""

    problem: str = ""
    """The code of the problem."""


def problem_code(answer: Answer) -> str:
    """Return the code of a refusal; empty for a success, and where it is none of an agentenvs server's."""
    return "" if answer.status < 300 else _fields(answer).get("code", "")


def refusal(answer: Answer, host: str) -> AgentEnvsError:
    """Return the error for an answer that is no success."""
    said = _fields(answer)
    code = said.get("code", "")
    if not code:
        return ServiceError(
            f"what answers at {host} is no agentenvs server",
            why=f"it answers with status {answer.status} and no problem of this protocol",
            fix=_URL_FIX,
        )
    title, detail, fix = (said.get(name, "") for name in ("title", "detail", "fix"))
    counterpart = _COUNTERPARTS.get(code)
    if counterpart is not None:
        return counterpart(detail or title, why="" if detail in ("", title) else f"{host} says: {title}", fix=fix)
    error = ProblemReply(
        f"{host} refuses: {title[:1].lower()}{title[1:]} ({code})",
        why="" if detail == title else detail,
        fix=_FIXES.get(code, fix),
    )
    error.problem = code
    return error


def nonsense(host: str, why: str) -> ServiceError:
    """Return the error for a success that makes no sense."""
    return ServiceError(
        f"{host} answers nonsense", why=why, fix="check the URL, and that server and client are of one release"
    )


def _fields(answer: Answer) -> dict[str, str]:
    try:
        form = orjson.loads(answer.data) if answer.form is None else answer.form
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(form, dict):
        return {}
    return {name: _shown(value) for name, value in form.items() if isinstance(value, str)}


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:_MOST_CHARACTERS])
