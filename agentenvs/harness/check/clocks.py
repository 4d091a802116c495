"""Sets the clocks of a process ahead, to see whether an environment reads them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_CALENDARS = ("localtime", "gmtime", "ctime")
"""Functions of ``time`` that read the clock where no time is handed to them."""


def set_ahead(seconds: int) -> None:
    """Set the clocks of this process ahead."""
    if not seconds:
        return
    for name in _CLOCKS:
        setattr(time, name, _later(getattr(time, name), seconds))
        setattr(time, f"{name}_ns", _later(getattr(time, f"{name}_ns"), seconds * 10**9))
    for name in _CALENDARS:
        setattr(time, name, _of_later(getattr(time, name), time.time))
    time.asctime = _told_later(time.asctime)
    time.strftime = _told_later(time.strftime, 1)
    shift = datetime.timedelta(seconds=seconds)

    class Later(datetime.datetime):
        """A ``datetime`` whose now is later."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return super().now(tz) + shift

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    datetime.datetime = Later  # type: ignore[misc]


class _Later:
    """A function that answers for later; like one of C, it does not become a method of a class that keeps it."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer

    def __call__(self, *given: Any) -> Any:
        return self._answer(*given)


def _later(clock: Callable[[], Any], shift: int) -> _Later:
    return _Later(lambda: clock() + shift)


def _of_later(calendar: Callable[[float], Any], clock: Callable[[], float]) -> _Later:
    return _Later(lambda moment=None: calendar(clock() if moment is None else moment))


def _told_later(said: Callable[..., str], before: int = 0) -> _Later:
    """Return a function that tells the time now where none is handed to it after so many other arguments."""
    return _Later(lambda *given: said(*given, time.localtime()) if len(given) == before else said(*given))
