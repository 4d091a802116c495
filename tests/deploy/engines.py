"""What tests of images and containers share: commands that are run as people run them, and their names."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]

BASE = "python:3.11-slim"
"""What images are built from. Debian 12 is in it, so images of Debian's packages are built from it too."""

IMAGE = "agentenvs:under-test"

TOKEN = secrets.token_hex(32)

PATIENCE = 120
"""Seconds: the machine may be busy with something else."""


def command(*arguments, folder=ROOT, check=True, variables=None):
    """Run a command, with further variables; return what became of it."""
    surroundings = {**os.environ, **(variables or {})}
    done = subprocess.run(
        list(map(str, arguments)), cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


def docker(*arguments, check=True):
    """Run the docker command; return what it printed."""
    return command("docker", *arguments, check=check).stdout.strip()


def build(*arguments, folder=ROOT):
    """Build an image with the command that people use."""
    command("docker", "build", "--quiet", *arguments, ".", folder=folder)


def until(true, what, seconds=PATIENCE):
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def ready(url):
    """Whether a server is ready."""
    try:
        return httpx.get(f"{url}/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


CONFINED = (
    *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "64"),
    *("--memory", "256m", "--memory-swap", "256m", "--cpus", "0.5", "--tmpfs", "/tmp:size=16m,mode=1777"),
    *("--tmpfs", "/data:size=16m,mode=0700,uid=10001,gid=10001"),
)
"""As docs/containers.md says to run an image by hand, with less of everything."""


@contextmanager
def started(image, *flags, token=TOKEN):
    """Run an image, confined; yields the container's name and its address."""
    name = f"agentenvs-test-{secrets.token_hex(4)}"
    own = () if token is None else ("-e", f"AGENTENVS_TOKEN={token}")
    docker("run", "-d", "--name", name, "-p", "127.0.0.1::8000", *own, *CONFINED, *flags, image)
    try:
        url = "http://" + docker("port", name, "8000").splitlines()[0]
        until(lambda: ready(url), f"{image} is ready")
        yield name, url
    finally:
        docker("rm", "-f", "-v", name)
