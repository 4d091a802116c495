"""Runs a server: in this thread until it is told to stop, or in a thread of its own for as long as somebody needs it.

uvicorn with uvloop and httptools, its own access log off: addresses hold secrets, so none may reach a log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Any

import uvicorn

from agentenvs.core.errors import ConfigError, DataError, ServiceError
from agentenvs.core.sealed import refuse_unusable_secret
from agentenvs_servers import auth, logs, machine
from agentenvs_servers.app import make_app
from agentenvs_servers.connection import Config
from agentenvs_servers.garbage import Aside
from agentenvs_servers.hall import Hall
from agentenvs_servers.hosts import Hosts
from agentenvs_servers.hot import Front
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.locks import lock
from agentenvs_servers.settings import DOORS, V1, Settings
from agentenvs_servers.siblings import Siblings
from agentenvs_servers.workers import Crew, shares_ports

STOP_SECONDS = 10
"""How long running requests are waited for when the server stops."""

START_SECONDS = 30.0

SPARE_FRAME_BYTES = 65_536
"""By how much a frame may be larger than a body may, and still be refused by an answer instead of a closing."""

KEEP_ALIVE_SECONDS = 75
"""How long a connection may wait for its next request: longer than most models think."""

log = logging.getLogger("agentenvs.server")


class _Server(uvicorn.Server):
    """A server that tells when it has come up, and goes down in order.

    SIGTERM lets it drain: it is not ready any more and takes no new sessions, but answers those that run, for the time
    that the settings say; then it stops, as it does on SIGINT, when running requests are answered. A second signal
    stops it at once: what was answered is in the journal already.

    Args:
        app: The application.
        up: Told when it answers.
        logs_itself: Whether its log was set up already; uvicorn's own is used otherwise.
    """

    def __init__(self, app: Front, up: Callable[[], None], *, logs_itself: bool = False) -> None:
        self._hall = app.handlers.hall
        super().__init__(_config(app, self._hall.settings, logs_itself=logs_itself))
        self._up = up
        self._drained_at: float | None = None
        self._hall.connections = lambda: len(self.server_state.connections)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to stop."""
        self._hall.draining = True
        if self._captured_signals:
            self.should_exit = self.force_exit = True
        elif sig == signal.SIGTERM:
            self._drained_at = time.monotonic() + self._hall.settings.drain_seconds
        else:
            self.should_exit = True
        self._captured_signals.append(sig)

    async def on_tick(self, counter: int) -> bool:
        """Return whether it is time to stop."""
        if self._drained_at is not None and time.monotonic() >= self._drained_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Come up, and say so."""
        await super().startup(sockets)
        if self.started:
            self._up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Go down: running requests are answered, new sessions refused."""
        self._hall.draining = True
        await super().shutdown(sockets)


