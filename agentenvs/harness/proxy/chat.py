"""``/v1/chat/completions``: what the endpoint speaks itself, so that requests and answers pass through."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentenvs.harness.proxy import sse
from agentenvs.harness.proxy.forms import SPENT, Form, Refused, Usage, as_form, bad, chat_usage

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Chat:
    """The chat API."""

    name = "chat"
    path = "/chat/completions"

    def to_chat(self, body: Form, before: Callable[[str], list[Form]]) -> Form:
        """Return the request as it is, with its usage asked for where it is a stream."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise bad("messages must be a list that is not empty", "messages")
        if not body.get("stream"):
            return body
        return {**body, "stream_options": {**as_form(body.get("stream_options")), "include_usage": True}}

    def reply(self, reply: Form, body: Form) -> Form:
        """Return the reply as it is."""
        return reply

    def stream(self, body: Form) -> _Stream:
        """Return what passes chunks on."""
        return _Stream(wants_usage=bool(as_form(body.get("stream_options")).get("include_usage")))

    def usage(self, form: Form) -> Usage:
        """Return the tokens a reply says it used."""
        return chat_usage(form)

    def error(self, refused: Refused) -> Form:
        """Return the body of an error."""
        return error(refused)


class _Stream:
    id = None

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage

    def feed(self, chunk: Form) -> Iterator[bytes]:
        # The chunk with the usage alone is there because we asked for it.
        if chunk.get("choices") or self._wants_usage or not chunk.get("usage"):
            yield sse.event(chunk)

    def end(self, reply: Form) -> Iterator[bytes]:
        yield sse.LAST

    def fail(self, message: str) -> bytes:
        return sse.event(error(Refused(502, message)))


def error(refused: Refused) -> Form:
    """Return the body of an error as OpenAI's APIs word it."""
    kind = _TYPES.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
    if refused.code == SPENT:
        kind = "insufficient_quota"
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}}
