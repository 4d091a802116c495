"""What tests that bring in modules, folders and environments leave as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from agentenvs.core import registry


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test brings in."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if not name.startswith(("agentenvs", "tests", "gymnasium", "numpy")):
            del sys.modules[name]
