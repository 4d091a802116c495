"""What can be audited of a world of another maker, and of one behind a wire; and what that leaves unknown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentenvs.harness.audit import audit_env

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
