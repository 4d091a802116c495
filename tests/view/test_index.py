"""The index follows its table: grown, torn, replaced, shared, damaged, or with no place to be."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from agentenvs.view import index as indexing
from agentenvs.view.index import Index, place_of


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "prior", tmp_path / "run")
    return tmp_path / "run" / "episodes.jsonl"


def numbers(index: Index) -> list[int]:
    index.update()
    return [row[0] for row in index.ask("SELECT number FROM episodes ORDER BY number")]


def test_it_grows_with_the_table_and_waits_for_the_rest_of_a_line(table: Path) -> None:
    lines = table.read_bytes().splitlines(keepends=True)
    index = Index(table.parent)
    table.write_bytes(b"")
    assert numbers(index) == []
    with table.open("ab") as file:
        for number, line in enumerate(lines[:12]):
            file.write(line[:30])
            file.flush()
            assert numbers(index) == list(range(number))
            assert index.torn == 30
            file.write(line[30:])
            file.flush()
            assert numbers(index) == list(range(number + 1))
    assert index.torn == 0
    assert index.damage() == []
    assert index.fresh
    index.close()


def test_a_replaced_table_is_read_anew(table: Path) -> None:
    index = Index(table.parent)
    assert len(numbers(index)) == 60
    lines = table.read_bytes().splitlines(keepends=True)
    fresh = table.with_name("fresh")
    fresh.write_bytes(b"".join(reversed(lines[10:])))
    os.replace(fresh, table)
    assert numbers(index) == list(range(10, 60))
    form = json.loads(lines[20])
    before = index.ask("SELECT success FROM episodes WHERE number = 20")[0][0]
    form["success"] = not form["success"]
    changed = table.read_bytes().replace(lines[20], json.dumps(form).encode().ljust(len(lines[20]) - 1) + b"\n")
    table.write_bytes(changed)
    assert numbers(index) == list(range(10, 60))
    assert index.ask("SELECT success FROM episodes WHERE number = 20")[0][0] != before
    index.close()


def test_it_is_kept_and_read_by_several_at_once(table: Path) -> None:
    first = Index(table.parent)
    assert len(numbers(first)) == 60
    others = [Index(table.parent) for _ in range(4)]
    assert all(other.fresh for other in others)
    with table.open("ab") as file:
        file.write(table.read_bytes().splitlines(keepends=True)[0].replace(b'"number":0', b'"number":60'))
    threads = [threading.Thread(target=other.update) for other in (first, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(numbers(one)) for one in (first, *others)] == [61] * 5
    assert first.damage() == []
    for one in (first, *others):
        one.close()


def test_a_damaged_index_is_made_again(table: Path) -> None:
    index = Index(table.parent)
    numbers(index)
    index.close()
    place = place_of(table.parent)
    assert place is not None
    place.write_bytes(b"no database" * 1000)
    again = Index(table.parent)
    assert len(numbers(again)) == 60
    again.close()


def test_without_a_cache_it_lives_in_memory(table: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    index = Index(table.parent, tmp_path / "file" / "index.db")
    assert len(numbers(index)) == 60
    index.close()


def test_a_cache_that_takes_no_more_is_left_for_memory(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = indexing._connected

    def full(name: str) -> sqlite3.Connection:
        base = made(name)
        if not name.startswith("file:"):
            base.execute("PRAGMA max_page_count=14")
        return base

    monkeypatch.setattr(indexing, "_connected", full)
    form = json.loads(table.read_bytes().splitlines()[0])
    table.write_text("".join(json.dumps({**form, "number": number}) + "\n" for number in range(400)))
    index = Index(table.parent)
    assert len(numbers(index)) == 400
    assert index.count() == 400
    assert index.fresh
    index.close()


def test_a_table_that_cannot_be_read_says_so(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *args: object) -> object:
        raise PermissionError(13, "Permission denied")

    index = Index(table.parent)
    with monkeypatch.context() as patch:
        patch.setattr(type(table), "open", refused)
        assert numbers(index) == []
        assert "Permission denied" in index.damage()[0].why
    os.utime(table, ns=(1, 1))
    assert len(numbers(index)) == 60
    assert index.damage() == []
    index.close()


def test_a_table_of_garbage_ends(table: Path) -> None:
    table.write_bytes(b"\x00" * 7_000_000)
    index = Index(table.parent)
    assert numbers(index) == []
    index.close()


def test_what_is_remembered_is_forgotten_when_somebody_else_has_read_more(table: Path) -> None:
    first, second = Index(table.parent), Index(table.parent)
    assert len(numbers(first)) == 60
    assert first.remembered("count", first.count) == 60
    with table.open("ab") as file:
        file.write(table.read_bytes().splitlines(keepends=True)[0].replace(b'"number":0', b'"number":60'))
    second.update()
    assert first.remembered("count", first.count) == 61
    first.close()
    second.close()