def serve(
    envs: Sequence[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: Settings | None = None,
    options: Mapping[str, Any] | None = None,
    insecure: bool = False,
    journal: str | None = None,
    workers: int = 1,
    without_token: str = "refuse",  # noqa: S107 - a choice, no token
    up: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        envs: Ids or slugs of the environments to host.
        host: Address to listen on; beyond this machine only with a token.
        port: Port; 0 for a free one.
        settings: The limits.
        options: What the operator sets of the environments' options.
        insecure: Serve beyond this machine without a token.
        journal: File or URL of the journal; sessions live in memory alone where None.
        workers: Processes; more than one need a journal.
        without_token: ``openenv`` opens the OpenEnv door alone beyond this machine where there is no token.
        up: Told the address once it answers.

    Raises:
        ConfigError: Beyond this machine without a token, a secret of sealed splits that cannot be used, or the address
            cannot be had.
        UserError: Some other subclass: no such environment or option.
    """
    settings = settings or Settings()
    if without_token in DOORS and auth.is_open(host, settings, insecure=insecure):
        settings = replace(settings, doors=without_token)
    else:
        auth.refuse_open_doors(host, settings, insecure=insecure)
    if workers > 1 and journal is None:
        raise ConfigError("several workers need a journal", why="they share nothing else", fix="give --journal")
    refuse_unusable_secret()
    plan = Plan(tuple(envs), settings, dict(options or {}), journal, workers > 1, local=auth.is_loopback(host))
    with _listening(host, port, shared=workers > 1) as sock, _alone(journal):
        url = _url(host, sock)
        app = plan.app(fresh=True)  # made here in any case: a mistake is to be told before anything is started
        _settle_in(settings)
        if workers == 1:
            with _hearing(app.handlers.hall):
                _Server(app, lambda: up(url), logs_itself=True).run([sock])
            return
        asyncio.run(app.handlers.hall.close())
        with TemporaryDirectory(prefix="agentenvs-") as folder:
            crew = Crew(workers, _work, replace(plan, folder=folder), sock)
            crew.patience += settings.drain_seconds
            crew.hears_hangups = settings.token_file is not None
            crew.run(lambda: up(url))


def _settle_in(settings: Settings) -> None:
    """Make a process a server's own: its log, as many connections as it may have, a collector that stops it little."""
    logs.set_up(settings.log_format, requests=settings.access_log)
    machine.allow_files()
    Aside().begin()


@contextmanager
def _hearing(hall: Hall) -> Iterator[None]:
    """Read the file of tokens again on SIGHUP, where there is one."""
    if hall.settings.token_file is None or not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda *_: hall.keyring.look_again())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@dataclass(frozen=True)
class Plan:
    """What a worker serves."""

    envs: tuple[str, ...]
    settings: Settings
    options: dict[str, Any]
    journal: str | None
    shared: bool
    """Whether the server has several workers; a database may have several servers in any case."""
    folder: str | None = None
    """Where workers share their metrics."""
    local: bool = False
    """Whether it listens on this machine alone."""

    def app(self, *, fresh: bool) -> Front:
        """Return the application.

        Args:
            fresh: Whether the server begins with it.
        """
        app = make_app(self.envs, self.settings, self.options, journal=self._open(fresh))
        if self.settings.open_doors != (V1,):
            from agentenvs_servers.doors.opening import open_doors  # not known to the core of the server

            open_doors(app)
        if self.local and not self.settings.asks_for_tokens:
            app.hosts = Hosts(self.settings.hosts)
        return app

    def _open(self, fresh: bool) -> Journal | None:
        if self.journal is None:
            return None
        opened = open_journal(self.journal, fresh_epoch=fresh)
        prefix = self.settings.route
        route = prefix + secrets.token_hex(4)[len(prefix) :]
        return Journal(opened, route, shared=self.shared or not opened.is_sqlite)


def _work(sock: socket.socket, up: Callable[[], None], plan: Plan, number: int) -> None:
    """Serve as one of several workers."""
    _settle_in(plan.settings)
    app = plan.app(fresh=False)
    hall = app.handlers.hall
    hall.siblings = Siblings(number, plan.folder)
    with _hearing(hall):
        _Server(app, up, logs_itself=True).run([sock])


def _opened(file: Path) -> IO[str]:
    """Open a lock file.

    Raises:
        DataError: It cannot be.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("a")
    except OSError as error:
        raise DataError(
            f"the journal {file.with_suffix('')} cannot be written", why=str(error), fix="give another --journal"
        ) from error


@contextmanager
def _alone(url: str | None) -> Iterator[None]:
    """Keep other servers away from a journal file; those of a database may be many.

    Raises:
        ConfigError: Another server has it.
    """
    if url is None or ("://" in url and not url.startswith("sqlite")):
        yield
        return
    file = Path(f"{url.removeprefix('sqlite:///')}.lock")
    with _opened(file) as held:
        try:
            lock(held.fileno())
        except OSError as error:
            raise ConfigError(
                f"another server uses the journal {url}",
                why="a file is for one server; several share a PostgreSQL database",
                fix="stop that server, or give another --journal",
            ) from error
        yield


@contextmanager
def background(
    envs: Sequence[str],
    settings: Settings | None = None,
    options: Mapping[str, Any] | None = None,
    journal: str | None = None,
) -> Iterator[str]:
    """Serve on a free port of this machine, in a thread; yields the address.

    Raises:
        ServiceError: It did not come up.
        UserError: Some subclass: no such environment or option.
    """
    app = Plan(tuple(envs), settings or Settings(), dict(options or {}), journal, False, local=True).app(fresh=True)
    up = threading.Event()
    with _listening("127.0.0.1", 0) as sock:
        server = _Server(app, up.set)
        thread = threading.Thread(target=server.run, args=([sock],), name="agentenvs-server", daemon=True)
        thread.start()
        try:
            if not up.wait(START_SECONDS):
                raise ServiceError("the server did not come up", why=f"it had {START_SECONDS:g} s")
            yield _url("127.0.0.1", sock)
        finally:
            server.should_exit = True
            thread.join(STOP_SECONDS + 5)


def _config(app: Front, settings: Settings, *, logs_itself: bool) -> uvicorn.Config:
    log.setLevel(logging.INFO)
    return Config(
        app,
        settings,
        ws_max_size=settings.max_body_bytes + SPARE_FRAME_BYTES,
        ws_ping_interval=settings.socket_ping_seconds,
        ws_ping_timeout=settings.socket_ping_seconds,
        ws_per_message_deflate=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        access_log=False,
        log_level=None if logs_itself else "warning",
        log_config=None if logs_itself else uvicorn.config.LOGGING_CONFIG,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="on",
    )


@contextmanager
def _listening(host: str, port: int, *, shared: bool = False) -> Iterator[socket.socket]:
    """Give a listening socket; made here, so that an address that cannot be had is told as the mistake it is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared and shares_ports():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            sock.bind((host.strip("[]"), port))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on {host} port {port}", why=str(error), fix="choose another --port, or 0 for a free one"
            ) from error
        yield sock
    finally:
        sock.close()


def _url(host: str, sock: socket.socket) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - a comparison, nothing is bound
    return f"http://{f'[{shown}]' if ':' in shown and not shown.startswith('[') else shown}:{sock.getsockname()[1]}"
