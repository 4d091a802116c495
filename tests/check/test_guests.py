"""A guest that hangs, leaks, crashes, lies or grows harms nobody else, and the report says what it does."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import agentenvs
from agentenvs.core import hosting, registry
from agentenvs.harness.check import check_env
from agentenvs.harness.report import next_steps, read_run
from agentenvs.harness.run import RunConfig, evaluate
from tests.check.broken.sound import Boxes
from tests.check.guests import GUESTS
from tests.client.servers import serving
from tests.envs.fixtures import register_fixtures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems hold other limits")

SAID = {
    "hangs": ("undone", "a turn overran its time (step_timeout)"),
    "leaks": ("memory", "each episode leaves about 6 MB behind"),
    "crashes": ("undone", "a turn took its process down (step_crashed)"),
    "lies": ("twin_runs", "two runs of the same actions differ"),
    "grows": ("undone", "a turn needed more memory than it may (step_memory)"),
}

UNDONE = {
    "hangs": "it took longer than 0.4 s",
    "crashes": "the environment crashed",
    "grows": "it needed more than 300 MB of memory",
    "spins": "it used more than 1 s of processor time",
}


@pytest.mark.parametrize("name", SAID)
def test_the_report_says_so(name):
    report = check_env(GUESTS[name], quick=True)
    check, said = SAID[name]
    assert check in [finding.check for finding in report.failures], str(report)
    assert said in str(report)
    assert {use.answer for use in report.uses if use.purpose == "ranked boards"} == {"no"}


@pytest.mark.parametrize(("name", "said"), [("careless", "a turn took its process down"), ("frozen", "it overran")])
def test_one_that_would_take_the_check_with_it_is_tried_in_a_worker_first(name, said, monkeypatch):
    monkeypatch.setattr(hosting, "CALL_SECONDS", 2.0)
    report = check_env(GUESTS[name], quick=True, ahead=True)
    assert [finding.check for finding in report.failures] == ["undone"]
    assert said in str(report)
    assert {use.answer for use in report.uses} == {"no"}


def test_a_sound_one_is_none_the_worse_for_being_tried_first():
    report = check_env(Boxes, quick=True, ahead=True)
    assert report.passed, str(report)


def test_an_evaluation_says_that_the_environment_failed(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    registry.register(GUESTS["crashes"].spec)
    slug = GUESTS["crashes"].spec.slug
    with serving(slug) as url:
        result = evaluate(RunConfig(slug, "random", episodes=2, url=url, out=tmp_path / "run"))
    assert result.summary["undone"] > 0
    first, _ = next_steps(read_run(tmp_path / "run"))[0]
    assert re.match(r"The environment failed: .* undone, and count as invalid", first)


@pytest.mark.parametrize("name", UNDONE)
def test_others_on_the_server_play_on(name, monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    register_fixtures()
    registry.register(GUESTS[name].spec)
    slug = GUESTS[name].spec.slug
    with (
        serving(slug, "household") as url,
        ThreadPoolExecutor(1) as pool,
        agentenvs.make(slug, url=url) as bad,
        agentenvs.make("household", url=url) as good,
    ):
        bad.reset()
        good.reset()
        bad.step("go")
        answer = pool.submit(bad.step, "odd")
        for _ in range(20):
            assert not good.step("look").info["invalid"]
        result = answer.result(60)
        assert f"This turn was undone: {UNDONE[name]}." in result.observation.text
        assert bad.step("go").observation.text == "On."
        last = bad.step("go")
        assert (last.terminated, last.reward) == (True, 1.0)
