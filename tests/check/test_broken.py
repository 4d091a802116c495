"""Each broken environment is caught by the right check, and by no other but those that follow from it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from agentenvs.harness.check import CHECKS, check_env
from tests.check.broken.sound import Boxes

# What must fail, then what may fail too because it follows: what is not deterministic does not replay, and so on.
BROKEN = {
    "leaves_behind": ("hosting.memory",),
    "takes_down": ("hosting.undone", "views.legal_actions"),
    "bad_example": ("interface.tools",),
    "bad_info": ("views.observation_form",),
    "bad_spec": ("interface.spec",),
    "begins_itself": ("endings.not_begun", "endings.close"),
    "clock": ("elsewhere.wall_clock",),
    "close_twice": ("endings.close",),
    "crashes": ("views.plays_on", "junk.hypothesis"),
    "ends_unjudged": ("endings.ended",),
    "fickle_scenario": (
        "interface.scenarios",
        "branching.snapshot",
        "records.record_bytes",
        "records.replay",
        "records.rescore",
    ),
    "forgetful_snapshot": ("branching.snapshot",),
    "forks_undeclared": ("branching.undeclared",),
    "global_rng": (
        "determinism.global_random",
        "determinism.twin_runs",
        "determinism.reset_forgets",
        "elsewhere.hash_seeds",
        "elsewhere.wall_clock",
        "branching.snapshot",
        "branching.fork",
        "records.record_bytes",
        "records.replay",
    ),
    "illegal_legal": ("views.legal_actions",),
    "junk_is_taken": ("junk.is_told",),
    "junk_moves": ("junk.leaves_the_world",),
    "junk_moves_unseen": ("junk.leaves_the_world",),
    "junk_raises": ("junk.never_raises",),
    "junk_rare": ("junk.hypothesis",),
    "junk_refills": ("junk.spends_only_budgets", "views.budgets"),
    "key_counts_turns": ("branching.state_key",),
    "key_is_none": (
        "branching.state_key",
        "records.replay",
        "records.rescore",
        "rewards.noop",
        "rewards.oracle",
    ),
    "lax_options": ("interface.options",),
    "lax_restore": ("branching.bad_snapshots",),
    "lax_splits": ("interface.addresses",),
    "no_limit": ("endings.limit",),
    "no_verdict": ("endings.finish", "endings.limit", "rewards.noop"),
    "out_of_range": ("rewards.reward_range", "rewards.verdicts", "rewards.oracle"),
    "pays_early": ("rewards.reward_range", "rewards.verdicts"),
    "pays_late": ("rewards.after_the_end",),
    "pays_noop": ("rewards.noop",),
    "pays_otherwise": ("rewards.verdicts", "records.replay"),
    "remembers": ("determinism.reset_forgets",),
    "reseeds": ("determinism.global_random",),
    "reserved_name": ("interface.reserved_names",),
    "second_verdict": ("endings.finish", "rewards.verdicts"),
    "secret_in_admissible": ("secrets.twins",),
    "secret_in_error": ("secrets.canaries",),
    "secret_in_info": ("secrets.twins",),
    "secret_in_log": ("secrets.canaries",),
    "secret_in_observation": ("secrets.twins",),
    "secret_in_password_list": ("secrets.twins", "secrets.canaries"),
    "secret_in_refusal": ("secrets.twins", "secrets.canaries"),
    "secret_in_reply": ("secrets.twins",),
    "secret_in_task": ("secrets.twins", "secrets.canaries"),
    "set_order": ("elsewhere.hash_seeds",),
    "shared_fork": ("branching.fork",),
    "short_split": ("interface.splits",),
    "too_long": ("views.observation_bound", "gymnasium_face.env_checker"),
    "undeclared_budget": ("views.budgets",),
    "unmakeable_player": ("interface.entry_points",),
    "unreplayable": (
        "records.replay",
        "determinism.twin_runs",
        "determinism.global_random",
        "branching.snapshot",
        "branching.fork",
        "records.record_bytes",
    ),
    "unrescorable": ("records.rescore",),
    "unresumable": ("records.resume", "views.legal_actions"),
    "weak_oracle": ("rewards.oracle",),
    "wrong_entry": ("interface.entry_points",),
}

# Told by others as well wherever it fails: two runs that differ give two records.
_FOLLOWS_ONLY = {"determinism.twin_runs", "gymnasium_face.env_checker", "records.record_bytes"}


def test_the_sound_one_passes_in_full():
    report = check_env(Boxes)
    assert report.passed, str(report)
    assert report.counts == {"passed": len(CHECKS), "failed": 0, "skipped": 0}
    assert [use.answer for use in report.uses] == ["yes"] * 5


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_caught_by_the_right_check(name):
    wanted, *follows = BROKEN[name]
    report = check_env(importlib.import_module(f"tests.check.broken.{name}").Broken, quick=True)
    failed = {f"{finding.theme}.{finding.check}" for finding in report.failures}
    assert wanted in failed, str(report)
    assert failed <= {wanted, *follows}, str(report)
    fault = report.finding(wanted).faults[0]
    assert fault.what
    assert fault.fix
    assert report.uses[0].answer == "no" or wanted.partition(".")[0] in (
        "determinism",
        "elsewhere",
        "branching",
        "records",
    )


def test_every_broken_one_is_here_and_every_check_catches_one():
    here = {path.stem for path in (Path(__file__).parent / "broken").glob("*.py")}
    assert here == {*BROKEN, "sound"}
    caught = {names[0] for names in BROKEN.values()} | _FOLLOWS_ONLY
    assert {f"{check.theme}.{check.name}" for check in CHECKS} == caught
