from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from agentenvs.core.canon import canonical, digest
from agentenvs.core.errors import ConfigError, DataError, MissingExtraError
from agentenvs.harness.run import RunConfig, RunResult, evaluate
from agentenvs.harness.runs import asking, exporting, indexing, opening, scanning, schema
from agentenvs.harness.runs.asking import Filter
from tests import postgres
from tests.harness import playroom

HERE = playroom.__name__


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Cluster]:
    with postgres.running() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    url = str(tmp_path / "runs.db")
    if request.param == "postgresql":
        made: postgres.Cluster = request.getfixturevalue("cluster")
        url = made.create(f"r{digest(request.node.name)[:12]}")
    with opening.opened(url) as found:
        yield found


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[sa.Engine]:
    with opening.opened(str(tmp_path / "runs.db")) as found:
        yield found


def _played(folder: Path, policy: str = "Climber", **more: Any) -> RunResult:
    name = policy if policy.islower() else f"{HERE}:{policy}"
    return evaluate(RunConfig(**{"env": "stairs", "policy": name, "out": folder, **more}))


def _everything(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    with engine.connect() as connection:
        return {
            name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key.columns))]
            for name, table in schema.metadata.tables.items()
        }


def _edit(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the table of a run, and have its manifest agree."""
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    change(rows)
    (folder / "episodes.jsonl").write_text("".join(canonical(row) + "\n" for row in rows))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["episode_table_digest"] = digest(sorted(rows, key=lambda row: row["number"]))
    (folder / "manifest.json").write_text(canonical(manifest) + "\n")


def test_the_schema_is_what_the_migrations_make(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []


def test_a_run_comes_into_the_index_once(engine: sa.Engine, tmp_path: Path) -> None:
    result = _played(tmp_path / "run", "Talker", episodes=4)
    first = indexing.index(engine, tmp_path / "run", ["paper", "stairs"])
    assert (first.run, first.what, first.episodes, first.damage) == (result.manifest.run_id, "new", 4, ())
    before = _everything(engine)
    assert indexing.index(engine, tmp_path / "run", ["paper"]).what == "unchanged"
    assert _everything(engine) == before
    (run,) = asking.listed(engine)
    assert (run["env"], run["split"], run["state"], run["policy"]) == (
        "tests/Stairs-v0", "few", "complete", f"{HERE}:Talker",
    )  # fmt: skip
    assert (run["episodes"], run["successes"], run["tokens_in"], run["tokens_out"]) == (4, 0, 28, None)
    assert run["tags"] == ["paper", "stairs"]
    (batch,) = asking.rows(engine)
    assert [row["index"] for row in batch] == [0, 1, 2, 3]
    assert json.loads(batch[0]["metrics"])["said"] == "much"
    assert batch[0]["kind"] == "short"


def test_a_run_that_has_grown_is_brought_up_to_date(engine: sa.Engine, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    _played(folder)
    whole = {name: (folder / name).read_bytes() for name in ("episodes.jsonl", "manifest.json")}
    (folder / "manifest.json").unlink()
    lines = whole["episodes.jsonl"].splitlines(keepends=True)
    (folder / "episodes.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:30])
    begun = indexing.index(engine, folder)
    assert (begun.what, begun.episodes, begun.damage) == ("new", 2, ())
    assert asking.listed(engine, Filter(state="open"))[0]["planned"] == 6
    (folder / "episodes.jsonl").write_bytes(b"".join(lines[:4]))
    assert indexing.index(engine, folder).what == "grown"
    for name, data in whole.items():
        (folder / name).write_bytes(data)
    ended = indexing.index(engine, folder)
    assert (ended.what, ended.episodes, ended.damage) == ("grown", 6, ())
    assert asking.listed(engine)[0]["state"] == "complete"
    with opening.opened(str(tmp_path / "other.db")) as other:
        indexing.index(other, folder)
        assert list(asking.rows(other)) == list(asking.rows(engine))


def test_a_run_whose_episodes_were_played_again_is_read_anew(lite: sa.Engine, tmp_path: Path) -> None:
    _played(tmp_path / "run")
    indexing.index(lite, tmp_path / "run")
    _edit(tmp_path / "run", lambda rows: rows[0].update(success=False, attempt=2))
    assert indexing.index(lite, tmp_path / "run").what == "changed"
    assert asking.listed(lite)[0]["successes"] == 5


def test_a_folder_that_was_moved_is_the_same_run(engine: sa.Engine, tmp_path: Path) -> None:
    _played(tmp_path / "run")
    indexing.index(engine, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert indexing.index(engine, tmp_path / "copy").what == "unchanged"
    assert asking.listed(engine)[0]["folder"] == str(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "there")
    assert indexing.index(engine, tmp_path / "there").what == "moved"
    assert [run["folder"] for run in asking.listed(engine)] == [str(tmp_path / "there")]


def test_two_folders_that_claim_one_name_and_differ_are_a_conflict(lite: sa.Engine, tmp_path: Path) -> None:
    _played(tmp_path / "run")
    indexing.index(lite, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    _edit(tmp_path / "copy", lambda rows: rows[0].update(reward=9.0))
    before = _everything(lite)
    with pytest.raises(DataError, match="claim to be the same run, and differ"):
        indexing.index(lite, tmp_path / "copy")
    assert _everything(lite) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('{"number": 3, ', "3: "),
        ("[]", "3: "),
        ("\udcff", "3: "),
        ({"number": -1}, "3: number is -1"),
        ({"number": 0}, "3: episode 0 is listed twice"),
        ({"number": True}, "3: number is True"),
        ({"index": 2**70}, "3: index is"),
        ({"success": 1}, "3: success is 1"),
        ({"reward": "much"}, "3: 'much' is no number"),
        ({"ending": "x" * 99}, "3: a text of 99 characters"),
        ({"record": None}, "3: None should be text"),
        ({"usage": []}, "3: "),
        ({"usage": {"tokens_in": -5}}, "3: -5 is no count"),
        ({"attempt": "two"}, "3: attempt is 'two'"),
        ({"undone": 2**80}, "3: undone is"),
    ],
)
def test_a_damaged_line_is_named_and_the_rest_is_read(lite: sa.Engine, tmp_path: Path, change: Any, said: str) -> None:
    _played(tmp_path / "run")
    table = tmp_path / "run" / "episodes.jsonl"
    lines = table.read_text().splitlines()
    lines[2] = change if isinstance(change, str) else json.dumps({**json.loads(lines[2]), **change})
    table.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    found = indexing.index(lite, tmp_path / "run")
    assert found.episodes == 5
    assert [place.line for place in found.damage] == [0, 3]
    assert f"{found.damage[1].line}: {found.damage[1].why}".startswith(said)
    assert "not what the manifest was made over" in found.damage[0].why
    assert asking.listed(lite)[0]["damaged"] == 2
    assert indexing.index(lite, tmp_path / "run").damage == found.damage


def test_a_table_that_was_edited_or_cut_short_is_damage(lite: sa.Engine, tmp_path: Path) -> None:
    _played(tmp_path / "run")
    table = tmp_path / "run" / "episodes.jsonl"
    table.write_text(table.read_text().replace('"turns":1', '"turns":2', 1))
    assert [place.why for place in indexing.index(lite, tmp_path / "run").damage] == [
        "it is not what the manifest was made over"
    ]
    table.write_bytes(table.read_bytes()[:-20])
    assert [place.why for place in indexing.index(lite, tmp_path / "run").damage][1:] == ["half a line"]


def test_half_a_line_that_was_made_whole_is_no_damage_any_more(lite: sa.Engine, tmp_path: Path) -> None:
    _played(tmp_path / "run")
    table = tmp_path / "run" / "episodes.jsonl"
    whole = table.read_bytes()
    table.write_bytes(whole[:-9])
    assert [place.line for place in indexing.index(lite, tmp_path / "run").damage] == [0, 6]
    table.write_bytes(whole + b"half")
    assert [place.line for place in indexing.index(lite, tmp_path / "run").damage] == [7]
    table.write_bytes(whole)
    assert indexing.index(lite, tmp_path / "run").damage == ()


def test_hostile_words_are_kept_as_words(engine: sa.Engine, tmp_path: Path) -> None:
    nasty = "'; DROP TABLE runs; --\x00\x1b[31m<script>%s\u202e"

    def spoil(rows: list[dict[str, Any]]) -> None:
        rows[0].update(scenario=nasty, kind=nasty, error=nasty, metrics={nasty: nasty})

    _played(tmp_path / "run")
    _edit(tmp_path / "run", spoil)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["agent"]["name"] = nasty
    manifest["envs"][0]["env_id"] = "a/%_\\" + nasty
    (tmp_path / "run" / "manifest.json").write_text(canonical(manifest) + "\n")
    assert indexing.index(engine, tmp_path / "run", ["100%_\\"]).damage == ()
    kept = nasty.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert asking.listed(engine, Filter(policy=nasty))[0]["policy"] == kept
    assert asking.listed(engine, Filter(tag="100%_\\"))[0]["env"].endswith(kept)
    assert asking.listed(engine, Filter(env="%")) == []
    assert asking.one(engine, str(tmp_path / "run"))["by_kind"][0]["kind"] in (kept, "short", "<long>")
    assert next(iter(asking.rows(engine)))[0]["scenario"] == kept


@pytest.mark.parametrize("name", ["run_id", "created"])
def test_a_manifest_that_is_none_is_refused(lite: sa.Engine, tmp_path: Path, name: str) -> None:
    _played(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest[name] = "x" * 50
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError):
        indexing.index(lite, tmp_path / "run")
    assert asking.listed(lite) == []


def test_folders_are_found_below_others(tmp_path: Path) -> None:
    for name in ("b/two", "a/one", "a/three"):
        _played(tmp_path / "all" / name, episodes=1)
    (tmp_path / "all" / "loop").symlink_to(tmp_path / "all")
    found = [path.relative_to(tmp_path).as_posix() for path in scanning.find(tmp_path / "all")]
    assert found == ["all/a/one", "all/a/three", "all/b/two"]
    with pytest.raises(DataError, match="there is no folder"):
        list(scanning.find(tmp_path / "none"))


def test_runs_are_asked_for_by_what_they_are(engine: sa.Engine, tmp_path: Path) -> None:
    for place, (policy, split, tag) in enumerate(
        [("noop", "few", "a"), ("Climber", "few", "b"), ("Climber", "train", "b")]
    ):
        _played(tmp_path / str(place), policy, split=split, episodes=2)
        indexing.index(engine, tmp_path / str(place), [tag])
    ids = {place: asking.named(engine, str(tmp_path / str(place))) for place in range(3)}

    def asked(**wanted: Any) -> set[int]:
        found = {run["id"] for run in asking.listed(engine, Filter(**wanted))}
        return {place for place, name in ids.items() if name in found}

    assert asked(env="stairs") == asked(env="tests/Stairs-v0") == asked(since="1h") == {0, 1, 2}
    assert asked(env="stair") == asked(since="2999-01-01") == asked(state="ended") == asked(model="m") == set()
    assert (asked(policy="noop"), asked(split="train"), asked(tag="b")) == ({0}, {2}, {1, 2})
    assert asked(runs=(ids[1],), tag="b") == {1}
    assert asking.named(engine, ids[0][:-2]) == ids[0]
    indexing.forget(engine, ids[0])
    assert asked() == {1, 2}
    assert {row["run_id"] for batch in asking.rows(engine) for row in batch} == {ids[1], ids[2]}


@pytest.mark.parametrize("wanted", [{"since": "soon"}, {"since": "999999999999d"}, {"state": "odd"}])
def test_a_filter_that_makes_no_sense(lite: sa.Engine, wanted: Any) -> None:
    with pytest.raises(ConfigError):
        asking.listed(lite, Filter(**wanted))


@pytest.mark.parametrize("name", ["", "abc", "nothing-like-it", "%", "\udcff\0"])
def test_a_name_of_no_run(lite: sa.Engine, name: str) -> None:
    with pytest.raises(DataError, match="no run in the index"):
        asking.named(lite, name)


@pytest.mark.parametrize("tag", ["", " ", "x" * 81, "a\nb"])
def test_a_tag_that_is_none(lite: sa.Engine, tmp_path: Path, tag: str) -> None:
    with pytest.raises(ConfigError, match="is no tag"):
        indexing.index(lite, tmp_path, [tag])


def test_an_export_holds_every_row(lite: sa.Engine, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    _played(tmp_path / "run", "Talker")
    indexing.index(lite, tmp_path / "run")
    assert exporting.to_csv(asking.rows(lite), tmp_path / "all.csv") == 6
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert lines[0].split(",") == list(exporting.NAMES)
    assert len(lines) == 7
    assert exporting.to_parquet(asking.rows(lite), tmp_path / "all.parquet") == 6
    table = parquet.read_table(tmp_path / "all.parquet")
    (batch,) = asking.rows(lite)
    assert table.to_pylist() == batch
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_missing_pyarrow_names_the_extra(lite: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"agentenvs\[parquet\]"):
        exporting.to_parquet(asking.rows(lite), tmp_path / "x.parquet")


def test_what_is_no_index_is_left_alone(tmp_path: Path) -> None:
    other = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with other.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE precious (a)")
    (tmp_path / "text.db").write_text("no database at all, but long enough to be taken for one" * 30)
    for name, said in (
        ("other.db", "is no index of runs"),
        ("text.db", "cannot be used"),
    ):
        with pytest.raises(DataError, match=said), opening.opened(str(tmp_path / name)):
            pass
    for url in ("mysql://a/b", "sqlite:///:memory:", "what://"):
        with pytest.raises(ConfigError), opening.opened(url):
            pass


def test_an_index_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with opening.opened(str(tmp_path / "r.db")) as engine, engine.begin() as connection:
        connection.exec_driver_sql("UPDATE runs_version SET version_num = '9999'")
    with pytest.raises(DataError, match="of a later version"), opening.opened(str(tmp_path / "r.db")):
        pass
