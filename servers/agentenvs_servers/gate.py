"""A lock of one event loop that can be entered without suspending where it is free.

What runs behind it comes in the order in which it asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Gate:
    """Lets one in at a time; ``async with`` it, or :meth:`try_enter` and :meth:`leave`."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Enter where nobody is inside or waits; return whether that was so."""
        if self._taken:
            return False
        self._taken = True
        return True

    async def enter(self) -> None:
        """Enter, when it is one's turn."""
        if self.try_enter():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was our turn at the same moment: let the next one in
            raise

    def leave(self) -> None:
        """Let the next one in."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # it stays taken: whoever comes now must wait behind
                return
        self._taken = False

    async def __aenter__(self) -> None:
        """Enter."""
        await self.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave."""
        self.leave()
