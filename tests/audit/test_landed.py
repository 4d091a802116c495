"""The worlds of the suite hold: a small audit of each here, a whole one where there is time."""

from __future__ import annotations

import pytest

from agentenvs.core import registry
from agentenvs.harness.audit import audit_env

EPISODES = {"household": 6, "webshop": 4, "searchworld": 3}
OPTIONS = {"searchworld": {"people": "500"}}


def test_every_world_is_audited():
    own = {registry.spec(env_id).slug for env_id in registry.built_in_ids()}
    assert own == set(EPISODES)


@pytest.mark.parametrize("slug", sorted(EPISODES))
def test_a_small_audit_finds_no_breach(slug):
    report = audit_env(slug, quick=True, episodes=EPISODES[slug], split="dev", options=OPTIONS.get(slug))
    assert report.breaches == [], str(report)
    assert report.row("grader.mutants").earned >= 0.95


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("slug", sorted(EPISODES))
def test_a_whole_audit_finds_no_breach(slug):
    report = audit_env(slug)
    assert report.breaches == [], str(report)
