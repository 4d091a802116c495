"""``check --openenv``: OpenEnv's names for what is checked, and a package that its tools accept."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agentenvs.cli.main import app
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.harness.check import check_env, openenv, openenv_package
from agentenvs.harness.check.openenv import BY_OURS, ELSEWHERE, MEASURES, Grade, judge
from agentenvs.harness.check.run import CHECKS, subject_of
from agentenvs_scoring import probes
from agentenvs_servers.run import background
from tests.envs.fixtures import clerk
from tests.envs.fixtures.common import Plain
from tests.servers import rooms


class Same(rooms.Room):
    """Every seed is the same scenario."""

    spec = replace(rooms.SPEC, id="tests/Same-v0", slug="same", entry_point="tests.check.test_openenv_names:Same")

    def scenario(self, split: str, index: int) -> Plain:
        return Plain("same", {"word": "same"})


class Giving(rooms.Room):
    """Pays for being there."""

    spec = replace(rooms.SPEC, id="tests/Giving-v0", slug="giving", entry_point="tests.check.test_openenv_names:Giving")

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, Any], ending: Ending) -> Verdict:
        return Verdict(1.0, False, facts=facts)


def grade(cls: Any, check_id: str) -> Grade:
    subject = subject_of(cls, quick=True)
    try:
        return openenv._measured(check_id, MEASURES[check_id], subject)
    finally:
        subject.end()


def test_the_names_are_theirs_and_the_checks_are_ours():
    ours = {f"{check.theme}.{check.name}" for check in CHECKS}
    assert {name for names in BY_OURS.values() for name in names} <= ours
    names = [*BY_OURS, *MEASURES, *ELSEWHERE]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("cls", "check_id", "status", "said"),
    [
        (Same, "runtime.seed_control", "fail", "every seed begins alike"),
        (rooms.Room, "runtime.seed_control", "pass", "hidden"),
        (Giving, "semantic.floor_gap", "fail", "earns 1 of 1 on average"),
        (rooms.Room, "semantic.oracle_max", "skip", "no player 'oracle'"),
        (clerk.Clerk, "semantic.oracle_max", "pass", "the oracle earns 1"),
        (clerk.Clerk, "statistical.adversarial_floor", "skip", "no catalogue"),
    ],
)
def test_what_is_measured(cls, check_id, status, said):
    found = grade(cls, check_id)
    assert (found.status, said in found.evidence) == (status, True), found


def test_a_reward_hack_that_pays_is_found(monkeypatch):
    class Winner:
        def reset(self, spec: Any, task: Any) -> None: ...

        def act(self, observation: Any) -> str:
            return "win"

    probe = probes.Probe("winner", "says win", lambda winning: Winner())
    monkeypatch.setattr(probes, "probes_of", lambda slug: (probe,))
    found = grade(rooms.Room, "statistical.adversarial_floor")
    assert (found.status, found.evidence) == ("fail", "winner earns 1: says win")


def test_what_is_not_to_be_seen_over_a_wire_is_not_judged():
    with background(["household"]) as url:
        subject = subject_of(url, quick=True)
        found = openenv._measured("statistical.adversarial_floor", MEASURES["statistical.adversarial_floor"], subject)
        subject.end()
    assert (found.status, "not to be seen from here" in found.evidence) == ("skip", True)


def test_a_failing_check_of_ours_fails_theirs():
    report = check_env(Giving, quick=True)
    subject = subject_of(Giving, quick=True)
    found = {grade.check_id: grade for grade in judge(subject, report)}
    subject.end()
    assert found["runtime.seed_control"].status == "pass"
    assert found["semantic.floor_gap"].status == "fail"
    assert list(found) == sorted(found)
    assert found["runtime.startup"].status == "skip"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What the command says of the clerk, and the folder it wrote."""
    folder = tmp_path_factory.mktemp("package")
    command = ["check", "tests.envs.fixtures.clerk:Clerk", "--quick", "--openenv", "--out", str(folder), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), folder


def test_the_command_judges_and_writes(package):
    said, folder = package
    grades = {grade["check_id"]: grade["status"] for grade in said["openenv"]}
    assert {
        "runtime.seed_control",
        "runtime.episode_determinism",
        "runtime.episode_isolation",
        "semantic.replayability",
        "semantic.oracle_max",
        "semantic.floor_gap",
        "semantic.no_solution_leakage",
    } <= {name for name, status in grades.items() if status == "pass"}
    assert "fail" not in grades.values()
    manifest = yaml.safe_load((folder / "openenv.yaml").read_text())
    assert (manifest["name"], manifest["port"]) == ("clerk", 8000)
    assert manifest["validation"]["capabilities"]["declared_tools"] == ["refund"]
    plan = json.loads((folder / "validation" / "runtime.json").read_text())
    assert plan["reset"]["options"] == {"split": "train", "index": 0}
    assert all(set(action) in ({"text"}, {"type", "tool_name", "arguments"}) for action in plan["actions"])


def test_an_image_that_is_there_is_left_as_it_is(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM mine\n")
    subject = subject_of(clerk.Clerk, quick=True)
    written = openenv_package.write(subject, tmp_path)
    subject.end()
    assert (tmp_path / "Dockerfile").read_text() == "FROM mine\n"
    assert tmp_path / "Dockerfile" not in written


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["household", "--out", "x"], "--out says where"), (["docker:some/image:1", "--openenv"], "openenv validate")],
)
def test_what_cannot_be_asked_for(arguments, says, capsys):
    done = CliRunner().invoke(app, ["check", *arguments])
    assert done.exit_code != 0
    assert says in done.output + str(done.exception)


@pytest.mark.peer
def test_their_tools_accept_the_package(package):
    python = os.environ.get("AGENTENVS_PEER_PYTHON")
    if not python:
        pytest.skip("AGENTENVS_PEER_PYTHON names no Python with openenv in it")
    command = [Path(python).parent / "openenv", "validate", package[1], "--level", "static", "--skip-build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  static.manifest" in done.stdout
