"""The commands of docs/containers.md, run as printed on a real engine, in a copy of what git has of this checkout."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

import pytest

from agentenvs import deploy
from agentenvs.client import RemoteEnv
from tests.deploy.engines import BASE, PATIENCE, ROOT, command, docker
from tests.docs.blocks import blocks
from tests.servers.test_proxies import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker"), pytest.mark.timeout(900)]

PAGE = ROOT / "docs" / "containers.md"
REASON = "needs a Docker engine; tests/deploy runs it"
BLOCKS = [block for block in blocks(PAGE) if block.reason == REASON]
NAMES = ("agentenvs-household", "agentenvs-webshop", "agentenvs-tea_house", "my-household")
PROJECT = f"agentenvs-page-{secrets.token_hex(3)}"


@pytest.fixture(scope="module")
def checkout(engine, image, tmp_path_factory):
    """A copy of the checkout; the page's names belong to nobody else on this engine."""
    names = docker("ps", "-a", "--format", "{{.Names}}").split()
    if taken := set(NAMES) & set(names):
        pytest.skip(f"containers of the page's names are there already: {', '.join(sorted(taken))}")
    docker("tag", image, deploy.IMAGE)
    folder = tmp_path_factory.mktemp("page") / "agentenvs"
    listed = command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    yield folder
    docker("rm", "-f", *NAMES, check=False)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.where for block in BLOCKS])
def test_commands_run_as_printed(checkout, block):
    ports = dict(zip(("AGENTENVS_HOUSEHOLD_PORT", "AGENTENVS_PROXY_PORT"), map(str, free_ports(2)), strict=True))
    variables = {
        **ports,
        "COMPOSE_PROJECT_NAME": PROJECT,
        "AGENTENVS_DEBIAN": BASE,
        "AGENTENVS_SUBNET": f"10.213.{200 + secrets.randbelow(50)}",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "100",
    }
    command("bash", "-euo", "pipefail", "-c", block.text, folder=checkout, variables=variables)


def test_what_the_page_says_of_the_image_is_so(engine, image, checkout):
    text = PAGE.read_text(encoding="utf-8")
    seen = deploy.look(engine, image)
    said = int(text.partition("| size | ")[2].partition(" MB")[0])
    assert said * 0.9 < seen.bytes / 1e6 < said * 1.1
    assert f"agentenvs:{seen.labels[deploy.VERSION_LABEL]}" in text


def test_a_file_on_top_of_the_image_is_enough(engine, image, checkout, tmp_path):
    """The four lines at the end of the page."""
    lines = PAGE.read_text(encoding="utf-8").rpartition("```text\n")[2].partition("```")[0]
    (tmp_path / "Dockerfile").write_text(lines)
    command(sys.executable, "-m", "agentenvs.cli", "init", "my_world", "--minimal", folder=tmp_path, variables=_paths())
    tag = "agentenvs-page-my-world"
    docker("build", "-q", "-t", tag, str(tmp_path))
    try:
        assert deploy.look(engine, tag).labels["org.opencontainers.image.title"] == "my_world"
        with deploy.trying(engine, tag, PATIENCE) as trial:
            env = RemoteEnv("my_world", trial.url, token=trial.token)
            env.reset()
            assert env.step("5").observation.text
            env.close()
    finally:
        docker("rmi", "-f", tag)


def _paths():
    return {"PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("", "servers", "scenarios", "scoring"))}
