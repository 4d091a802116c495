"""What every test may ask for: the project's folder, and the field's real data files where they were handed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenvs.core import registry

ROOT = Path(__file__).resolve().parents[1]

# A test must not depend on what happens to be set in the shell of whoever runs it.
_FOREIGN = (
    "AGENTENVS_SEALED_SECRET",
    "AGENTENVS_CACHE",
    "AGENTENVS_PREPARED",
    "ALFWORLD_DATA",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "FORCE_COLOR",
    "NO_COLOR",
    "COLUMNS",
)


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data files of the field: $AGENTENVS_TEST_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("AGENTENVS_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data files: {folder} is absent (set AGENTENVS_TEST_DATA to their folder)")
    return folder


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Forget the modules, folders and environments that a test brings in from its own folder."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
