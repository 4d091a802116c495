"""One request to an OpenAI-compatible endpoint, through every kind of weather.

:meth:`ChatClient.ask` either returns a reply, which may be as strange as it likes, or raises
:class:`~agentenvs.core.errors.ServiceError` because the endpoint stays away or refuses. It waits and asks again after
time-outs, broken connections, 408, 409, 425, 429, 5xx and bodies that hold no message; bounded, with ``Retry-After``
honoured up to a maximum. A body is read up to a limit of bytes and of time, so that an endless one ends.

The key stands in the header of the request and nowhere else: where a reply repeats it, it is blotted out.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from ssl import SSLContext

import httpx

from agentenvs._version import __version__
from agentenvs.client.retrying import retry_after
from agentenvs.core.canon import JSON, clean_text
from agentenvs.core.errors import ServiceError

MAX_REPLY_BYTES = 4 << 20
"""Bytes of a body that are read; a longer one is no reply."""
MAX_RAW = 65_536
"""Characters of a raw reply that are kept."""
MAX_NONSENSE = 3
"""Replies in a row without a message, retries and all, after which the endpoint is taken for no model."""
MAX_DEPTH = 64
"""Levels of nesting of a body; a deeper one is no reply."""
MIN_SECRET = 8
"""Keys shorter than this are placeholders of local servers and are not searched for in replies."""

RETRIED = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request is sent again."""
_BLOT = "[key]"
_HINTS = {
    400: "read what it says; a conversation that has grown too long fits with --history last:K",
    401: "set the key's environment variable to a valid key",
    403: "set the key's environment variable to a key that may use this model",
    404: "check --model and --base-url, which ends where /chat/completions begins (…/v1)",
    413: "the request is too long: use --history last:K",
    422: "read what it says; --tools text asks for no tool calls",
}


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as it arrived."""

    name: JSON
    arguments: JSON


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    content: str
    calls: tuple[RawCall, ...]
    finish: str | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    raw: JSON
    """The body, cut where it was long."""
    attempts: tuple[dict[str, JSON], ...]
    """Each try: status or error, seconds, seconds waited after it."""
    fault: str | None = None
    """Why there is no message in it, where there is none."""


class _Again(Exception):
    """This attempt failed and another may not."""

    def __init__(self, what: str, wait: float | None = None, reply: Reply | None = None) -> None:
        super().__init__(what)
        self.wait = wait
        self.reply = reply


class ChatClient:
    """A client of one endpoint; belongs to one thread at a time.

    Args:
        base_url: Up to and including ``/v1``.
        key: Sent as a bearer token; None sends none.
        timeout: Seconds an attempt may take.
        retries: Attempts after the first.
        backoff: Seconds before the second attempt; doubled each time.
        max_wait: The longest wait between two attempts, whatever ``Retry-After`` says.
    """

    def __init__(
        self, base_url: str, key: str | None, *, timeout: float, retries: int, backoff: float, max_wait: float
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._host = httpx.URL(base_url).host
        self._key = key
        self._timeout, self._retries, self._backoff, self._max_wait = timeout, retries, backoff, max_wait
        self._nonsense = 0
        headers = {"User-Agent": f"agentenvs/{__version__}", "Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._http = httpx.Client(headers=headers, timeout=timeout, verify=tls())

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._http.close()

    def ask(self, body: Mapping[str, JSON]) -> Reply:
        """Send a request and return the reply.

        Raises:
            ServiceError: The endpoint refuses, stays away through all retries, or answers no message time after time.
        """
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        attempts: list[dict[str, JSON]] = []
        failure: _Again | None = None
        for number in range(self._retries + 1):
            if failure is not None:
                self._pause(attempts[-1], failure.wait, number)
            started = time.monotonic()
            try:
                reply = self._attempt(content)
            except _Again as error:
                failure = error
                attempts.append(_attempt_line(str(error), started))
            else:
                self._nonsense = 0
                attempts.append(_attempt_line(None, started))
                return replace(reply, attempts=tuple(attempts))
        if failure is not None and failure.reply is not None:
            return self._without_message(failure.reply, attempts)
        raise ServiceError(
            f"the model endpoint at {self._host} stays away",
            why=f"{len(attempts)} attempts failed, the last with: {failure}",
            fix="check the endpoint and --base-url, or raise --retries or --timeout",
        )

    def _without_message(self, reply: Reply, attempts: list[dict[str, JSON]]) -> Reply:
        """Let the player have a reply without a message, but not for ever."""
        self._nonsense += 1
        if self._nonsense >= MAX_NONSENSE:
            raise ServiceError(
                f"what answers at {self._host} is no chat endpoint",
                why=f"{self._nonsense} replies in a row hold no message: {reply.fault}",
                fix="check --base-url, which ends where /chat/completions begins (…/v1)",
            )
        return replace(reply, attempts=tuple(attempts))

    def _pause(self, line: dict[str, JSON], asked: float | None, number: int) -> None:
        wait = asked
        if wait is None:
            # Spread, so that many players that were refused together do not come back together.
            wait = self._backoff * 2 ** (number - 1) * (0.75 + secrets.randbelow(512) / 1024)
        wait = min(wait, self._max_wait)
        line["waited"] = round(wait, 3)
        time.sleep(wait)

    def _attempt(self, content: bytes) -> Reply:
        deadline = time.monotonic() + self._timeout
        try:
            with self._http.stream(
                "POST", self._url, content=content, headers={"Content-Type": "application/json"}
            ) as response:
                data, whole = _read(response, deadline)
                status, headers = response.status_code, response.headers
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise _Again(self._clean(f"{type(error).__name__}: {error}"[:300])) from error
        text = self._clean(data.decode("utf-8", "replace"))
        if status in RETRIED or status >= 500:
            raise _Again(f"status {status}: {said(text)}", retry_after(headers))
        if status != 200:
            raise ServiceError(
                f"the model endpoint at {self._host} refuses the request: status {status}",
                # A 401 may quote the key or a part of it.
                why="" if status == 401 else said(text),
                fix=_HINTS.get(status, "check --base-url"),
            )
        if not whole:
            return _faulty(f"a reply of more than {MAX_REPLY_BYTES} bytes", text)
        reply = _parse(text, self._clean)
        if reply.fault:
            raise _Again(reply.fault, reply=reply)
        return reply

    def _clean(self, text: str) -> str:
        """Return text that can be stored: no lone surrogates, no key."""
        text = clean_text(text)
        return text if self._key is None or len(self._key) < MIN_SECRET else text.replace(self._key, _BLOT)


@cache
def tls() -> SSLContext:
    """Return one TLS context for all clients: making one takes tens of milliseconds."""
    return httpx.create_ssl_context()


def _read(response: httpx.Response, deadline: float) -> tuple[bytes, bool]:
    """Return the body and whether that is all of it."""
    parts, size = [], 0
    for chunk in response.iter_bytes():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            return b"".join(parts)[:MAX_REPLY_BYTES], False
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the body did not end in time")
    return b"".join(parts), True


def _parse(text: str, clean: Callable[[str], str]) -> Reply:
    try:
        form = cleaned(json.loads(text, parse_constant=lambda _: None), clean)
    except (ValueError, RecursionError) as error:
        return _faulty(f"the body is no JSON: {error}", text)
    choices = form.get("choices") if isinstance(form, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(form, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return _faulty(f"the body has no message: {said(text)}", text)
    usage = form.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    finish = choice.get("finish_reason")
    return Reply(
        content=_content(message),
        calls=tuple(_calls(message.get("tool_calls"))),
        finish=finish if isinstance(finish, str) else None,
        tokens_in=count(usage.get("prompt_tokens")),
        tokens_out=count(usage.get("completion_tokens")),
        tokens_cached=count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        raw=form if len(text) <= MAX_RAW else text[:MAX_RAW] + "…",
        attempts=(),
    )


def _faulty(why: str, text: str) -> Reply:
    raw = text if len(text) <= MAX_RAW else text[:MAX_RAW] + "…"
    return Reply("", (), None, None, None, None, raw, (), why)


def _content(message: Mapping[str, JSON]) -> str:
    """Return the words of a message: a string, a list of parts, or a refusal where there is no content."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not content:
        content = message.get("refusal")
    return content if isinstance(content, str) else ""


def _calls(form: JSON) -> Iterator[RawCall]:
    for item in form if isinstance(form, list) else ():
        function = item.get("function") if isinstance(item, dict) else None
        function = function if isinstance(function, dict) else {}
        yield RawCall(function.get("name"), function.get("arguments"))


def cleaned(value: JSON, clean: Callable[[str], str], depth: int = 0) -> JSON:
    """Return a value that can be stored, every string cleaned: JSON escapes hide surrogates and keys from the text."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(key): cleaned(item, clean, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item, clean, depth + 1) for item in value]
    return value


def count(value: JSON) -> int | None:
    """Return a count as an endpoint gave it; None where it is none."""
    return value if type(value) is int and 0 <= value < 2**53 else None


def said(text: str) -> str:
    """Return what an error body says, short."""
    try:
        form = json.loads(text)
        error = form.get("error", form) if isinstance(form, dict) else form
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        said = text
    return " ".join(str(said).split())[:300]


def _attempt_line(error: str | None, started: float) -> dict[str, JSON]:
    return {"error": error, "seconds": round(time.monotonic() - started, 3)}
