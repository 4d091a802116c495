"""How often, and how long, a request is asked again.

An attempt that fails in any way is worth another, up to a number. A server that is known to be there, and is away,
stopping or full for a while, is asked for as long as patience lasts: a restart must not cost an episode.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import httpx

from agentenvs.client.calls import Answer
from agentenvs.client.problems import problem_code
from agentenvs.client.settings import ClientSettings
from agentenvs.core.errors import ServiceError

AGAIN = frozenset({429, 502, 503, 504})
"""Statuses that say that an attempt may go better."""

WAITED = frozenset({"at_capacity", "draining", "elsewhere", "journal_unavailable", "quota_reached", "too_many_creates"})
"""Problems of a server that is there, and cannot now."""

GOODBYE_SECONDS = 2.0
"""What closing a session may cost; one that is not closed expires by itself."""


class Patience:
    """Counts the attempts of one request, and says how long to wait before the next.

    Args:
        host: Who is asked, for messages.
        settings: How often and how long.
        known: Tells whether the server has answered before.
        once: There is to be no other attempt, and little time.
    """

    def __init__(self, host: str, settings: ClientSettings, known: Callable[[], bool], *, once: bool) -> None:
        self.seconds = min(settings.timeout, GOODBYE_SECONDS) if once else settings.timeout
        """What an attempt may take."""
        self._host = host
        self._settings = settings
        self._known = known
        self._retries = 0 if once else settings.retries
        self._patience = 0.0 if once else settings.patience
        self._tries = 0
        self._began = 0.0

    def after(self, failed: Answer | Exception) -> float:
        """Return the seconds to wait after an attempt that was not answered, or was asked to come again.

        Raises:
            ServiceError: There is no further attempt.
        """
        if isinstance(failed, Answer):
            code = problem_code(failed)
            why = f"status {failed.status}" + (f" ({code})" if code else "")
            return self._after(why, failed.retry_after, self._known() or code in WAITED)
        late = isinstance(failed, httpx.TimeoutException | TimeoutError)
        return self._after(f"{type(failed).__name__}: {failed}"[:200].rstrip(": "), None, self._known() and not late)

    def _after(self, why: str, asked: float | None, awaited: bool) -> float:
        self._tries += 1
        now = time.monotonic()
        if self._tries == 1:
            self._began = now
        # Spread, so that many sessions that were refused together do not come back together.
        spread = 0.5 + secrets.randbelow(1024) / 1024
        wait = self._settings.backoff * 2.0 ** min(self._tries - 1, 30) * spread
        wait = min(wait + (asked or 0.0), self._settings.max_wait)
        if self._tries > self._retries and not (awaited and now + wait - self._began < self._patience):
            raise ServiceError(
                f"the server at {self._host} stays away",
                why=f"{self._tries} attempt(s) failed, the last with: {why}",
                fix="check the URL and that the server runs, or allow more retries, a longer timeout or more patience",
            )
        return wait


def asks_again(answer: Answer) -> bool:
    """Return whether an answer is none yet."""
    return answer.status in AGAIN
