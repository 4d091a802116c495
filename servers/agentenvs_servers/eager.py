"""Runs coroutines up to where they have to wait, without a task or a timer: most of them do not have to."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class NotYet(Exception):
    """A coroutine that has begun must wait.

    Args:
        waits: For what; :func:`resumed` takes it.
    """

    def __init__(self, waits: Any) -> None:
        self.waits = waits


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that does not wait.

    Raises:
        NotYet: It does, and has begun.
    """
    try:
        waits = work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise NotYet(waits)


async def resumed(work: Coroutine[Any, Any, T], later: NotYet) -> T:
    """Go on with a coroutine that has begun, and return what it returns."""
    return await _resumed(work, later.waits)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, T], waits: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                sent = yield waits
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - boundary: it is handed on, whatever it is
                waits = work.throw(error)
            else:
                waits = work.send(sent)
    except StopIteration as done:
        value: T = done.value
        return value
