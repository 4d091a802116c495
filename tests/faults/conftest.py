from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.envs.fixtures import register_fixtures
from tests.faults.processes import Server
from tests.postgres import Cluster


@pytest.fixture(autouse=True)
def _worlds() -> None:
    register_fixtures()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL of the test's own."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Cluster(Path(folder) / "c")
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server."""
    made: list[Server] = []

    def make(journal: str | None = None, **more: Any) -> Server:
        made.append(Server(journal or str(tmp_path / "journal.db"), tmp_path / f"log{len(made)}", **more))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.close()
