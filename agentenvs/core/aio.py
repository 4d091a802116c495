"""Runs coroutines for callers that are not asynchronous.

An asynchronous environment keeps connections that belong to one event loop, so every synchronous call to it must run
on the same loop: one background thread holds it, started on first use.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the shared background loop and return its result.

    Raises:
        RuntimeError: Called from the background loop itself, which would wait for itself.
    """
    loop = background_loop()
    if _running() is loop:
        coroutine.close()
        raise RuntimeError("an asynchronous environment was stepped synchronously from its own event loop; use astep")
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def on_background_loop() -> bool:
    """Return whether the caller runs on the shared loop, and so must not wait for it."""
    return _loop is not None and _running() is _loop


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the shared loop; it runs in a thread of its own for as long as the process lives."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = _new_loop()
            threading.Thread(target=_loop.run_forever, name="agentenvs-aio", daemon=True).start()
        return _loop


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _forget_loop() -> None:
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):  # a forked process has the loop, but not its thread
    os.register_at_fork(after_in_child=_forget_loop)
