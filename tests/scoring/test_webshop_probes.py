"""No reward hack earns more than its ceiling; those the original has succeed in ``original``, so the probes bite."""

import pytest

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Verdict
from agentenvs.envs.webshop.env import WebShopEnv
from agentenvs_scoring.probes import Probe, attack, probes_of
from agentenvs_scoring.probes.webshop import PROBES

BY_NAME = {probe.name: probe for probe in PROBES}
REFS = [TaskRef("dev", index) for index in range(10)]
SMALL = {"products": 4000, "limit": 60}


def make(probe: Probe, **options):
    return registry.make("webshop", **{**SMALL, **probe.options, **options})


def test_names_and_descriptions_are_unique():
    assert len(BY_NAME) == len({probe.description for probe in PROBES}) == len(PROBES)
    assert probes_of("webshop") == PROBES


@pytest.mark.parametrize("profile", ["compat", "native"])
@pytest.mark.parametrize("probe", PROBES, ids=list(BY_NAME))
def test_probes_hold(probe, profile):
    env = make(probe, profile=profile)
    for ref in REFS:
        report = attack(env, probe, ref)
        assert report.held, (ref, report)


@pytest.mark.parametrize("probe", [probe for probe in PROBES if not probe.open_in], ids=lambda probe: probe.name)
def test_original_keeps_only_the_holes_it_declares(probe):
    env = make(probe, profile="original")
    for ref in REFS:
        report = attack(env, probe, ref)
        assert report.held, (ref, report)


@pytest.mark.parametrize("name", ["label-queries", "score-text", "similar-option", "sold-out"])
def test_holes_of_the_original_are_found(name):
    env = make(BY_NAME[name], profile="original", difficulty="constraints")
    assert any(not attack(env, BY_NAME[name], TaskRef("train", index)).held for index in range(200))


class PaysAtTheLimit(WebShopEnv):
    def _judge(self, ending):
        return Verdict(1.0, True) if ending == "truncated" else super()._judge(ending)


class TakesAnyCase(WebShopEnv):
    def _act(self, action):
        return super()._act(action.lower() if isinstance(action, str) else action)


class FindsTheVerb(WebShopEnv):
    def _act(self, action):
        found = max(action.find("search["), action.find("click[")) if isinstance(action, str) else 0
        return super()._act(action[max(found, 0) :] if isinstance(action, str) else action)


@pytest.mark.parametrize(
    ("hole", "name"),
    [(PaysAtTheLimit, "limit-is-success"), (TakesAnyCase, "unicode-aliases"), (FindsTheVerb, "format-spam")],
)
def test_a_planted_hole_is_found(hole, name):
    env = hole(**SMALL)
    assert any(not attack(env, BY_NAME[name], ref).held for ref in REFS)
