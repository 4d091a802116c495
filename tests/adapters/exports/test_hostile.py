"""Folders that come from anybody: every value of a sidecar, a line, a manifest and a record is replaced by junk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.adapters.exports import atif, inspect, otel, sft
from agentenvs.adapters.exports.reading import Source
from agentenvs.adapters.exports.spelling import spelled
from agentenvs.adapters.exports.telling import Teller
from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.errors import DataError, RecordError
from agentenvs.core.record import parse_records
from tests.adapters.exports.runs import COUNTER, DESK, run, with_model
from tests.harness.endpoint import calls, serve, without_proxies, words

JUNK = (None, True, -1, 2**70, 1e308, "", "\x00\x9b\u202e\ud800", [], {}, [[{}]], {"role": "assistant", "content": 1})
MORE = ('{"a":NaN}', '{"a":1e999}', "[" * 5_000, '"\\ud800"', "{}", "[]", "7", "", "\xff")


@pytest.fixture(params=["model", "Adder", "Clerk", "Faller"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_proxies(monkeypatch)
    if request.param == "model":
        with serve(calls(("add", {"by": 1}), text="one"), words("hm"), calls(("add", {"by": 2}))) as endpoint:
            return with_model(tmp_path / "run", endpoint)
    env = {"Adder": COUNTER, "Clerk": DESK}.get(request.param, "stairs")
    return run(tmp_path / "run", request.param, env, episodes=1)


def _spoilt(form: Any) -> Iterator[tuple[list[Any], Any]]:
    """Yield the form with one value at a time replaced by each piece of junk, or left out."""
    for path in _paths(form, []):
        for junk in JUNK:
            yield [*path, junk], _with(form, path, junk)
        if path and isinstance(path[-1], str):
            yield [*path, "left out"], _without(form, path)


def _paths(form: Any, path: list[Any]) -> Iterator[list[Any]]:
    yield path
    items = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    for name, value in items:
        yield from _paths(value, [*path, name])


def _with(form: Any, path: list[Any], junk: Any) -> Any:
    if not path:
        return junk
    copy = dict(form) if isinstance(form, dict) else list(form)
    copy[path[0]] = _with(form[path[0]], path[1:], junk)
    return copy


def _without(form: Any, path: list[Any]) -> Any:
    copy = dict(form) if isinstance(form, dict) else list(form)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = _without(form[path[0]], path[1:])
    return copy


def _told(source: Source) -> None:
    """Tell the episodes of a run in every format, each of which must be JSON that a strict reader takes."""
    teller = Teller(source, False)
    json.loads(spelled(inspect.header(source, only_won=False)), parse_constant=_refuse)
    for line in source.lines():
        story = teller.tell(line, 1)
        log = inspect.sample(story)
        for form in (sft.row(story), atif.trajectory(story), otel.request(story), log, inspect.summary(log)):
            text = spelled(form)
            json.loads(text, parse_constant=_refuse)
            assert text.isprintable()


def _has_half(form: Any) -> bool:
    """Whether half a surrogate pair is in it, which no table and no record can hold."""
    return "ud800" in json.dumps(form)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _dumped(form: Any) -> bytes:
    return json.dumps(form).encode()


def test_any_sidecar_is_told(folder: Path) -> None:
    path = folder / "sidecars" / "000000.json"
    whole = json.loads(path.read_text())
    source, count = Source(folder), 0
    for place, form in _spoilt(whole):
        path.write_bytes(_dumped(form))
        try:
            _told(source)
        except Exception as error:  # the place is what one wants to know
            raise AssertionError(f"{place!r:.300}") from error
        count += 1
    for text in MORE:
        path.write_bytes(text.encode("latin-1"))
        _told(source)
    assert count > 200


def _listed(folder: Path, line: dict[str, Any]) -> None:
    """Put a line into a run as if its manifest had been made over it."""
    (folder / "episodes.jsonl").write_bytes(_dumped_canonical(line) + b"\n")
    made = json.loads((folder / "manifest.json").read_text())
    made["episode_table_digest"] = digest([line])
    (folder / "manifest.json").write_bytes(canonical_bytes(made) + b"\n")


def _dumped_canonical(form: Any) -> bytes:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def test_any_line_is_told_or_refused(folder: Path) -> None:
    line = json.loads((folder / "episodes.jsonl").read_text())
    refused = 0
    for place, form in _spoilt(line):
        if _has_half(form):
            continue
        _listed(folder, form)
        try:
            _told(Source(folder))
        except DataError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{place!r:.300}") from error
    assert refused > 50


def test_any_manifest_is_told_or_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    refused = 0
    for place, form in _spoilt(json.loads(path.read_text())):
        path.write_bytes(_dumped(form))
        try:
            _told(Source(folder))
        except DataError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{place!r:.300}") from error
    assert refused > 100


def test_any_record_is_told_or_refused(folder: Path) -> None:
    """Chained anew, as somebody would who forges one."""
    path = folder / "records" / "000000.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    line = json.loads((folder / "episodes.jsonl").read_text())
    for place, form in _spoilt([{name: one[name] for name in one if name != "h"} for one in lines]):
        if not isinstance(form, list) or not all(isinstance(one, dict) for one in form) or _has_half(form):
            continue
        data = _chained(form)
        path.write_bytes(data)
        try:
            line["record"] = parse_records(data)[0].digest
        except RecordError:
            continue
        _listed(folder, line)
        try:
            _told(Source(folder))
        except DataError:
            pass
        except Exception as error:
            raise AssertionError(f"{place!r:.300}") from error


def _chained(lines: list[dict[str, Any]]) -> bytes:
    from hashlib import sha256

    found, before = [], ""
    for line in lines:
        before = sha256(before.encode() + canonical_bytes(line)).hexdigest()
        found.append(canonical_bytes({**line, "h": before}) + b"\n")
    return b"".join(found)
