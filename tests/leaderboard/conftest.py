from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.store import Store, opened
from tests.leaderboard import desk
from tests.leaderboard.desk import Desk


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs that were really played, by player."""
    folder = tmp_path_factory.mktemp("runs")
    return {policy: desk.played(folder / policy, policy) for policy in ("expert", "prior", "oracle")}


@pytest.fixture(scope="session")
def desks(runs: dict[str, Path]) -> dict[str, Desk]:
    """The same, taken apart; the names of the built-in players are those of agents of somebody's own."""
    found = {name: Desk.of(folder) for name, folder in runs.items()}
    return {name: made.told(lambda told: told["agent"].update(name="somebody's")) for name, made in found.items()}


@pytest.fixture(scope="session")
def small() -> Board:
    return desk.board()


@pytest.fixture
def store(tmp_path: Path, small: Board) -> Iterator[Store]:
    with opened(tmp_path / "board") as made:
        made.make(small)
        yield made
