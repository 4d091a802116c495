"""Runs the command line in this process, through the same boundary as the console script."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentenvs.cli import console
from agentenvs.cli.main import main
from agentenvs.core import registry
from tests.envs.fixtures import register_fixtures


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[..., Ran]]:
    """Return a function that runs ``agentenvs ARGS…`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.argv", ["agentenvs", *args])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, said.out, said.err)

    yield run
    console.reset()


@pytest.fixture
def fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the fixture environments known for one test."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    register_fixtures()
