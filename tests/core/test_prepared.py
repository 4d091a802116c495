"""What is made once: where it is found, who makes it, and what is said of a folder that is wrong."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentenvs.core import prepared
from agentenvs.core.errors import DataError
from agentenvs.core.prepared import Item, Progress
from tests.core.toy import Toy

SPEC = Toy.spec


def fill(folder: Path, progress: Progress) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "index").write_bytes(b"index")
    (folder / "articles").write_bytes(b"many articles")
    progress("indexing", 1, 1)


def never(folder: Path, progress: Progress) -> None:
    raise AssertionError("it was there")


ITEM = Item("universe", {"people": 500, "seed": 7}, fill)
KEPT = replace(ITEM, build=never)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_made_in_the_cache_once(cache: Path) -> None:
    told: list[object] = []
    found = prepared.folder(SPEC, ITEM, None, lambda *what: told.append(what))
    assert found.parent == cache
    assert told == [("indexing", 1, 1)]
    assert (found / "deep" / "index").read_bytes() == b"index"
    assert prepared.folder(SPEC, KEPT, None) == found
    assert [path.name for path in cache.iterdir()] == [found.name]
    assert prepared.size(found) == 18


def test_its_manifest_says_what_it_is(cache: Path) -> None:
    manifest = json.loads((prepared.folder(SPEC, ITEM, None) / "agentenvs.json").read_bytes())
    assert (manifest["env"], manifest["release"], manifest["key"]) == (SPEC.id, SPEC.release, ITEM.key)
    assert manifest["files"]["deep/index"][0] == 5


@pytest.mark.parametrize(
    ("spec", "item"),
    [
        (SPEC, replace(ITEM, key={"people": 501, "seed": 7})),
        (SPEC, replace(ITEM, name="other")),
        (replace(SPEC, release="4"), ITEM),
        (replace(SPEC, id="toytests/Toy-v1"), ITEM),
    ],
)
def test_all_that_decides_stands_in_its_name(spec: object, item: Item) -> None:
    assert prepared.folder_name(spec, item) != prepared.folder_name(SPEC, ITEM)  # type: ignore[arg-type]


def test_a_prepared_folder_can_be_moved_and_is_only_read(tmp_path: Path, cache: Path) -> None:
    prepared.make(SPEC, ITEM, tmp_path / "out")
    moved = (tmp_path / "out").rename(tmp_path / "mounted")
    for path in (*moved.rglob("*"), moved):
        path.chmod(0o555 if path.is_dir() else 0o444)
    found = prepared.folder(SPEC, KEPT, str(moved))
    assert found.parent == moved
    assert prepared.verify(SPEC, KEPT, moved) == found
    assert prepared.make(SPEC, KEPT, moved) == found
    assert not cache.exists()
    for path in (moved, *moved.rglob("*")):
        path.chmod(0o755)


def test_a_variable_says_where_it_was_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared.make(SPEC, ITEM, tmp_path)
    monkeypatch.setenv("AGENTENVS_PREPARED", str(tmp_path))
    assert prepared.folder(SPEC, KEPT, None) == found


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder") as refused:
        prepared.folder(SPEC, KEPT, str(tmp_path / "none"))
    assert "agentenvs prepare toytoy --out" in refused.value.fix


def test_a_folder_where_nothing_was_prepared(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing was prepared there"):
        prepared.folder(SPEC, KEPT, str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "item", "why"),
    [
        (replace(SPEC, id="toytests/Other-v0", slug="other"), ITEM, "it was prepared for toytests/Other-v0"),
        (replace(SPEC, release="2"), ITEM, "it was prepared by release 2; this is 3"),
        (SPEC, replace(ITEM, key={"people": 9}), 'there are: {"people":9}'),
    ],
)
def test_a_folder_for_something_else_says_for_what(tmp_path: Path, spec: object, item: Item, why: str) -> None:
    prepared.make(spec, item, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(DataError) as refused:
        prepared.folder(SPEC, KEPT, str(tmp_path))
    assert why in refused.value.why
    with pytest.raises(DataError):
        prepared.verify(SPEC, KEPT, tmp_path)


def cut(found: Path) -> None:
    (found / "articles").write_bytes(b"many")


def lose(found: Path) -> None:
    (found / "deep" / "index").unlink()


def forget(found: Path) -> None:
    (found / "agentenvs.json").unlink()


def swap(found: Path) -> None:
    path = found / "agentenvs.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":7', b'"seed":8'))


def garble(found: Path) -> None:
    (found / "agentenvs.json").write_bytes(b"[]")


HARMS = [cut, lose, forget, swap, garble]


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_folder_is_refused_where_it_was_given(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    harm(prepared.make(SPEC, ITEM, tmp_path))
    with pytest.raises(DataError, match="is damaged") as refused:
        prepared.folder(SPEC, KEPT, str(tmp_path))
    assert refused.value.fix.startswith("remove it and run agentenvs prepare toytoy --out ")


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_folder_is_made_again_in_the_cache(cache: Path, harm: Callable[[Path], None]) -> None:
    harm(prepared.folder(SPEC, ITEM, None))
    assert (prepared.folder(SPEC, ITEM, None) / "articles").read_bytes() == b"many articles"


def test_a_changed_byte_is_found_before_a_folder_is_used_first(tmp_path: Path) -> None:
    found = prepared.make(SPEC, ITEM, tmp_path)
    (found / "articles").write_bytes(b"MANY articles")
    for used in (lambda: prepared.folder(SPEC, KEPT, str(tmp_path)), lambda: prepared.verify(SPEC, KEPT, tmp_path)):
        with pytest.raises(DataError, match="is damaged") as refused:
            used()
        assert "articles has another digest" in refused.value.why


def test_preparing_again_mends_a_changed_byte(tmp_path: Path) -> None:
    found = prepared.make(SPEC, ITEM, tmp_path)
    (found / "articles").write_bytes(b"MANY articles")
    assert prepared.make(SPEC, KEPT, tmp_path) == found
    assert prepared.make(SPEC, ITEM, tmp_path, verified=True) == found
    assert (found / "articles").read_bytes() == b"many articles"
    assert prepared.make(SPEC, KEPT, tmp_path, verified=True) == found


def test_a_folder_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.make(SPEC, ITEM, tmp_path)
    found = prepared.folder(SPEC, KEPT, str(tmp_path))
    monkeypatch.setattr(prepared, "verify", never)
    assert prepared.folder(SPEC, KEPT, str(tmp_path)) == found


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    nowhere = tmp_path / ("x" * 300)  # the system refuses to look, as it does where a folder is another user's
    for used in (lambda: prepared.folder(SPEC, KEPT, str(nowhere)), lambda: prepared.demand(SPEC, str(nowhere))):
        with pytest.raises(DataError, match="cannot be read") as refused:
            used()
        assert "chmod" in refused.value.fix


def test_items_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("not an item")
    (tmp_path / f"{SPEC.slug}-universe-1" / "agentenvs.json").mkdir(parents=True)  # root may read all but this
    with pytest.raises(DataError, match=r"agentenvs\.json cannot be read"):
        prepared.demand(SPEC, str(tmp_path))


def test_a_folder_that_is_half_made_is_not_there(tmp_path: Path) -> None:
    found = prepared.make(SPEC, ITEM, tmp_path)
    found.rename(tmp_path / f".{found.name}.7.8.part")
    for used in (lambda: prepared.folder(SPEC, KEPT, str(tmp_path)), lambda: prepared.demand(SPEC, str(tmp_path))):
        with pytest.raises(DataError, match="nothing was prepared there"):
            used()


def test_something_of_this_release_is_demanded(tmp_path: Path) -> None:
    prepared.make(replace(SPEC, release="2"), ITEM, tmp_path)
    with pytest.raises(DataError, match="by release 2; this is 3"):
        prepared.demand(SPEC, str(tmp_path))
    with pytest.raises(DataError, match="there is no folder"):
        prepared.demand(SPEC, str(tmp_path / "none"))
    prepared.demand(SPEC, None)
    prepared.make(SPEC, ITEM, tmp_path)
    prepared.demand(SPEC, str(tmp_path))


def test_a_making_that_fails_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path, progress: Progress) -> None:
        (folder / "half").write_bytes(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        prepared.folder(SPEC, replace(ITEM, build=fail), None)
    assert list(cache.iterdir()) == []
    assert prepared.folder(SPEC, ITEM, None).is_dir()


def test_a_root_that_cannot_be_written_is_a_users_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="cannot be written") as refused:
        prepared.folder(SPEC, KEPT, None)
    assert "-o prepared=DIR" in refused.value.fix
    assert "AGENTENVS_CACHE" in refused.value.fix


def slowly(folder: Path, progress: Progress) -> None:
    with (folder.parent / "made").open("a") as log:
        log.write("x")
    threading.Event().wait(0.3)
    fill(folder, progress)


def ask(root: str) -> None:
    os.environ["AGENTENVS_CACHE"] = root
    if not (prepared.folder(SPEC, replace(ITEM, build=slowly), None) / "articles").is_file():
        raise SystemExit(1)


@pytest.mark.skipif(os.name == "nt", reason="no lock between processes there: two may do the same work")
def test_of_many_that_need_it_one_makes_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=ask, args=(str(tmp_path),)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert (tmp_path / "made").read_text() == "x"


def test_where_no_lock_keeps_them_apart_the_first_one_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def beaten(folder: Path, progress: Progress) -> None:
        fill(folder, progress)
        if folder.name.endswith(".0.part"):
            prepared._fill(SPEC, replace(ITEM, build=fill), cache / prepared.folder_name(SPEC, ITEM), progress)

    monkeypatch.setattr(prepared.shutil, "rmtree", lambda path, ignore_errors=False: None)
    monkeypatch.setattr(prepared.threading, "get_ident", iter(range(9)).__next__)
    found = prepared.folder(SPEC, replace(ITEM, build=beaten), None)
    assert (found / "articles").read_bytes() == b"many articles"


def test_what_is_open_stays_readable_when_it_is_made_again(cache: Path) -> None:
    found = prepared.folder(SPEC, ITEM, None)
    with (found / "articles").open("rb") as file:
        cut(found)
        prepared.folder(SPEC, ITEM, None)
        assert (found / "articles").read_bytes() == b"many articles"
        file.read()


def test_a_leftover_of_a_crash_is_no_obstacle(cache: Path) -> None:
    name = prepared.folder(SPEC, ITEM, None).name
    shutil.move(cache / name, cache / f".{name}.{os.getpid()}.{threading.get_ident()}.part")
    assert prepared.folder(SPEC, ITEM, None).is_dir()


@pytest.mark.parametrize(
    ("variables", "end"),
    [({"AGENTENVS_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c")), ({"XDG_CACHE_HOME": "/x"}, Path("/x/agentenvs"))],
)
def test_variables_say_where_the_cache_lies(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], end: Path
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert prepared.cache_folder() == end


def test_what_shares_nothing_has_nothing_to_prepare() -> None:
    env = Toy()
    assert list(Toy.preparations(env.options, ())) == []
    env.warm()
    assert (env.libraries(), env.library("any")) == ((), None)
