"""Runs the proxy in a thread, on a free port of this machine's loopback, for as long as somebody plays with it."""

from __future__ import annotations

import socket
import threading
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable

import uvicorn

from agentenvs.core.errors import ServiceError
from agentenvs.harness.proxy.app import App
from agentenvs.harness.proxy.ledger import Account, Ledger
from agentenvs.harness.proxy.settings import ProxySettings

START_SECONDS = 30.0
STOP_SECONDS = 5.0
SETTLE_SECONDS = 2.0
"""How long the calls of an ended episode may take to be let go of."""
_HOST = "127.0.0.1"


class ModelProxy:
    """A proxy that several players share; it runs while at least one of them holds it.

    Args:
        settings: Which model, where, and what an episode may use.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._holders = 0
        self._running: _Running | None = None

    def hold(self) -> None:
        """Have it run, until :meth:`release`.

        Raises:
            ServiceError: It does not come up.
        """
        with self._lock:
            if self._running is None:
                self._running = _Running(self.settings)
            self._holders += 1

    def release(self) -> None:
        """Need it no longer."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._running is not None:
                self._running.stop()
                self._running = None

    def open(self, number: int) -> Account:
        """Begin an episode, and return its account.

        Raises:
            ServiceError: It does not run.
        """
        return self._held().ledger.open(number)

    def close(self, account: Account) -> None:
        """End an episode: its key is none any more, and what is still asked with it is let go of."""
        running = self._running
        if running is not None:
            running.close(account)

    def told(self, account: Account) -> dict[str, str]:
        """Return what a program's environment says of its model."""
        url = self._held().url
        return {
            "AGENTENVS_MODEL": self.settings.model.model,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": account.key,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": account.key,
        }

    def _held(self) -> _Running:
        running = self._running
        if running is None:
            raise ServiceError("the model proxy does not run", fix="hold it while programs play")
        return running


class _Running:
    """A server in a thread of its own."""

    def __init__(self, settings: ProxySettings) -> None:
        self.ledger = Ledger(settings)
        app = App(settings, self.ledger)
        self._loop: AbstractEventLoop | None = None
        self._up = threading.Event()
        self._sock = socket.create_server((_HOST, 0), backlog=512)
        self.url = f"http://{_HOST}:{self._sock.getsockname()[1]}"
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config, app, self._came_up)
        run = self._server.run
        self._thread = threading.Thread(target=run, args=([self._sock],), name="agentenvs-model-proxy", daemon=True)
        self._thread.start()
        if not self._up.wait(START_SECONDS):
            self.stop()
            raise ServiceError("the model proxy did not come up", why=f"it had {START_SECONDS:g} s")

    def close(self, account: Account) -> None:
        self.ledger.close(account)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(account.ended.set)
            account.settle(SETTLE_SECONDS)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._sock.close()

    def _came_up(self) -> None:
        self._loop = get_running_loop()
        self._up.set()


class _Server(uvicorn.Server):
    """A server that tells when it answers, and lets go of the endpoint when it stops."""

    def __init__(self, config: uvicorn.Config, app: App, up: Callable[[], None]) -> None:
        super().__init__(config)
        self._app, self._up = app, up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self._app.close()
