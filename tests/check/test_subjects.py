"""The suite's own environments pass; what one declares less of is skipped, and says what that costs."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

import agentenvs
from agentenvs.core import hosting, registry
from agentenvs.core.errors import ConfigError, OptionError, SplitError, UnknownEnvError, UserError
from agentenvs.core.spec import Capabilities
from agentenvs.harness.check import CHECKS, check_env
from tests.check.broken.sound import Boxes, spec_of
from tests.client.servers import serving
from tests.envs.fixtures import register_fixtures
from tests.envs.fixtures.clerk import Clerk

register_fixtures()


def skipped(report):
    return {finding.check: (finding.why, finding.lost) for finding in report.findings if finding.status == "skipped"}


@pytest.mark.parametrize("profile", ["compat", "original", "native"])
def test_the_household_passes(profile):
    report = agentenvs.check_env("household", quick=True, options={"profile": profile})
    assert report.passed, str(report)
    assert skipped(report) == {}
    assert {use.answer for use in report.uses} == {"yes"}


@pytest.mark.slow
def test_the_household_passes_in_full():
    report = check_env("household")
    assert report.passed, str(report)


def test_the_ledger_passes():
    report = check_env("ledger", quick=True)
    assert report.passed, str(report)
    assert skipped(report) == {}


def test_the_clerk_passes_and_cannot_be_forked():
    report = check_env(Clerk, quick=True)
    assert report.passed, str(report)
    assert skipped(report) == {
        "fork": (
            "the spec says forkable: false",
            "no credit audit by branching, and no tree search in process",
        )
    }
    answers = {use.purpose: (use.answer, use.why) for use in report.uses}
    assert answers["evaluation"] == ("yes", "")
    assert answers["credit audit by branching"] == ("not declared", "forkable: false")
    assert "forkable: false: no credit audit by branching" in str(report)


def test_the_slow_tool_passes_in_its_worker_but_for_what_it_is_there_for():
    report = check_env("slow_tool", quick=True)
    assert [finding.check for finding in report.failures] == ["undone"], str(report)
    worn = ("its turns have to be undone again and again: mend that first", "")
    assert {"twin_runs", "fork", "hypothesis", "finish"} <= {
        name for name, why in skipped(report).items() if why == worn
    }
    assert {use.answer for use in report.uses} == {"no"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("household", "clerk") as found:
        yield found


def test_a_server_is_checked_as_far_as_it_is_seen(url):
    report = check_env(url, env="household", quick=True)
    assert report.passed, str(report)
    assert {"twin_runs", "replay", "never_raises", "leaves_the_world", "oracle", "noop", "limit", "budgets"} <= {
        finding.check for finding in report.findings if finding.status == "passed"
    }
    assert set(skipped(report)) == {name for names in report.unseen.values() for name in names}
    assert {"fork", "snapshot", "twins", "canaries", "hash_seeds"} <= set(skipped(report))
    assert report.uses[0].answer == "as far as seen"
    assert "What could not be seen from here" in str(report)


def test_a_dialogue_behind_a_wire_passes(url):
    report = check_env(url, env="clerk", quick=True)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("pays_noop", "noop"),
        ("junk_is_taken", "is_told"),
        ("junk_moves", "leaves_the_world"),
        ("key_counts_turns", "state_key"),
        ("undeclared_budget", "budgets"),
        ("unrescorable", "rescore"),
        ("global_rng", "twin_runs"),
        ("weak_oracle", "oracle"),
    ],
)
def test_what_is_broken_behind_a_wire_is_caught(monkeypatch, name, check):
    broken = importlib.import_module(f"tests.check.broken.{name}").Broken
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    registry.register(broken.spec)
    with serving(broken.spec.id) as found:
        report = check_env(found, quick=True)
    assert check in {finding.check for finding in report.failures}, str(report)


def test_of_several_environments_one_has_to_be_named(url):
    with pytest.raises(ConfigError, match="has 2 environments") as caught:
        check_env(url)
    assert "--env" in caught.value.fix


@pytest.mark.parametrize(
    ("target", "more", "error", "words"),
    [
        ("nothing", {}, UnknownEnvError, "no environment 'nothing'"),
        ("no_such_module:Env", {}, ConfigError, "cannot be imported"),
        ("tests.check.broken.sound:Nothing", {}, ConfigError, "cannot be found"),
        ("tests.check.broken.sound:Room", {}, ConfigError, "is no environment"),
        (7, {}, ConfigError, "a int cannot be checked"),
        (Boxes, {"split": "nowhere"}, SplitError, "no split 'nowhere'"),
        (Boxes, {"options": {"limit": "many"}}, OptionError, "does not take 'many'"),
    ],
)
def test_what_cannot_be_checked_is_refused(target, more, error, words):
    with pytest.raises(error, match=words):
        check_env(target, quick=True, **more)


def test_a_class_within_a_function_is_not_played_elsewhere():
    class Here(Boxes):
        pass

    report = check_env(Here, quick=True)
    assert report.passed, str(report)
    assert set(report.unseen) == {
        "its source, to run it again in another process (its class cannot be imported by another process)"
    }


def test_an_environment_that_cannot_be_begun_fails_and_stops_nobody():
    class Boom(Boxes):
        def _begin(self, scenario):
            raise SystemExit(3)

    report = check_env(Boom, quick=True)
    assert [finding.check for finding in report.failures] == ["plays_on"]
    assert str(report).count("no task can be begun") == 1
    assert "test_subjects.py" in report.finding("plays_on").faults[0].where
    assert "SystemExit: 3" in report.finding("plays_on").faults[0].what
    assert skipped(report)["twin_runs"] == ("no task can be begun", "")
    assert report.finding("reserved_names").status == "passed"


class Sleeper(Boxes):
    """Never begins."""

    spec = spec_of(__name__, "Sleeper", capabilities=Capabilities(execution="process"))

    def _begin(self, scenario):
        time.sleep(600)


def test_a_worker_that_never_begins_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(hosting, "CALL_SECONDS", 1.0)
    started = time.monotonic()
    report = check_env(Sleeper, quick=True)
    assert time.monotonic() - started < 20
    assert [finding.check for finding in report.failures] == ["plays_on"]
    assert "no answer to begin within 1 s" in report.failures[0].faults[0].what
    assert set(skipped(report)) == {check.name for check in CHECKS} - {"plays_on"}
    assert not report.passed


def test_an_environment_that_cannot_be_made_is_refused_with_the_place():
    class Boom(Boxes):
        def __init__(self, **options):
            raise OSError("no disk")

    with pytest.raises(ConfigError, match="cannot be made") as caught:
        check_env(Boom, quick=True)
    assert "test_subjects.py" in caught.value.why
    assert "no disk" in caught.value.why


def test_the_sealed_split_needs_its_secret(monkeypatch):
    monkeypatch.delenv("AGENTENVS_SEALED_SECRET", raising=False)
    with pytest.raises(UserError, match="secret"):
        check_env("household", quick=True, split="sealed")
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", "0123456789abcdef" * 4)
    report = check_env("household", quick=True, split="sealed")
    assert report.passed, str(report)


class Shown(Boxes):
    """Shows a part of the secret at the start, by a rule of its own."""

    def _begin(self, scenario):
        return super()._begin(scenario) + (" The note is in an odd one." if scenario.treasure % 2 else "")


class Declared(Shown):
    """The same, and it says which scenarios look alike."""

    def secret_twins(self, scenario):
        for box in range(2 - scenario.treasure % 2, scenario.boxes + 1, 2):
            yield replace(scenario, treasure=box, word="other")


def test_an_environment_may_say_which_scenarios_look_alike():
    assert [finding.check for finding in check_env(Shown, quick=True).failures] == ["entry_points", "twins"]
    assert [finding.check for finding in check_env(Declared, quick=True).failures] == ["entry_points"]


class Tells(Boxes):
    """Tells the box in the description of its tool."""

    def _begin(self, scenario):
        told = f"Open a box, such as {scenario.treasure}."
        self.spec = replace(self.spec, tools=(replace(self.spec.tools[0], description=told),))
        return super()._begin(scenario)


def test_a_secret_in_a_tool_is_found():
    report = check_env(Tells, quick=True)
    assert "spec.tools" in report.finding("twins").faults[0].where


def test_one_split_may_be_asked_for():
    assert set(check_env(Boxes, quick=True, split="test").tasks) == {"test/0", "test/3"}
    assert "test/0" in check_env(Boxes, quick=True).tasks


def test_a_report_goes_to_json():
    report = check_env(Boxes, quick=True)
    form = report.to_json()
    assert form["passed"] is True
    assert [item["check"] for item in form["findings"]] == [check.name for check in CHECKS]
    assert report.finding("secrets.twins") is report.finding("twins")
    with pytest.raises(KeyError):
        report.finding("nothing")


def test_progress_is_told():
    told = []
    check_env(Boxes, quick=True, progress=lambda done, total, failed: told.append((done, total, failed)))
    assert told[-1] == (len(CHECKS), len(CHECKS), 0)


def test_without_hypothesis_its_check_is_skipped_and_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "hypothesis", None)
    report = check_env(Boxes, quick=True)
    why, lost = skipped(report)["hypothesis"]
    assert "agentenvs[check]" in why
    assert lost
