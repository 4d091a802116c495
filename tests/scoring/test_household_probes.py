"""No reward hack earns more than its ceiling; those the original has succeed in ``original``, so the probes bite."""

from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ContractError
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Verdict
from agentenvs.envs.household.env import HouseholdEnv
from agentenvs_scenarios.household.builtin import NAMES
from agentenvs_scoring.probes import Probe, attack, probes_of, solution
from agentenvs_scoring.probes.household import PROBES
from tests.envs.household.rooms import room

BY_NAME = {probe.name: probe for probe in PROBES}
LIMIT = 120  # longer than an episode usually is, so that every probe gets to its end


def make(probe: Probe, **options):
    return registry.make("household", **{"limit": LIMIT, **probe.options, **options})


def test_names_and_descriptions_are_unique():
    assert len(BY_NAME) == len({probe.description for probe in PROBES}) == len(PROBES)
    assert probes_of("household") == PROBES
    assert probes_of("nowhere") == ()


@pytest.mark.parametrize("text", ["0.3", "0.4"])
@pytest.mark.parametrize("profile", ["compat", "native"])
@pytest.mark.parametrize("probe", PROBES, ids=list(BY_NAME))
def test_builtin_rooms_hold(probe, profile, text):
    env = make(probe, profile=profile, text=text)
    for index in range(len(NAMES)):
        report = attack(env, probe, TaskRef("builtin", index))
        assert report.held, (NAMES[index], report)


@pytest.mark.parametrize("probe", [probe for probe in PROBES if not probe.open_in], ids=lambda probe: probe.name)
def test_original_keeps_only_the_holes_it_declares(probe):
    env = make(probe, profile="original")
    for index in range(len(NAMES)):
        report = attack(env, probe, TaskRef("builtin", index))
        assert report.held, (NAMES[index], report)


@pytest.mark.parametrize("probe", PROBES, ids=list(BY_NAME))
def test_handed_games_hold(probe, shared_data: Path):
    env = make(probe, data=str(shared_data / "household"))
    games = [TaskRef(name, index) for name, split in env.splits().items() if split.panel for index in range(split.size)]
    assert len(games) == 34
    for ref in games:
        report = attack(env, probe, ref)
        assert report.held, (ref, report)


@pytest.mark.parametrize("probe", [probe for probe in PROBES if probe.open_in], ids=lambda probe: probe.name)
def test_holes_of_the_original_are_found_in_handed_games(probe, shared_data: Path):
    env = make(probe, profile="original", data=str(shared_data / "household"))
    games = [TaskRef(name, index) for name, split in env.splits().items() if split.panel for index in range(split.size)]
    fallen = [ref for ref in games if not attack(env, probe, ref).held]
    assert fallen


class Planted(HouseholdEnv):
    """Plays the tests' room, in which a mug stands in two receptacles, one of them the target."""

    def scenario(self, split, index):
        return room()


def test_phantom_placement_wins_in_the_hand_in_original_alone():
    probe = BY_NAME["phantom-placement"]
    earned = {
        profile: attack(Planted(profile=profile), probe, TaskRef("builtin", 0)).earned
        for profile in ("original", "compat", "native")
    }
    assert earned == {"original": 1.0, "compat": 0.0, "native": 0.0}


def test_slicing_tells_what_the_fridge_hides_in_original_alone():
    probe = BY_NAME["slice-leak"]
    leaks = {
        (profile, listed): attack(Planted(profile=profile, admissible=listed), probe, TaskRef("builtin", 0)).leaks
        for profile in ("original", "compat", "native")
        for listed in (True, False)
    }
    hidden = {"apple 2", "bread 1", "egg 1", "lettuce 1"}
    assert set(leaks.pop(("original", True))) == set(leaks.pop(("original", False))) == hidden
    assert set(leaks.values()) == {()}


class Counting(HouseholdEnv):
    """Notes what is said."""

    def reset(self, *args, **kwargs):
        self.said = []
        return super().reset(*args, **kwargs)

    def fork(self):
        twin = super().fork()
        twin.said = []
        return twin

    def step(self, action, **kwargs):
        self.said.append(action)
        return super().step(action, **kwargs)


class CountingPlanted(Planted, Counting):
    pass


@pytest.mark.parametrize("probe", PROBES, ids=list(BY_NAME))
def test_a_probe_has_something_to_try_somewhere(probe):
    said = []
    for kind in (Counting, CountingPlanted):
        env = kind(**probe.options)
        for index in range(len(NAMES)):
            attack(env, probe, TaskRef("builtin", index))
            said += [action for action in env.said if action != "look"]
    assert bool(said) == (probe.name != "limit-is-success")


def test_winning_twice_pays_once():
    probe = BY_NAME["win-undo-win"]
    for index in range(len(NAMES)):
        report = attack(make(probe), probe, TaskRef("builtin", index))
        assert report.earned == 1.0


class PaysAtTheLimit(HouseholdEnv):
    def _judge(self, ending):
        verdict = super()._judge(ending)
        return Verdict(1.0, True) if ending == "truncated" else verdict


class TakesAnyCase(HouseholdEnv):
    def _act(self, action):
        return super()._act(action.lower() if isinstance(action, str) else action)


class StripsTags(HouseholdEnv):
    def _act(self, action):
        if isinstance(action, str):
            action = action.rpartition("<action>")[2].partition("</action>")[0]
        return super()._act(action)


class Forgets(HouseholdEnv):
    def _refuse_step(self):
        return None


@pytest.mark.parametrize(
    ("hole", "name"),
    [
        (PaysAtTheLimit, "limit-is-success"),
        (PaysAtTheLimit, "stalling"),
        (TakesAnyCase, "unicode-aliases"),
        (StripsTags, "format-spam"),
        (Forgets, "win-undo-win"),
    ],
)
def test_a_planted_hole_is_found(hole, name):
    probe = BY_NAME[name]
    assert any(not attack(hole(**probe.options), probe, TaskRef("builtin", index)).held for index in range(len(NAMES)))


def test_an_episode_without_an_end_is_called_off():
    with pytest.raises(ContractError, match="does not end"):
        attack(make(BY_NAME["stalling"], limit=0), BY_NAME["stalling"], TaskRef("builtin", 0))


def test_solution_is_the_oracles():
    env = registry.make("household")
    env.reset(TaskRef("builtin", 0))
    actions = solution(env)
    assert (env.turn, env.ending) == (0, None)
    results = [env.step(action) for action in actions]
    assert results[-1].reward == 1.0
