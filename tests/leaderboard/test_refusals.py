"""Every way to send something else than an honest run, and the reason each is refused for; everything is replayed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentenvs.leaderboard import unpacking
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.verifying import Terms, verify
from tests.leaderboard import desk
from tests.leaderboard.desk import Desk, Lines


def refused(data: bytes, board: Board, terms: Terms | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        verify(unpacking.read(data), board, terms or Terms())
    return caught.value


def change(where: int, **fields: object) -> Callable[[Lines], None]:
    return lambda lines: lines[where].update(fields)


def lost(lines: Lines) -> None:
    lines[-1]["verdict"] |= {"success": True, "reward": 1.0}
    lines[-1]["return"] = lines[-2]["reward"] = 1.0


def won(lines: Lines) -> bool:
    return bool(lines[-1]["verdict"]["success"])


def test_an_honest_run_is_worth_what_it_says(desks, small):
    found = verify(unpacking.read(desks["expert"].sent()), small)
    assert len(found.episodes) == small.episodes
    assert [one.success for one in found.episodes] == [line["success"] for line in desks["expert"].table]
    assert found.player is None
    assert found.told["agent"] == "somebody's"


@pytest.fixture(scope="module")
def losing(tmp_path_factory) -> Desk:
    folder = desk.played(tmp_path_factory.mktemp("losing") / "run", "noop")
    return Desk.of(folder).told(lambda told: told["agent"].update(name="mine"))


def test_forged_scores(losing, desks, small):
    forged = losing.record(0, lost).tabled(lambda table: table[0].update(success=True, reward=1.0, episode_return=1.0))
    found = refused(forged.sent(), small)
    assert found.reason == "forged-score"
    assert "record 0 says reward = 1.0" in found.what
    tabled = losing.tabled(lambda table: table[3].update(success=True, reward=1.0))
    assert refused(tabled.sent(), small).reason == "forged-score"
    assert refused(tabled.sent(consistent=False), small).reason == "forged-score"
    told = desks["expert"].told(lambda told: told["results"].update(successes=10_000))
    assert refused(told.sent(consistent=False), small).reason == "forged-score"


def test_a_verdict_alone_is_not_believed(losing, small):
    def only(lines: Lines) -> None:
        lines[-1]["verdict"] |= {"success": True, "reward": 1.0}

    forged = losing.record(2, only).tabled(lambda table: table[2].update(success=True, reward=1.0))
    assert refused(forged.sent(), small).reason == "forged-score"


def test_an_episode_that_says_it_failed_earns_nothing(losing, small):
    def failed(lines: Lines) -> None:
        lines[-1] |= {"failed": True, "ending": "aborted"}
        lines[-1]["verdict"] |= {"success": True, "reward": 1.0}

    assert refused(losing.record(0, failed).sent(), small).reason == "edited"


@pytest.mark.parametrize("word", ["yes", 1, [1], {"by": "itself"}])
def test_an_episode_that_half_says_it_failed_is_none(losing, small, word):
    def failed(lines: Lines) -> None:
        lines[-1]["failed"] = word
        lines[-1]["verdict"] |= {"success": True, "reward": 1.0}

    forged = losing.every(failed).tabled(lambda table: [line.update(success=True, reward=1.0) for line in table])
    assert refused(forged.sent(), small).reason == "edited"


def test_edited_records(desks, small):
    edited = desks["expert"].record(1, change(1, action="go to bed 1"))
    assert refused(edited.sent(rechain=False), small).reason == "edited"
    assert refused(edited.sent(), small).reason in ("diverges", "forged-score")
    swapped = desks["expert"].told(lambda told: told.update(merkle_root="0" * 64))
    assert refused(swapped.sent(consistent=False), small).reason == "edited"


@pytest.mark.parametrize(
    "fields",
    [{"observation": "0" * 64}, {"state": "0" * 32}, {"valid": False}, {"effects": [{"kind": "x", "value": 1}]}],
)
def test_records_that_do_not_happen_again(desks, small, fields):
    assert refused(desks["expert"].record(0, change(1, **fields)).sent(), small).reason == "diverges"


def test_truncated_records(desks, small):
    cut = desks["expert"].record(0, lambda lines: lines.pop())
    found = refused(cut.sent(), small)
    assert found.reason == "truncated"
    assert "it has no end" in found.what
    shorter = desks["expert"].record(0, lambda lines: lines.__delitem__(slice(-3, -1)))
    assert refused(shorter.sent(), small).reason in ("diverges", "forged-score", "edited")
    assert refused(desks["expert"].record(0, lambda lines: lines.pop(1)).sent(), small).reason == "edited"


def test_dropped_episodes(desks, small):
    made = desks["expert"]
    lost_one = made.with_records(made.records[:-1], made.table[:-1])
    found = refused(lost_one.sent(), small)
    assert found.reason == "dropped"
    assert f"1 of {small.episodes} episodes are missing" in found.what
    assert refused(made.told(lambda told: told.update(exclusions=["3"])).sent(), small).reason == "dropped"


def test_repeated_and_added_episodes(desks, small):
    made = desks["expert"]
    again = made.with_records([*made.records, made.records[0]], [*made.table, made.table[0]])
    assert refused(again.sent(), small).reason == "repeated"
    instead = made.with_records([*made.records[:-1], made.records[0]], [*made.table[:-1], made.table[0]])
    assert refused(instead.sent(), small).reason == "repeated"


def test_the_better_of_two_plays_of_a_scenario(runs, small, tmp_path):
    twice = Desk.of(desk.played(tmp_path / "twice", "expert", trials=2))
    found = refused(twice.sent(), small)
    assert found.reason == "repeated"
    assert "nobody may choose which" in found.why


def test_episodes_of_other_scenarios(small, tmp_path):
    elsewhere = Desk.of(desk.played(tmp_path / "dev", "expert", split="dev"))
    assert refused(elsewhere.sent(), small).reason == "other-scenarios"
    later = Desk.of(desk.played(tmp_path / "later", "expert", start=3))
    assert refused(later.sent(), small).reason == "other-scenarios"


def test_a_record_that_says_it_is_of_another_scenario(desks, small):
    made = desks["expert"]
    moved = made.record(0, lambda lines: lines[0].update(task={"split": "test", "index": 1}))
    moved = moved.record(1, lambda lines: lines[0].update(task={"split": "test", "index": 0}))
    assert refused(moved.sent(), small).reason == "diverges"


def test_a_run_that_was_not_played_to_its_end(desks, small):
    found = refused(desks["expert"].told(lambda told: told.update(complete=False)).sent(), small)
    assert found.reason == "unfinished"
    assert "--resume" in found.fix


def test_wrong_versions(desks, small):
    made = desks["expert"]
    found = refused(made.told(lambda told: told["envs"][0].update(env_version="9")).sent(), small)
    assert found.reason == "wrong-environment"
    assert "release 9" in found.what
    assert "the board of its own release" in found.fix
    old = made.every(lambda lines: lines[0].update(release="9", since="0.0.7"))
    found = refused(old.sent(), small)
    assert (found.reason, "version 0.0.7" in found.fix) == ("wrong-environment", True)
    assert refused(made.sent(), replace(small, release="9")).reason == "wrong-environment"
    assert "verify there" in refused(made.sent(), replace(small, release="9", since="3.1")).fix
    assert refused(made.sent(), replace(small, env="nobody/None-v0")).reason == "wrong-environment"
    other = made.told(lambda told: told["envs"][0].update(env_id="agentenvs/WebShop-v0"))
    assert refused(other.sent(), small).reason == "wrong-environment"


def test_wrong_scoring(desks, small):
    found = refused(desks["expert"].told(lambda told: told["envs"][0].update(scorer_hash="f" * 64)).sent(), small)
    assert found.reason == "wrong-scoring"
    assert found.why == "a new scoring is a new board"


def test_wrong_options(desks, small, tmp_path):
    listed = Desk.of(desk.played(tmp_path / "listed", "expert", options={"admissible": True}))
    found = refused(listed.sent(), small)
    assert (found.reason, "admissible=True" in found.what) == ("wrong-options", True)
    longer = Desk.of(desk.played(tmp_path / "longer", "expert", options={"limit": 150}))
    assert refused(longer.sent(), small).reason == "wrong-options"


def test_wrong_image(desks, small):
    one, other = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    assert refused(desks["expert"].named(image=one).sent(), replace(small, image=other)).reason == "wrong-image"
    assert refused(desks["expert"].sent(), replace(small, image=other)).reason == "wrong-image"
    assert verify(unpacking.read(desks["expert"].named(image=one).sent()), replace(small, image=one)).episodes


def test_records_of_privileged_players(desks, small):
    assert refused(desks["oracle"].sent(), small).reason == "privileged"
    hidden = desks["oracle"].told(lambda told: told["agent"].update(privileged=False))
    found = refused(hidden.sent(), small)
    assert (found.reason, found.why) == ("privileged", "record 0 says so")


def test_episodes_that_began_in_the_midst_of_others(desks, small):
    forked = desks["expert"].record(0, lambda lines: lines[0].update(forked_from={"digest": "0" * 64, "turn": 3}))
    assert refused(forked.sent(), small).reason == "forked"


def test_redacted_records(desks, small):
    redacted = desks["expert"].record(0, lambda lines: lines[0].update(redacted=True))
    assert refused(redacted.sent(), small).reason == "redacted"


def test_a_record_that_names_a_folder_of_the_verifier(desks, small):
    def set_data(lines: Lines) -> None:
        lines[0]["options"]["data"] = "/etc"

    assert refused(desks["expert"].every(set_data).sent(), small).reason == "wrong-options"
    assert refused(desks["expert"].every(set_data).sent(), small, Terms(anchor=True)).reason == "wrong-options"


def test_a_bundle_without_manifest_or_table(desks, small):
    from agentenvs.leaderboard import bundle as bundles
    from agentenvs.leaderboard.bundle import Submission

    words = Submission(contestant="Ada", agent="a")
    records = [desk.chained(lines) for lines in desks["expert"].records]
    assert refused(bundles.pack(words, records), small).reason == "no-bundle"
    whole = unpacking.read(desks["expert"].sent())
    with pytest.raises(Refused) as caught:
        verify(replace(whole, table=None), small)
    assert caught.value.reason == "no-bundle"


def test_a_built_in_player_is_marked(runs, small):
    found = verify(unpacking.read(Desk.of(runs["expert"]).sent()), small)
    assert found.player == "expert"


def test_abandoned_and_failed_episodes_count_nothing(desks, small, tmp_path):
    def left(lines: Lines) -> None:
        del lines[2:-1]
        lines[-1] |= {"ending": "abandoned", "turns": 1, "return": 0.0}
        lines[-1]["verdict"] |= {"success": False, "reward": 0.0, "facts": {}, "reasons": [], "components": {}}

    forged = refused(desks["expert"].record(0, left).sent(), small)
    assert forged.reason == "forged-score"  # its verdict is not the one the world gives at that turn


def test_a_folder_without_a_record_cannot_be_packed(runs, tmp_path: Path):
    from agentenvs.core.errors import DataError
    from agentenvs.leaderboard.bundle import Submission, pack_folder

    copy = tmp_path / "copy"
    shutil.copytree(runs["expert"], copy)
    (copy / "records" / "000003.jsonl").unlink()
    with pytest.raises(DataError, match="cannot be packed"):
        pack_folder(copy, Submission(contestant="Ada", agent="a"))
