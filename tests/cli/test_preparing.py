"""``prepare``: made once, verified, played with; and what is said where that cannot be."""

from __future__ import annotations

import pytest

WORLD = """
from pathlib import Path

from agentenvs.core import prepared
from agentenvs.core.environment import Environment
from agentenvs.core.prepared import Item
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec
from agentenvs.core.turn import Outcome
from agentenvs.core.verdict import Verdict


class One:
    name, digest = "one", "0" * 64

    def to_json(self):
        return {}


def item(people, split):
    def build(folder, progress):
        progress("writing", 0, people)
        (folder / "names").write_text(" ".join(map(str, range(people))))
        progress("writing", people, people)

    return Item("names", {"people": people, "split": split}, build)


class Town(Environment):
    spec = EnvSpec(
        id="towntests/Town-v0", slug="town", release="1", entry_point="town:Town", title="Town", description="A town.",
        accepts=("text",), splits=(SplitSpec("train", None), SplitSpec("test", 2)), default_split="test",
        budgets={"steps": 3}, options=(OptionSpec("people", "int", 5, "People."), prepared.OPTION),
    )

    @classmethod
    def preparations(cls, options, splits):
        return [item(options["people"], split) for split in splits or ("test",)]

    def scenario(self, split, index):
        return One()

    def _begin(self, scenario):
        wanted = item(self.options["people"], self.ref.split)
        self.world = (prepared.folder(self.spec, wanted, self.options["prepared"]) / "names").read_text()
        return self.world

    def _act(self, action):
        return Outcome((), ended=True)

    def _judge(self, ending):
        return Verdict(1.0, True)

    def _key(self):
        return 1
"""


@pytest.fixture
def town(cli, tmp_path, as_before):
    (tmp_path / "town.py").write_text(WORLD)
    return cli


def test_the_household_needs_no_preparation(cli):
    ran = cli("prepare", "household")
    assert (ran.code, ran.out, ran.err) == (0, "", "agentenvs/Household-v0 needs no preparation.\n")


def test_a_folder_is_prepared_verified_and_played_with(town, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "cache"))
    ran = town("prepare", "town.py", "--out", "made", "-o", "people=7", "--split", "test", "--split", "train")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 2
    assert ran.err.splitlines()[:1] == ["writing: 7/7"]
    assert ran.err.endswith("Play with it: agentenvs play town -o prepared=made, with the same options\n")
    ran = town("prepare", "town.py", "--out", "made", "-o", "people=7", "--verify")
    assert ran.err == "Every byte is what was written.\n"
    ran = town("play", "town.py", "-o", "prepared=made", "-o", "people=7", "--split", "test", stdin="x\n")
    assert "0 1 2 3 4 5 6" in ran.out
    assert not (tmp_path / "cache").exists()


def test_the_cache_is_prepared_where_no_folder_is_named(town, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "cache"))
    ran = town("prepare", "town.py", "--json", "--quiet")
    assert ran.json["items"][0]["bytes"] == 9
    assert ran.json["items"][0]["folder"].startswith(str(tmp_path / "cache"))
    assert ran.err == ""
    assert town("prepare", "town.py", "--verify").code == 0


def test_what_was_changed_is_found(town, tmp_path):
    town("prepare", "town.py", "--out", "made")
    next((tmp_path / "made").glob("*/names")).write_text("0 1 2 3 5")
    ran = town("prepare", "town.py", "--out", "made", "--verify")
    assert ran.code == 2
    assert "is damaged" in ran.err
    assert "Traceback" not in ran.err


def test_other_options_than_were_prepared_are_told(town):
    town("prepare", "town.py", "--out", "made")
    ran = town("play", "town.py", "-o", "prepared=made", "-o", "people=9", stdin="x\n")
    assert ran.code == 2
    assert '{"people":9,"split":"test"}; there are: {"people":5,"split":"test"}' in ran.err


def test_a_folder_that_cannot_be_written_is_a_mistake(town, tmp_path):
    (tmp_path / "file").write_text("")
    ran = town("prepare", "town.py", "--out", "file")
    assert ran.code == 2
    assert "file cannot be written" in ran.err
