"""Where exports are put: whole or not at all, the same each time, and never more of a run in memory than an episode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from agentenvs.adapters.exports import writing
from agentenvs.adapters.exports.spelling import spelled
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import ConfigError, DataError
from tests.adapters.exports.runs import run, stretched

OUTS = {"inspect": "a.eval", "sft": "a.jsonl", "atif": "atif", "otel": "a.otlp.jsonl"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("runs") / "run", "Climber")


def _bytes(out: Path) -> dict[str, bytes]:
    files = sorted(path for path in out.rglob("*") if path.is_file()) if out.is_dir() else [out]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


@pytest.mark.parametrize(("to", "out"), [*OUTS.items(), ("inspect", "a.json"), ("inspect", "logs")])
def test_the_same_run_gives_the_same_bytes(tmp_path: Path, folder: Path, to: Any, out: str) -> None:
    found = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        came = writing.export([folder], to, tmp_path / name / out)
        assert came.episodes == 6
        found.append(_bytes(tmp_path / name / out))
        assert [path.name for path in (tmp_path / name).iterdir()] == [out]
    assert found[0] == found[1]


def test_a_log_is_a_zip_as_inspect_keeps_them(tmp_path: Path, folder: Path) -> None:
    writing.export([folder], "inspect", tmp_path / "a.eval")
    with ZipFile(tmp_path / "a.eval") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        summaries = json.loads(archive.read("summaries.json"))
    samples = [f"samples/few/{index}_epoch_1.json" for index in range(6)]
    assert names == ["_journal/start.json", *samples, "summaries.json", "header.json"]
    assert [one["id"] for one in summaries] == [f"few/{index}" for index in range(6)]


@pytest.mark.parametrize(("to", "out"), [*OUTS.items(), ("inspect", "a.json"), ("inspect", "logs")])
def test_nothing_half_is_left(tmp_path: Path, folder: Path, to: Any, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = writing.Teller.tell

    def fails(self: Any, line: Any, trial: int) -> Any:
        if line["number"] == 4:
            raise OSError("no space left")
        return told(self, line, trial)

    monkeypatch.setattr(writing.Teller, "tell", fails)
    with pytest.raises(OSError, match="no space left"):
        writing.export([folder], to, tmp_path / out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("to", "out"), OUTS.items())
def test_nothing_is_overwritten(tmp_path: Path, folder: Path, to: Any, out: str) -> None:
    (tmp_path / out).write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        writing.export([folder], to, tmp_path / out)
    (tmp_path / f".{out}x.part").write_text("another's")
    with pytest.raises(ConfigError, match="is in the way"):
        writing.export([folder], to, tmp_path / f"{out}x")
    with pytest.raises(ConfigError, match="there is no folder"):
        writing.export([folder], to, tmp_path / "no" / out)
    assert (tmp_path / out).read_text() == "mine"
    assert (tmp_path / f".{out}x.part").read_text() == "another's"


def test_runs_that_cannot_go_together(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigError, match="named twice"):
        writing.export([folder, folder], "sft", tmp_path / "a.jsonl")
    other = run(tmp_path / "other", "Caller", episodes=1)
    with pytest.raises(ConfigError, match="holds one run, not 2"):
        writing.export([folder, other], "inspect", tmp_path / "a.eval")
    with pytest.raises(ConfigError, match="no run is named"):
        writing.export([], "sft", tmp_path / "a.jsonl")
    came = writing.export([folder, other], "inspect", tmp_path / "logs")
    assert (came.files, came.episodes) == (2, 7)
    assert len(list((tmp_path / "logs").glob("*_stairs-few_*.eval"))) == 2


def _line(folder: Path, change: Any) -> None:
    lines = (folder / "episodes.jsonl").read_bytes().splitlines()
    (folder / "episodes.jsonl").write_bytes(b"\n".join(change(lines)) + b"\n")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "there is no manifest"),
        (lambda folder: _line(folder, lambda lines: lines[:-1]), "is no run folder"),
        (lambda folder: _line(folder, lambda lines: [*lines, lines[0]]), "is no run folder"),
        (lambda folder: _line(folder, lambda lines: [*lines, b"{"]), "is no run folder"),
        (lambda folder: _line(folder, lambda lines: [one.replace(b'"reward":0', b'"reward":1') for one in lines]
                              if any(b'"reward":0' in one for one in lines) else lines[1:]), "is no run folder"),
        (lambda folder: _line(folder, lambda lines: [lines[0].replace(b'"number":', b'"number":1' + b"0" * 30),
                                                     *lines[1:]]), "is no run folder"),
        (lambda folder: (folder / "records" / "000003.jsonl").unlink(), "cannot be used"),
        (lambda folder: (folder / "records" / "000003.jsonl").write_text("torn"), "cannot be used"),
        (lambda folder: (folder / "records" / "000003.jsonl").write_bytes(
            (folder / "records" / "000002.jsonl").read_bytes()), "not the one that its run lists"),
        (lambda folder: _pipe(folder / "manifest.json"), "is no run folder"),
        (lambda folder: _pipe(folder / "episodes.jsonl"), "is no run folder"),
        (lambda folder: _pipe(folder / "records" / "000003.jsonl"), "cannot be used"),
        (lambda folder: _pipe(folder / "sidecars" / "000003.json"), None),
        (lambda folder: _manifest(folder, run_id="../../elsewhere"), "is no run folder"),
        (lambda folder: _manifest(folder, created="at no time"), None),
        (lambda folder: _manifest(folder, created="9999-12-31T23:59:59Z"), None),
    ],
)  # fmt: skip
def test_damaged_runs_are_refused_and_leave_nothing(tmp_path: Path, damage: Any, why: str | None) -> None:
    folder = run(tmp_path / "run", "Climber")
    damage(folder)
    for to, out in OUTS.items():
        if why is None:
            writing.export([folder], to, tmp_path / out)  # type: ignore[arg-type]
            continue
        with pytest.raises(DataError, match=why):
            writing.export([folder], to, tmp_path / out)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run", *(OUTS.values() if why is None else ())])


def _manifest(folder: Path, **changed: Any) -> None:
    made = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_bytes(canonical_bytes({**made, **changed}) + b"\n")


def test_a_sidecar_that_is_a_link_is_not_told(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "Climber")
    sidecar = folder / "sidecars" / "000000.json"
    secret = tmp_path / "secret.json"
    secret.write_text(sidecar.read_text().replace('"first_observation": "', '"first_observation": "THE SECRET '))
    assert "THE SECRET" in secret.read_text()
    sidecar.unlink()
    sidecar.symlink_to(secret)
    writing.export([folder], "sft", tmp_path / "out.jsonl")
    assert "THE SECRET" not in (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize("split", ["../../up", "a/b", "...", "", "x" * 300, "sp lit\x00", "é"])
def test_names_of_splits_lead_nowhere(tmp_path: Path, folder: Path, split: str) -> None:
    from agentenvs.adapters.exports.inspect import _plain

    name = _plain(split)
    assert name
    assert not name.startswith(".")
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz.-")
    assert len(name) <= 80


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [1.5, -float("inf")]}, "\ud800\x9b\u202e"])
def test_any_value_is_spelled_as_json_that_acts_on_nothing(value: Any) -> None:
    text = spelled(value)
    json.loads(text)
    assert text.encode().decode().isprintable()
    assert "NaN" not in text
    assert "Infinity" not in text


MEASURED = """
import re, sys
from pathlib import Path
from agentenvs.adapters.exports import writing
import tests.harness.playroom
# Of this program alone: what getrusage says may be its parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
came = writing.export([Path(sys.argv[1])], sys.argv[2], Path(sys.argv[3]))
print(came.episodes, (peak() - before) >> 10)
"""


def _grown(tmp_path: Path, to: str, out: str, count: int) -> int:
    """Return by how many MiB the memory of an export grows, from before it reads the run."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system tells no peak of memory")
    folder = run(tmp_path / "run", "Climber", episodes=1)
    stretched(folder, count)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", MEASURED, str(folder), to, str(tmp_path / out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    told, grown = map(int, done.stdout.split())
    assert told == count
    return grown


@pytest.mark.parametrize("out", ["a.eval", "a.json"])
def test_a_run_is_never_in_memory(tmp_path: Path, out: str) -> None:
    grown = _grown(tmp_path, "inspect", out, 1_500)
    assert grown < 4, grown  # MiB; the document has more than five


@pytest.mark.slow
@pytest.mark.parametrize(("to", "out"), [*OUTS.items(), ("inspect", "a.json")])
def test_ten_thousand_episodes_take_no_more_memory_than_a_few(tmp_path: Path, to: str, out: str) -> None:
    # What grows is the table of contents of a zip, which stands at its end: half a KiB an episode.
    grown = _grown(tmp_path, to, out, 10_000)
    assert grown < 12, grown
