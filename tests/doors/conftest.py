"""Servers with their doors open, and the Pythons of other makers' clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.doors.line import Server
from tests.envs.fixtures import register_fixtures
from tests.servers import rooms

ENVS = ("household", "room", "clerk", "ledger", "slow_tool")


@pytest.fixture(scope="session", autouse=True)
def _worlds() -> None:
    rooms.register()
    register_fixtures()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server and returns it."""
    with ExitStack() as stack:

        def start(*envs: str, journal: bool = False, **settings: Any) -> Server:
            file = str(tmp_path / "journal.db") if journal else None
            return Server(stack.enter_context(background(envs or ENVS, Settings(**settings), journal=file)))

        yield start


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with all doors open."""
    with background(ENVS, Settings(doors="v1,openenv,ors,mcp")) as url:
        yield Server(url)
