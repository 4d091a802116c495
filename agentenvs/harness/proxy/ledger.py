"""What each episode asked of the model, got, used, and may still use; found by the episode's key.

Everything kept of an episode is bounded: prompts stand once and are pointed to where a later one begins with them, and
what goes beyond :data:`KEPT_BYTES` is kept as a digest. Read from other threads than the server's, so under a lock.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agentenvs.core.canon import JSON, digest
from agentenvs.harness.proxy.forms import SPENT, Form, Refused, Usage, kept_tokens
from agentenvs.harness.proxy.settings import ProxySettings

KEPT_BYTES = 16 << 20
"""Bytes of prompts and replies that are kept of an episode."""
MAX_LINES = 10_000
"""Calls of an episode that are listed; further ones are only counted."""
MAX_THREADS = 64
"""Latest responses of an episode that ``previous_response_id`` may name."""
BYTES_A_TOKEN = 4
"""What a token is taken for where nobody counted; only budgets go by it, and no table shows it."""


@dataclass(slots=True)
class Spent:
    """What an episode used so far, as its budgets count it."""

    calls: int = 0
    tokens: int = 0
    microusd: int = 0


@dataclass(slots=True)
class _Counts:
    """What an episode used so far, as tables show it: a total is unknown once an answer came without its count.

    Calls that broke off are left out, and their number is shown beside.
    """

    tokens_in: int | None = 0
    tokens_out: int | None = 0
    tokens_cached: int | None = None

    def add(self, usage: Usage) -> None:
        self.tokens_in = _plus(self.tokens_in, usage.tokens_in)
        self.tokens_out = _plus(self.tokens_out, usage.tokens_out)
        if usage.tokens_cached is not None:
            self.tokens_cached = (self.tokens_cached or 0) + usage.tokens_cached


@dataclass(slots=True)
class Outcome:
    """What came of a call."""

    status: int
    reply: Form | None = None
    """In the API that the endpoint was asked by; a part of it where the call broke off."""
    usage: Usage = field(default_factory=Usage)
    said: int = 0
    """Characters of the reply."""
    chunks: int | None = None
    fault: str | None = None
    attempts: list[dict[str, JSON]] = field(default_factory=list)
    asked: bool = True
    """Whether the endpoint was asked at all, and may have counted tokens."""
    seconds: float = 0.0


class Account:
    """One episode's.

    Args:
        number: Of the episode in its run.
        settings: Budgets, and prices.
    """

    def __init__(self, number: int, settings: ProxySettings) -> None:
        self.number = number
        self.key = f"sk-agentenvs-{number:06d}-{secrets.token_urlsafe(24)}"
        self.ended = asyncio.Event()
        """Set, in the server's thread, when the episode is over: what still runs of it is ended."""
        self.turns = asyncio.Semaphore(settings.parallel)
        self._settings = settings
        self._lock = threading.Condition()
        self._running = 0
        self._spent = Spent()
        self._counts = _Counts()
        self._lines: list[dict[str, JSON]] = []
        self._prompts: list[tuple[int, list[str]]] = []
        self._rests: dict[str, int] = {}
        self._kept = 0
        self._errors = self._uncounted = 0
        self._away: str | None = None
        self._threads: dict[str, list[Form]] = {}

    # ---- the server's side -----------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Count a call in, and return its number.

        Raises:
            Refused: A budget is spent.
        """
        with self._lock:
            spent, model = self._spent, self._settings.model
            bounds: list[tuple[str, int | Decimal, int | Decimal | None]] = [
                ("model calls", spent.calls, model.max_calls),
                ("tokens", spent.tokens, self._settings.tokens),
                ("dollars", Decimal(spent.microusd) / 1_000_000, self._settings.dollars),
            ]
            for what, used, most in bounds:
                if most is not None and used >= most:
                    message = f"the budget of this episode is spent: {used} of {most} {what}"
                    raise Refused(429, message, code=SPENT)
            spent.calls += 1
            self._running += 1
            return spent.calls

    def note(self, line: dict[str, JSON], request: Form, asked_bytes: int, outcome: Outcome) -> None:
        """Write a call down, and charge it."""
        with self._lock:
            self._running -= 1
            self._lock.notify_all()
            if outcome.asked:
                self._charge(asked_bytes, outcome)
            self._errors += outcome.fault is not None
            if outcome.status == 200 or outcome.fault is None:
                self._away = None
            elif outcome.status in _AWAY or outcome.status >= 500:
                self._away = outcome.fault
            elif outcome.status == LEFT and outcome.attempts and (failed := outcome.attempts[-1]["error"]):
                self._away = str(failed)  # the caller did not wait until it was asked again
            if len(self._lines) < MAX_LINES:
                self._lines.append(self._kept_line(line, request, outcome))

    def remember(self, name: str, turns: list[Form]) -> None:
        """Keep the messages of a response for one that goes on from it."""
        self._threads[name] = turns
        while len(self._threads) > MAX_THREADS:
            del self._threads[next(iter(self._threads))]

    def before(self, name: str) -> list[Form]:
        """Return the messages up to a response.

        Raises:
            Refused: No such response is remembered.
        """
        try:
            return self._threads[name]
        except (KeyError, TypeError):
            raise Refused(
                400, f"no response {name!r} of this episode is remembered", param="previous_response_id"
            ) from None

    # ---- the run's side --------------------------------------------------------------------------------------------

    def settle(self, seconds: float) -> None:
        """Wait until no call runs any more and all are written down, but not for ever."""
        with self._lock:
            self._lock.wait_for(lambda: self._running == 0, seconds)

    def away(self) -> str | None:
        """Return why the last call had no whole answer, where the endpoint stayed away; None otherwise."""
        with self._lock:
            return self._away

    def usage(self) -> dict[str, int | None]:
        """Return tokens and cost; None where the endpoint did not say, or no price is known."""
        with self._lock:
            counts = self._counts
            return {
                "tokens_in": counts.tokens_in,
                "tokens_out": counts.tokens_out,
                "tokens_cached": counts.tokens_cached,
                "cost_microusd": self._settings.model.cost(counts.tokens_in, counts.tokens_out, counts.tokens_cached),
            }

    def metrics(self) -> dict[str, JSON]:
        """Return how many calls there were, how many had no whole answer, and of how many nobody counted the tokens."""
        with self._lock:
            calls, errors, uncounted = self._spent.calls, self._errors, self._uncounted
        return {"model_calls": calls, "model_errors": errors, "uncounted_calls": uncounted}

    def sidecar(self) -> dict[str, JSON]:
        """Return everything that is kept."""
        with self._lock:
            lines = [dict(line) for line in self._lines]
            calls = self._spent.calls
        model = self._settings.model
        return {
            "name": model.model,
            "endpoint": model.url,
            "usage": dict(self.usage()),
            "budget": {
                "calls": model.max_calls,
                "tokens": self._settings.tokens,
                "dollars": None if self._settings.dollars is None else str(self._settings.dollars),
            },
            "model_calls": calls,
            "calls": list(lines),
        }

    # ---- the machinery ---------------------------------------------------------------------------------------------

    def _charge(self, asked_bytes: int, outcome: Outcome) -> None:
        usage = outcome.usage
        if usage.tokens_in is not None or usage.tokens_out is not None or outcome.fault is None:
            self._counts.add(usage)
        else:
            self._uncounted += 1
        guessed = max(outcome.chunks or 0, _tokens(outcome.said))
        tokens_in = _tokens(asked_bytes) if usage.tokens_in is None else usage.tokens_in
        tokens_out = guessed if usage.tokens_out is None else usage.tokens_out
        self._spent.tokens += tokens_in + tokens_out
        self._spent.microusd += self._settings.model.cost(tokens_in, tokens_out, usage.tokens_cached) or 0

    def _kept_line(self, line: dict[str, JSON], request: Form, outcome: Outcome) -> dict[str, JSON]:
        reply = outcome.reply
        kept: dict[str, JSON] = {
            **line,
            "status": outcome.status,
            "fault": outcome.fault,
            "attempts": list(outcome.attempts),
            "chunks": outcome.chunks,
            "tokens_in": outcome.usage.tokens_in,
            "tokens_out": outcome.usage.tokens_out,
            "tokens_cached": outcome.usage.tokens_cached,
            "seconds": round(outcome.seconds, 3),
            "prompt": self._prompt(int(str(line["call"])), request),
            "request": self._rest(int(str(line["call"])), request),
            "tokens": None if reply is None else self._room(kept_tokens(reply)),
            "reply": None if reply is None else self._room(_without_tokens(reply)),
        }
        return kept

    def _prompt(self, call: int, request: Form) -> dict[str, JSON]:
        """Return the messages of a prompt; those it begins with, and an earlier one too, are named and not repeated."""
        turns: list[Any] = next((request[name] for name in _TURNS if isinstance(request.get(name), list)), [])
        texts = [json.dumps(turn, sort_keys=True) for turn in turns]
        marks = [digest(text) for text in texts]
        as_call, shared = 0, 0
        for earlier, known in reversed(self._prompts):
            same = next(
                (place for place, pair in enumerate(zip(known, marks, strict=False)) if pair[0] != pair[1]), None
            )
            same = min(len(known), len(marks)) if same is None else same
            if same > shared:
                as_call, shared = earlier, same
        self._prompts = [*self._prompts[-31:], (call, marks)]
        said: dict[str, JSON] = {"messages": [self._room(turn) for turn in turns[shared:]], "digest": digest(marks)}
        return {"as_call": as_call, "first": shared, **said} if shared else said

    def _rest(self, call: int, request: Form) -> dict[str, JSON]:
        """Return the other fields of a request, or the call that had the same."""
        rest = {name: value for name, value in request.items() if name not in _TURNS}
        mark = digest(json.dumps(rest, sort_keys=True))
        if mark in self._rests:
            return {"as_call": self._rests[mark]}
        self._rests[mark] = call
        return {name: self._room(value) for name, value in rest.items()}

    def _room(self, value: Any) -> JSON:
        """Return a value that is to be kept, or its digest where there is no room."""
        text = json.dumps(value)
        if self._kept + len(text) > KEPT_BYTES:
            return {"left_out": len(text), "digest": digest(text)}
        self._kept += len(text)
        kept: JSON = json.loads(text)
        return kept


_TURNS = ("messages", "input")
LEFT = 499
"""Status of a call whose caller went away, in what is kept of it."""

_AWAY = (408, 409, 425, 429)
_TOKENS = ("token_ids", "logprobs", "prompt_token_ids")


class Ledger:
    """All episodes of a proxy that are not over.

    Args:
        settings: Budgets, and prices.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._open: dict[str, Account] = {}

    def open(self, number: int) -> Account:
        """Begin an episode."""
        account = Account(number, self._settings)
        self._open[account.key] = account
        return account

    def close(self, account: Account) -> None:
        """End an episode: its key is none any more."""
        self._open.pop(account.key, None)

    def find(self, key: str) -> Account:
        """Return the episode of a key.

        Raises:
            Refused: There is none, or it is over.
        """
        account = self._open.get(key)
        if account is None:
            raise Refused(401, "this key is of no episode that runs", code="invalid_api_key")
        return account


def _without_tokens(reply: Form) -> Form:
    """Return a reply without what is kept beside it."""
    choices = reply.get("choices")
    plain = {name: value for name, value in reply.items() if name not in _TOKENS}
    if isinstance(choices, list):
        plain["choices"] = [
            {name: value for name, value in choice.items() if name not in _TOKENS} if number == 0 else choice
            for number, choice in enumerate(choices)
            if isinstance(choice, dict)
        ]
    return plain


def _plus(total: int | None, count: int | None) -> int | None:
    return None if total is None or count is None else total + count


def _tokens(size: int) -> int:
    return -(-size // BYTES_A_TOKEN)
