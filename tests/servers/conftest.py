from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentenvs_servers.settings import Settings
from tests.envs.fixtures import register_fixtures
from tests.servers import rooms
from tests.servers.house import House
from tests.servers.wire import Wire


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _worlds() -> None:
    rooms.register()
    register_fixtures()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Wire]]:
    """Return a function that makes a server."""
    made: list[Wire] = []

    def make(*envs: str, options: dict[str, Any] | None = None, **settings: Any) -> Wire:
        made.append(Wire(envs or ("room",), Settings(**settings), options))
        return made[-1]

    yield make
    for wire in made:
        await wire.hall.close()
        await wire.http.aclose()


@pytest.fixture
async def wire(serve: Callable[..., Wire]) -> Wire:
    """A server with one room."""
    return serve()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """Servers on one journal."""
    made = House(tmp_path / "journal.db")
    yield made
    for wire in made.wires:
        await wire.hall.close()
        await wire.http.aclose()
