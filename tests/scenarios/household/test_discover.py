"""Data folders: which splits and games are found, in which order, and what happens to what is odd."""

import json
import os
from pathlib import Path

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.household.builtin import builtin
from agentenvs_scenarios.household.discover import find_games
from tests.scenarios.household.gamefile import document, write_game


@pytest.fixture
def data(tmp_path):
    release = tmp_path / "json_2.1.1"
    for split in ("valid_seen", "train"):
        for task in ("b-task", "a-task"):
            for trial in ("trial_2", "trial_1"):
                write_game(release / split / task / trial, builtin(0))
    return release


def names(split):
    return ["/".join(Path(game.path).parts[-3:-1]) for game in split.games]


IN_ORDER = ["a-task/trial_1", "a-task/trial_2", "b-task/trial_1", "b-task/trial_2"]


@pytest.mark.parametrize("root", [".", ".."])
def test_the_release_or_its_parent(data, root):
    splits = find_games(data / root).splits
    assert [split.name for split in splits] == ["alfworld_train", "valid_seen"]
    assert all(names(split) == IN_ORDER for split in splits)


def test_one_split_alone(data):
    (split,) = find_games(data / "valid_seen").splits
    assert (split.name, names(split)) == ("valid_seen", IN_ORDER)


def test_movable_sliced_and_unsolvable_are_left_out(data):
    seen = data / "valid_seen"
    write_game(seen / "pick_and_place_with_movable_recep-X" / "t", builtin(0))
    write_game(seen / "pick_and_place_simple-AppleSliced-Y" / "t", builtin(0))
    write_game(seen / "c-task" / "t", builtin(0), solvable=False)
    unmarked = document(builtin(0))
    del unmarked["solvable"]
    write_game(seen / "d-task" / "t", builtin(0)).write_text(json.dumps(unmarked))
    listing = find_games(data)
    assert names(listing.splits[1]) == IN_ORDER
    assert len(listing.files) == 10


def test_the_mark_may_stand_anywhere(data):
    mark_first = {"solvable": True, **document(builtin(0)), "walkthrough": ["look"]}
    write_game(data / "valid_seen" / "c" / "t", builtin(0)).write_text(json.dumps(mark_first, indent=2))
    assert len(find_games(data).splits[1].games) == 5


def test_the_panel_is_of_names_and_contents_not_of_folders(data, tmp_path):
    first = find_games(data).splits
    assert first[0].panel == first[1].panel
    write_game(data / "train" / "a-task" / "trial_1", builtin(1))
    assert find_games(data).splits[0].panel != first[0].panel
    (data / "valid_seen").rename(tmp_path / "valid_seen")
    assert find_games(tmp_path / "valid_seen").splits[0].panel == first[1].panel


def test_known_files_are_not_read_again(data):
    listing = find_games(data)
    path = next(path for path, game in listing.files.items())
    status = os.stat(path)
    Path(path).write_bytes(b" " * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find_games(data, listing.files).splits == listing.splits
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(DataError, match="it is no JSON"):
        find_games(data, listing.files)


@pytest.mark.parametrize("link", ["loop", "valid_seen/loop", "valid_seen/a-task/loop"])
@pytest.mark.parametrize("end", [".", "..", "loop", "nowhere"])
def test_links_in_a_circle_add_nothing(data, link, end):
    before = find_games(data).splits
    (data / link).symlink_to(end, target_is_directory=True)
    assert find_games(data).splits == before


def test_links_elsewhere_are_followed(data):
    (data / "mine").symlink_to(data / "valid_seen", target_is_directory=True)
    assert names(find_games(data).splits[1]) == IN_ORDER


def test_two_folders_are_never_one_split(data):
    (data / "train").rename(data / "a b")
    write_game(data / "a_b" / "a-task" / "trial_1", builtin(0))
    with pytest.raises(DataError, match="would both be the split a_b"):
        find_games(data)


NO_FOLDERS = (
    lambda p: p / "absent",
    lambda p: p,
    lambda p: Path("~no-such-user/data"),
    lambda p: p / ("long" * 2000),
    lambda p: Path("a\0b"),
)


@pytest.mark.parametrize("make", NO_FOLDERS)
def test_no_games(tmp_path, make):
    with pytest.raises(DataError) as caught:
        find_games(make(tmp_path))
    assert "no games can be read from" in caught.value.what
    assert "give the folder json_2.1.1" in caught.value.fix


def test_the_handed_games(shared_data):
    splits = find_games(shared_data / "household").splits
    assert [(split.name, len(split.games)) for split in splits] == [("valid_seen", 8), ("valid_train", 26)]
