"""Which doors are open: what the settings say, and what a server beyond this machine does without a token."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers.settings import Settings

TOKEN = "a-token-of-enough-length"


def test_doors_are_listed_once():
    assert Settings().open_doors == ("v1", "play")
    assert Settings(doors="openenv,v1,openenv").open_doors == ("openenv", "v1")


@pytest.mark.parametrize("doors", ["", "v2", "v1,", "openenv ors"])
def test_doors_that_there_are_not(doors):
    with pytest.raises(ConfigError, match="the setting doors"):
        Settings(doors=doors)


def test_mcp_needs_sessions_from_somewhere():
    with pytest.raises(ConfigError, match="needs the native one"):
        Settings(doors="mcp,openenv")


@contextmanager
def serving(folder: Path, *flags: str, **variables: str) -> Iterator[str]:
    """Serve to everybody by the command line."""
    file = folder / "url"
    command = [sys.executable, "-m", "agentenvs.cli", "serve", "household", "--port", "0", "--url-file", str(file)]
    room = Path(__file__).parents[2]
    path = os.pathsep.join(str(room / part) for part in ("", "servers", "scenarios", "scoring"))
    surroundings = {**os.environ, "PYTHONPATH": path, **variables}
    process = subprocess.Popen([*command, "--host", "0.0.0.0", *flags], env=surroundings, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            if file.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        assert file.exists(), process.communicate()[1].decode()
        yield file.read_text().strip()
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_server_without_a_token_may_open_the_openenv_door_alone(tmp_path):
    with serving(tmp_path, "--doors", "v1,openenv,ors", AGENTENVS_SERVE_WITHOUT_TOKEN="openenv") as url:
        assert httpx.post(f"{url}/reset", json={}).status_code == 200
        assert httpx.get(f"{url}/v1/envs").status_code == 404
        assert httpx.post(f"{url}/create_session").status_code == 404


def test_with_a_token_it_opens_what_it_was_told_to(tmp_path):
    with serving(tmp_path, "--without-token", "openenv", AGENTENVS_TOKEN=TOKEN) as url:
        assert httpx.post(f"{url}/reset", json={}).status_code == 404
        assert httpx.get(f"{url}/v1/envs").status_code == 401
        assert httpx.get(f"{url}/v1/envs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_without_either_it_refuses_to_start(tmp_path):
    with pytest.raises(AssertionError, match="needs a token"), serving(tmp_path):
        pass
