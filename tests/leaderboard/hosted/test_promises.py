"""Which scenarios a ticket gives out was fixed beforehand, and everybody can see so afterwards."""

from __future__ import annotations

import hashlib
import json

import pytest

from agentenvs.cli import settling
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.leaderboard.hosting import epoch as epochs
from agentenvs.leaderboard.hosting.panels import order, place_of

SECRET = "00112233445566778899aabbccddeeff" * 2
WANTED = {
    "board": "spring",
    "env": "agentenvs/Household-v0",
    "split": "sealed",
    "size": 500,
    "options": {"limit": 6},
    "shared": 3,
    "own": 2,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", SECRET)
    return tmp_path / "host"


def test_all_are_given_the_shared_panel_each_in_an_order_of_its_own():
    orders = [order(b"secret", f"tk-{number}", 20, 0, 500) for number in range(5)]
    assert all(sorted(one) == list(range(20)) for one in orders)
    assert len(set(orders)) == 5
    assert order(b"secret", "tk-0", 20, 0, 500) == orders[0]
    assert order(b"other", "tk-0", 20, 0, 500) != orders[0]


def test_a_panel_of_its_own_lies_outside_of_the_shared_one():
    ones, others = (order(b"secret", name, 3, 20, 500) for name in ("tk-1", "tk-2"))
    assert len(set(ones)) == len(ones) == 23
    own = {number for number in ones if number >= 3}
    assert len(own & set(others)) < 10
    places = sorted(place_of(number, ones, 3) for number in ones)
    assert places == [("own", place) for place in range(20)] + [("shared", place) for place in range(3)]


@pytest.mark.parametrize(("shared", "own"), [(0, 0), (-1, 2), (400, 101)])
def test_a_panel_that_cannot_be_is_refused(shared, own):
    with pytest.raises(ConfigError):
        order(b"secret", "tk-1", shared, own, 500)


def test_the_promise_is_a_hash_of_secret_and_salt_and_tells_neither(folder):
    epoch = settling.begin(folder, WANTED)
    salt = bytes.fromhex(json.loads((folder / "epoch.json").read_text())["salt"])
    assert epoch.commitment == hashlib.sha256(bytes.fromhex(SECRET) + salt).hexdigest()
    published = (folder / "published.json").read_text()
    assert epoch.commitment in published
    assert SECRET not in published
    assert salt.hex() not in published
    assert (folder / "epoch.json").stat().st_mode & 0o077 == 0
    assert SECRET not in (folder / "epoch.json").read_text()
    assert settling.begin(folder, WANTED) == epoch


@pytest.mark.parametrize("change", [{"board": "autumn"}, {"shared": 4}, {"env": "agentenvs/WebShop-v0"}])
def test_a_board_stays_what_it_began_as(folder, change):
    settling.begin(folder, WANTED)
    with pytest.raises(ConfigError, match="hosts another board"):
        settling.begin(folder, {**WANTED, **change})


def test_another_secret_is_refused(folder, monkeypatch):
    epoch = settling.begin(folder, WANTED)
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", SECRET[::-1])
    for refused in (lambda: settling.begin(folder, WANTED), epoch.reveal):
        with pytest.raises(ConfigError, match="another secret"):
            refused()


def test_what_is_revealed_is_held_against_what_was_promised(folder):
    epoch = settling.begin(folder, WANTED)
    revealed = epoch.reveal()
    assert epochs.check_reveal(revealed, epoch.published()) == bytes.fromhex(SECRET)
    for change in ({"key": SECRET[::-1]}, {"salt": "00" * 32}):
        with pytest.raises(DataError, match="not what was promised"):
            epochs.check_reveal({**revealed, **change}, epoch.published())
    with pytest.raises(DataError, match="another board") as caught:
        epochs.check_reveal({**revealed, "shared": 2}, epoch.published())
    assert "shared" in caught.value.why
    for nonsense in ({}, {**revealed, "key": "x"}, {**revealed, "salt": 1}):
        with pytest.raises(DataError, match="no form that is known"):
            epochs.check_reveal(nonsense, epoch.published())


def test_a_folder_that_hosts_nothing_says_so(folder):
    with pytest.raises(DataError, match="no board hosted"):
        settling.lines(folder)
    folder.mkdir()
    (folder / "epoch.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        epochs.read(folder)
