"""Sets the clocks of a process ahead, to see whether an environment reads them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


def set_ahead(seconds: int) -> None:
    """Set the clocks of this process ahead."""
    if not seconds:
        return
    for name in _CLOCKS:
        setattr(time, name, _later(getattr(time, name), seconds))
        setattr(time, f"{name}_ns", _later(getattr(time, f"{name}_ns"), seconds * 10**9))
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


def _later(clock: Callable[[], Any], shift: int) -> Callable[[], Any]:
    return lambda: clock() + shift
