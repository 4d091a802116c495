"""Listings are kept on disk and in memory, and nothing that goes wrong there matters."""

import sys
from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import DataError
from agentenvs.core.task import TaskRef
from agentenvs.envs.household import data
from agentenvs_scenarios.household.builtin import builtin
from tests.envs.household.rooms import room
from tests.scenarios.household.gamefile import write_game


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data._list_games.cache_clear()
    for index in range(3):
        write_game(tmp_path / "json_2.1.1" / "valid_seen" / "task" / f"trial_{index}", builtin(index))
    return tmp_path / "json_2.1.1"


def kept(folder):
    (path,) = (folder.parent / "cache" / "agentenvs").iterdir()
    return path


def test_games_by_split(folder):
    games = data.list_games(folder)["valid_seen"].games
    scenarios = [data.load_scenario(game) for game in games]
    assert [scenario.name for scenario in scenarios] == ["task/trial_0", "task/trial_1", "task/trial_2"]
    assert [scenario.goal for scenario in scenarios] == [builtin(index).goal for index in range(3)]
    assert data.load_scenario(games[0]) is scenarios[0]


def test_a_listing_is_kept_for_the_next_process(folder, monkeypatch):
    before = data.list_games(folder)
    assert data.list_games(folder) is before
    data._list_games.cache_clear()
    monkeypatch.setattr("agentenvs_scenarios.household.discover.read_bytes", pytest.fail)
    assert data.list_games(folder) == before


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 9999,
        b'{"format":99,"files":[]}',
        b'{"format":1,"files":[["x",1]]}',
        b'{"format":1,"files":[["x","1",2,"3",true]]}',
        b'{"format":1,"files":[["x",1,2,"\\ud800",true]]}',
    ],
)
def test_a_torn_listing_is_made_anew(folder, junk):
    before = data.list_games(folder)
    good = kept(folder).read_bytes()
    kept(folder).write_bytes(junk)
    data._list_games.cache_clear()
    assert data.list_games(folder) == before
    assert kept(folder).read_bytes() == good


def test_a_cache_that_cannot_be_written_is_no_error(folder, monkeypatch):
    (folder.parent / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "file"))
    assert data.list_games(folder)


def test_a_file_that_changed_since_is_refused(folder):
    game = data.list_games(folder)["valid_seen"].games[0]
    write_game(Path(game.path).parent, builtin(9))
    data._scenarios._values.clear()
    with pytest.raises(DataError, match="has changed"):
        data.load_scenario(game)


def test_a_folder_asked_for_that_is_of_no_use_is_an_error():
    with pytest.raises(DataError, match="no games can be read"):
        registry.make("household", data="/nowhere")


def test_a_variable_that_points_nowhere_keeps_nobody_from_the_rooms(monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", "/nowhere")
    env = registry.make("household")
    assert env.reset().text
    with pytest.raises(DataError, match="no games can be read from /nowhere"):
        env.reset(TaskRef("valid_seen", 0))


def test_a_goal_that_holds_at_the_start_is_no_task():
    won = room(("pick_and_place_simple", "apple", "fridge"))
    for profile in ("compat", "native"):
        with pytest.raises(DataError, match="doing nothing would win it"):
            data.layout_of(won, profile, None, False)
    assert data.layout_of(won, "original", None, False)


def test_two_games_with_equal_files_keep_their_names(folder):
    for trial in ("x", "y"):
        write_game(folder / "twins" / "task" / trial, builtin(4))
    games = data.list_games(folder)["twins"].games
    assert [data.load_scenario(game).name for game in games] == ["task/x", "task/y"]


def test_where_the_data_is(monkeypatch):
    assert data.data_folder(None) is None
    monkeypatch.setenv("ALFWORLD_DATA", "there")
    assert data.data_folder(None) == Path("there")
    assert data.data_folder("here") == Path("here")


@pytest.mark.parametrize(
    ("platform", "end"),
    [
        ("linux", (".cache", "agentenvs")),
        ("darwin", ("Library", "Caches", "agentenvs")),
        ("win32", ("AppData", "Local", "agentenvs", "cache")),
    ],
)
def test_caches_lie_where_the_platform_keeps_them(monkeypatch, platform, end):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    assert data.cache_folder().parts[-len(end) :] == end


def test_no_home_no_cache(folder, monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert data.list_games(folder)


def test_only_the_last_values_are_kept():
    made = []
    recent = data.Recent(2)
    for key in "abaca":
        recent.get(key, lambda key=key: made.append(key) or key)
    assert made == ["a", "b", "c"]
    recent.get("b", lambda: made.append("b") or "b")
    assert made[-1] == "b"


def test_layouts_are_shared_and_apart_by_option():
    scenario = builtin(0)
    layout = data.layout_of(scenario, "compat", None, False)
    assert data.layout_of(scenario, "compat", None, False) is layout
    assert data.layout_of(scenario, "native", None, False) is not layout
    assert data.layout_of(scenario, "compat", "0.3", True).text == "0.3"
