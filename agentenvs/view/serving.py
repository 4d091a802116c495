"""The server of the viewer: one process, loopback unless told otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.view import tracing
from agentenvs.view.app import make_app
from agentenvs.view.pages import Pages

PORT = 7575
_TRIED = 20
_START_SECONDS = 30.0


def serve(
    roots: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    hosts: Sequence[str] = (),
    machine: tracing.Machine = lambda record: {},
    up: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve the pages until told to stop.

    Args:
        roots: Run folders, or folders that hold some.
        host: Address to listen at.
        port: Port; the first free one from 7575 on where None, any free one for 0.
        hosts: Names it may be asked by, beside addresses and ``localhost``.
        machine: Returns the options of this machine for the environment of a record that is played again.
        up: Is told the address once it answers.

    Raises:
        ConfigError: It cannot listen there.
        DataError: A folder is not there.
    """
    pages = Pages(roots, machine)
    with closing(_listening(host, port)) as sock:
        server = _Server(_config(pages, hosts), lambda: up(_url(host, sock)))
        server.run(sockets=[sock])
    pages.shelf.close()


@contextmanager
def background(roots: Sequence[Path]) -> Iterator[str]:
    """Serve on a free port of this machine, in a thread; yields the address.

    Raises:
        ServiceError: It did not come up.
        DataError: A folder is not there.
    """
    pages = Pages(roots)
    ready = threading.Event()
    with closing(_listening("127.0.0.1", 0)) as sock:
        server = _Server(_config(pages, ()), ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        try:
            if not ready.wait(_START_SECONDS):
                raise ServiceError("the viewer did not come up", why=f"it had {_START_SECONDS:g} s")
            yield _url("127.0.0.1", sock)
        finally:
            server.should_exit = True
            thread.join(10)
            pages.shelf.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, up: Callable[[], None]) -> None:
        super().__init__(config)
        self._up = up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._up()


def _config(pages: Pages, hosts: Sequence[str]) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(pages, hosts),
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )


def _listening(host: str, port: int | None) -> socket.socket:
    wanted = [port] if port is not None else range(PORT, PORT + _TRIED)
    failed: OSError | None = None
    for one in wanted:
        try:
            family = socket.getaddrinfo(host, one, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, one), family=family, backlog=128)
        except OSError as error:
            failed = error
    why = str(failed)
    raise ConfigError(f"the viewer cannot listen at {host}:{wanted[0]}", why=why, fix="give another --host or --port")


def _url(host: str, sock: socket.socket) -> str:
    every = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - told, not bound
    name = every.get(host, host)
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{sock.getsockname()[1]}"
