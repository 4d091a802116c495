"""One request of a program, from its translation to the last byte of its answer, and the line that is kept of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from agentenvs.core.canon import JSON
from agentenvs.harness.proxy import sse
from agentenvs.harness.proxy.backend import Backend, BackendError, broken
from agentenvs.harness.proxy.chat import Chat
from agentenvs.harness.proxy.forms import Dialect, Form, Gathered, Refused, as_chunk, as_text, first_message, name_calls
from agentenvs.harness.proxy.ledger import LEFT, Account, Outcome
from agentenvs.harness.proxy.passed import PASSED
from agentenvs.harness.proxy.settings import ProxySettings

_BOUNDS = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
"""API -> the names of its bound on a reply's tokens; the last is set where a request names none."""
_HOLDS = {"chat": "choices", "responses": "output", "messages": "content"}


class Answer(Protocol):
    """What is sent back."""

    @property
    def begun(self) -> bool:
        """Whether a part was sent."""

    async def whole(self, status: int, form: Form) -> None:
        """Send an answer in one piece."""

    async def part(self, data: bytes) -> None:
        """Send a part of a stream."""

    async def end(self) -> None:
        """End a stream."""


class Exchange:
    """One request.

    Args:
        account: Whose it is.
        dialect: The API it speaks.
        body: What it says.
        size: Bytes of it.
        headers: Those that go on to an endpoint that has the API itself.
        settings: What requests get whatever they say.

    Raises:
        Refused: The request makes no sense.
    """

    def __init__(
        self,
        account: Account,
        dialect: Dialect,
        body: Form,
        size: int,
        headers: Mapping[str, str],
        settings: ProxySettings,
    ) -> None:
        self._account = account
        self._dialect = dialect
        self._body = body
        self._size = size
        self._passes = dialect.name in settings.apis
        self._api: Dialect = dialect if self._passes else Chat()
        """What the endpoint is asked by."""
        self._headers = headers if self._passes else {}
        plain = body if self._passes and dialect.name != "chat" else dialect.to_chat(body, account.before)
        self._request = _forced(plain, settings, self._api.name)
        self._stream = dialect.stream(body)
        self._outcome = Outcome(LEFT, fault="the caller left", asked=False)

    async def run(self, backend: Backend, answer: Answer) -> None:
        """Ask, answer, and write down what came of it.

        Raises:
            Refused: The episode has used what it may.
        """
        account, outcome = self._account, self._outcome
        line: dict[str, JSON] = {
            "call": account.begin(),
            "api": self._dialect.name,
            "streamed": bool(self._body.get("stream")),
            "asked_for": as_text(self._body.get("model")) or None,
        }
        started = time.monotonic()
        try:
            async with account.turns:
                started = time.monotonic()
                await self._answered(backend, answer)
        finally:
            outcome.seconds = time.monotonic() - started
            account.note(line, self._request, self._size, outcome)

    async def _answered(self, backend: Backend, answer: Answer) -> None:
        outcome = self._outcome
        outcome.asked = True
        try:
            if not self._body.get("stream"):
                await self._whole(backend, answer)
            elif self._api.name == "chat":
                await self._streamed(backend, answer)
            else:
                await self._passed(backend, answer)
        except BackendError as error:
            outcome.status, outcome.fault, outcome.asked = error.status, error.message, error.begun
            if answer.begun:
                await answer.part(self._stream.fail(error.message))
                await answer.end()
            else:
                await answer.whole(error.status, self._dialect.error(Refused(error.status, error.message)))

    async def _whole(self, backend: Backend, answer: Answer) -> None:
        api = self._api
        reply = await backend.ask(
            api.path, self._request, self._headers, self._outcome.attempts, holds=_HOLDS[api.name]
        )
        self._came(reply)
        if self._passes:
            await answer.whole(200, reply)
            return
        form = self._dialect.reply(name_calls(reply, self._request), self._body)
        self._remember(form.get("id"), reply)
        await answer.whole(200, form)

    async def _streamed(self, backend: Backend, answer: Answer) -> None:
        """Stream; without its usage where the endpoint does not know how that is asked for."""
        try:
            await self._translated(backend, answer)
        except BackendError as error:
            if answer.begun or error.status not in (400, 422) or "stream_options" not in error.message:
                raise
            self._request = {name: value for name, value in self._request.items() if name != "stream_options"}
            await self._translated(backend, answer)

    async def _translated(self, backend: Backend, answer: Answer) -> None:
        stream, gathered, done = self._stream, Gathered(), False
        async with backend.stream(self._api.path, self._request, {}, self._outcome.attempts) as events:
            async for name, data in events:
                done = name == "done"
                chunk = as_chunk(data) if name == "whole" else data
                if not done:
                    gathered.add(chunk)
                    self._so_far(gathered)
                    for part in stream.feed(chunk):
                        await answer.part(part)
        reply = gathered.reply()
        if not reply["choices"] or not (done or gathered.complete):
            raise broken("the model endpoint's stream ended before its reply did")
        self._came(reply)
        parts = list(stream.end(reply if self._passes else name_calls(reply, self._request)))
        self._remember(stream.id, reply)
        for part in parts:
            await answer.part(part)
        await answer.end()

    async def _passed(self, backend: Backend, answer: Answer) -> None:
        gathered, outcome = PASSED[self._api.name](), self._outcome
        async with backend.stream(self._api.path, self._request, self._headers, self._outcome.attempts) as events:
            async for name, data in events:
                if name == "whole":
                    raise broken("the model endpoint answers no stream where it was asked for one")
                gathered.add(data)
                outcome.reply, outcome.said = gathered.reply(), gathered.size
                outcome.chunks = (outcome.chunks or 0) + 1
                await answer.part(sse.event(data, name))
        if not gathered.complete:
            raise broken("the model endpoint's stream ended before its reply did")
        self._came(gathered.reply())
        await answer.end()

    def _came(self, reply: Form) -> None:
        """Take a whole reply."""
        outcome = self._outcome
        outcome.status, outcome.fault, outcome.reply = 200, None, reply
        outcome.usage = self._api.usage(reply)
        outcome.said = outcome.said or len(str(reply))

    def _so_far(self, gathered: Gathered) -> None:
        outcome, reply = self._outcome, gathered.reply()
        outcome.reply, outcome.said, outcome.chunks = reply, gathered.size, gathered.chunks
        outcome.usage = self._api.usage(reply)

    def _remember(self, name: str | None, reply: Form) -> None:
        """Keep what a response was about for one that goes on from it; instructions are not carried over."""
        if self._dialect.name != "responses" or name is None:
            return
        turns = self._request["messages"][bool(as_text(self._body.get("instructions"))) :]
        self._account.remember(name, [*turns, first_message(reply)[0]])


def _forced(request: Form, settings: ProxySettings, api: str) -> Form:
    """Return a request with what the run sets, which goes before what a program says."""
    fixed = settings.forced()
    if api != "chat":
        fixed.pop("seed", None)  # the other APIs know none
    made = {**request, **fixed}
    most = settings.model.max_tokens
    if most is not None:
        names = [name for name in _BOUNDS[api] if type(made.get(name)) is int] or [_BOUNDS[api][-1]]
        made.update({name: min(made.get(name) or most, most) for name in names})
    return made
