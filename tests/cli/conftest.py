"""Runs the command line in this process, through the same boundary as the console script."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from agentenvs.cli import console
from agentenvs.cli.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> Callable[..., Ran]:
    """Return a function that runs ``agentenvs ARGS…`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)

    def run(*args: str, stdin: str = "") -> Ran:
        import io

        monkeypatch.setattr("sys.argv", ["agentenvs", *args])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        finally:
            console.configure(quiet=False, no_color=False)
        said = capsys.readouterr()
        return Ran(code or 0, said.out, said.err)

    return run
