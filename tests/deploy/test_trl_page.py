"""docs/plugs/trl.md walked as printed, from the container to two steps of a run, in a copy of this checkout."""

from __future__ import annotations

import os
import secrets
import shutil

import pytest

from agentenvs import deploy
from tests.adapters.plugs.conftest import PAGES, PEERS, QUIET, ROOMS, peer, run
from tests.deploy.engines import BASE, ROOT, command, docker
from tests.docs.blocks import blocks
from tests.servers.test_proxies import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.peer, pytest.mark.xdist_group("docker"), pytest.mark.timeout(1500)]


def test_from_a_container_to_a_run(engine, tmp_path):
    python = peer("AGENTENVS_PEER_TRL", "trl 1.16 and torch")
    run(python, PEERS / "tiny_qwen.py", tmp_path / "hub", "Qwen/Qwen3-0.6B", cwd=tmp_path)
    checkout = tmp_path / "agentenvs"
    listed = command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    begins, program, ends = (block.text for block in blocks(PAGES / "trl.md"))
    (checkout / "grpo.py").write_text(program)
    (port,) = free_ports(1)
    project, tag = f"agentenvs-trl-{secrets.token_hex(3)}", f"agentenvs:trl-{secrets.token_hex(3)}"
    if not deploy.exists(engine, BASE):
        docker("pull", BASE)
    variables = {
        **QUIET,
        "AGENTENVS_IMAGE": tag,
        "AGENTENVS_DEBIAN": BASE,
        "AGENTENVS_HOUSEHOLD_PORT": str(port),
        "COMPOSE_PROJECT_NAME": project,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "PYTHONPATH": ROOMS,
        "STEPS": "2",
        "URL": f"http://127.0.0.1:{port}",
    }
    try:
        said = command("bash", "-euo", "pipefail", "-c", begins + ends, folder=checkout, variables=variables)
        assert "rewards/HouseholdWorld/mean" in said.stdout
        assert (checkout / "runs" / "grpo" / "checkpoint-2").is_dir()
        assert not docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={project}").strip()
    finally:
        ids = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={project}", check=False).split()
        if ids:
            docker("rm", "-f", *ids, check=False)
        docker("volume", "rm", f"{project}_household", check=False)
        docker("rmi", tag, check=False)
