"""What can be audited of a world of another maker, and of one behind a wire; and what that leaves unknown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError
from agentenvs.harness.audit import audit_env
from tests.audit.broken import pays_noop
from tests.client.servers import serving

pytest.importorskip("gymnasium")
_WRAPPED = '''
from agentenvs.adapters.foreign import Foreign, describe
from agentenvs.adapters.gymnasium import GymnasiumEngine


class Lake(Foreign):
    """Cross the lake."""

    spec = describe(
        "gymnasium/Lake-v1", f"{__name__}:Lake", "FrozenLake.", steps=30, seeded=True, exact=True,
        lists_actions=True, reward_range=(0.0, 1.0), execution="thread",
    )
    actions = ("left", "down", "right", "up")
    success_at = 0.7

    def engine(self):
        return GymnasiumEngine("FrozenLake-v1")
'''


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "audited_lake.py"
    file.write_text(_WRAPPED, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield str(file)
    sys.modules.pop("audited_lake", None)


def test_a_guest_is_audited_and_told_what_stays_unknown(lake):
    report = audit_env(lake, quick=True, episodes=3)
    assert report.breaches == [], str(report)
    assert report.row("hack.no-op").verdict == "held"
    assert report.row("hack.random").interval is not None
    assert report.row("relation.limit-binds").verdict == "held"
    assert report.row("grader.mutants").evidence.startswith("no source of a score is here")
    assert "hack.answer-stuffing" in report.lost["nobody knows whether a solution can be abused"]


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    for cls in (pays_noop.Broken, pays_noop.Mended):
        registry.register(cls.spec)
    with serving("audit/Sound-v0", "audit/PaysNoop-v0") as found:
        yield found


def test_a_server_is_audited_as_far_as_it_can_be_played_from_outside(url):
    report = audit_env(url, env="audit/Sound-v0", quick=True, episodes=4)
    assert report.breaches == [], str(report)
    assert report.row("hack.no-op").verdict == "held"
    assert report.row("reward.after-the-end").verdict == "held"
    assert report.row("secret.twins").verdict == "skipped"
    assert report.row("grader.mutants").evidence == "its source is not to be seen from here"
    assert report.row("hack.answer-stuffing").verdict == "held"  # it is installed here too, and so is its oracle


def test_what_a_server_pays_for_nothing_is_a_breach(url):
    report = audit_env(url, env="audit/PaysNoop-v0", quick=True, episodes=4)
    assert "hack.no-op" in [row.name for row in report.breaches], str(report)


def test_a_server_that_cannot_be_audited_says_why(url):
    with pytest.raises(ConfigError, match="2 environments"):
        audit_env(url, quick=True)
