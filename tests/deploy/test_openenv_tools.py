"""OpenEnv's own tools on the suite's image: its clients start it, and its validator builds on it and tries it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentenvs._version import __version__
from agentenvs.harness.check import openenv_package
from agentenvs.harness.check.run import subject_of
from tests.doors.test_peers import OPENENV, OPENENV_CORE, PEERS, peer, run

pytestmark = [pytest.mark.docker, pytest.mark.peer, pytest.mark.xdist_group("docker")]


@pytest.mark.parametrize("variable", [OPENENV, OPENENV_CORE])
def test_the_stock_clients_start_the_image(image, variable):
    assert "played" in run(peer(variable), PEERS / "openenv_image.py", image)


def test_their_validator_builds_and_tries_a_package(image, tmp_path):
    python = peer(OPENENV)
    subject = subject_of("household", quick=True)
    openenv_package.write(subject, tmp_path)
    subject.end()
    file, manifest = tmp_path / "Dockerfile", tmp_path / "openenv.yaml"
    file.write_text(file.read_text().replace(f"agentenvs:{__version__}", image))
    # Without a network it would be looked into from an image that the validator fetches from a registry.
    manifest.write_text(manifest.read_text().replace("no-network", "public"))
    command = [Path(python).parent / "openenv", "validate", tmp_path, "--level", "runtime"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False).stdout
    for name in ("startup", "observation_schema", "reward_well_formed", "state_contract"):
        assert f"PASS  runtime.{name}" in said, said
