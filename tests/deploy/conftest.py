"""A real Docker engine, and the images of this checkout built on it; loudly skipped where there is none."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from agentenvs import deploy
from agentenvs.core.errors import AgentEnvsError
from tests.deploy.engines import BASE, IMAGE, build, docker

HOW = "../shared/tools/docker-engine.sh up starts an engine, and makes the base image, where there is neither"


@pytest.fixture(scope="session")
def engine():
    """A client of the engine."""
    try:
        client = deploy.connect()
    except AgentEnvsError as error:
        pytest.skip(f"NO DOCKER ENGINE: no image is built and no container run. {error.what}: {error.why}. {HOW}")
    if shutil.which("docker") is None:
        pytest.skip(f"NO DOCKER COMMAND: no image is built and no container run. {HOW}")
    with closing(client):
        yield client


@pytest.fixture(scope="session")
def image(engine):
    """The name of the suite's image, built from this checkout."""
    if not deploy.exists(engine, BASE):
        docker("pull", BASE)
    build("-f", "servers/Dockerfile", "-t", IMAGE)
    return IMAGE
