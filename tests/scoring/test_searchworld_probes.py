"""No shortcut earns more than its ceiling, in a single episode or in the mean of a split."""

import pytest

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs_scenarios.searchworld.ladder import DECK, catalogue
from agentenvs_scoring.probes import attack, probes_of
from agentenvs_scoring.probes.searchworld import LUCK, PROBES

BY_NAME = {probe.name: probe for probe in PROBES}
FEW = 40
CONSTANTS = ("w4-frequent", "w18-none")
"""What these earn is dealt evenly over a whole deck."""
GUESSES = [probe for probe in PROBES if probe.average is not None and probe.name not in CONSTANTS]


def make(probe, **options):
    return registry.make("searchworld", people="500", **{**probe.options, **options})


def test_every_shortcut_of_the_catalogue_has_a_probe():
    assert len(BY_NAME) == len({probe.description for probe in PROBES}) == len(PROBES)
    assert probes_of("searchworld") == PROBES
    assert {name.split("-")[0] for name in BY_NAME} == {f"w{number}" for number in range(1, 23)}
    assert all(probe.ceiling == 0 or probe.average == LUCK for probe in PROBES)
    assert catalogue().ceilings["split"] == LUCK


@pytest.mark.parametrize("probe", PROBES, ids=list(BY_NAME))
def test_probes_hold(probe):
    env = make(probe)
    count = DECK if probe.name in CONSTANTS else 3 * FEW if probe.average is not None else FEW
    earned = 0.0
    for index in range(count):
        report = attack(env, probe, TaskRef("train", index))
        assert report.held, report
        earned += report.earned
    assert earned / count <= (probe.ceiling if probe.average is None else probe.average)


@pytest.mark.parametrize("probe", GUESSES, ids=lambda probe: probe.name)
def test_guesses_are_no_better_at_the_least_graded_hops(probe):
    env = make(probe, difficulty="easy")
    earned = sum(attack(env, probe, TaskRef("train", index)).earned for index in range(0, DECK, 6))
    assert earned / (DECK / 6) <= LUCK


@pytest.mark.parametrize("name", ["w14-decorative", "w5-dump-f1"])
def test_without_the_option_the_hole_is_there(name):
    probe = BY_NAME[name]
    options = {"evidence": False} if name == "w14-decorative" else {"reward": "f1"}
    env = registry.make("searchworld", people="500", **options)
    earned = max(attack(env, probe, TaskRef("train", index)).earned for index in range(8))
    assert (earned > 0) == (name == "w14-decorative")


def test_no_constant_answer_is_above_its_ceiling():
    env = registry.make("searchworld", people="500")
    said: dict[str, dict[tuple, int]] = {}
    for index in range(2 * DECK):
        asked = env.scenario("train", index).question
        for kind in ("split", asked.kind):
            counts = said.setdefault(kind, {})
            counts[asked.answers] = counts.get(asked.answers, 0) + 1
    for kind, counts in said.items():
        assert max(counts.values()) / sum(counts.values()) <= catalogue().ceilings[kind], kind
