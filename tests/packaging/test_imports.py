"""The public names resolve, and ``import agentenvs`` is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentenvs

HEAVY = (
    "docker",
    "fastapi",
    "gymnasium",
    "httpx",
    "jinja2",
    "numpy",
    "rich",
    "sqlalchemy",
    "typer",
    "uvicorn",
    "websockets",
)


def test_public_names_are_sorted_and_resolve() -> None:
    assert list(agentenvs.__all__) == sorted(agentenvs.__all__)
    assert [name for name in agentenvs.__all__ if not hasattr(agentenvs, name)] == []
    assert set(agentenvs.__all__) <= set(dir(agentenvs))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = agentenvs.nothing


@pytest.mark.parametrize("statement", ["import agentenvs", "import agentenvs; agentenvs.list_envs()"])
def test_importing_and_listing_load_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted(sys.modules.keys() & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
