"""What a world costs in its container: processor time a turn, memory a session, seconds until it is ready.

Each world is started as ``agentenvs up`` starts it, from the image of servers/Dockerfile, with a journal in its volume
and a folder that ``agentenvs prepare`` has made: several times, from the request for a container until ``/ready`` says
so, which is asked five times a second. A yardstick player plays whole episodes over one socket, sixteen at a time:
processor time of the container over the turns, with creates, resets, ends and the journal in it, without what the idle
container takes (its health check). Then many sessions are opened and play three turns each: memory of the container
that is its own, over the sessions. Figures are CPU time where that is possible, so that other work beside it does
little.

    docker build -f servers/Dockerfile -t agentenvs:0.1.0 .
    python benchmarks/pods.py              # --starts-only: no more than how long the worlds take until they are ready
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import agentenvs
from agentenvs import deploy
from agentenvs.core import registry

PLAYERS = {"household": "expert", "searchworld": "two_query", "webshop": "shopper"}

IDLE_SECONDS = 20


class Measured(NamedTuple):
    """Of one world."""

    world: str
    player: str
    ready_seconds: list[float]
    ready_cpu_seconds: float
    base_mib: float
    turns: int
    cpu_us: float
    kib: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", default=list(PLAYERS))
    parser.add_argument("--image", default=deploy.IMAGE)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--sessions", type=int, default=512)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--starts-only", action="store_true")
    asked = parser.parse_args()
    if asked.starts_only:
        for world in asked.worlds:
            with prepared(world) as folder:
                print(f"{world}: ready after {told(starts(world, asked.image, folder, asked.starts))} s", flush=True)
        return
    print(
        "| world | player | s until ready | CPU s until ready | MiB before the first session | turns | CPU µs a turn "
        "| KiB a session |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for world in asked.worlds:
        with prepared(world) as folder:
            seconds = starts(world, asked.image, folder, asked.starts)
            one = measure(world, asked.image, folder, seconds, asked.episodes, asked.sessions)
        print(
            f"| {one.world} | {one.player} | {told(one.ready_seconds)} | {one.ready_cpu_seconds:.1f} | "
            f"{one.base_mib:.0f} | {one.turns:,} | {one.cpu_us:.0f} | {one.kib:.0f} |",
            flush=True,
        )


@contextmanager
def prepared(world: str) -> Iterator[Path]:
    """Prepare a world in a folder that a container's user may read; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        command = [sys.executable, "-m", "agentenvs.cli", "prepare", world, "--out", str(folder), "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield folder


def starts(world: str, image: str, folder: Path, times: int) -> list[float]:
    """Return the seconds that a world takes until it is ready, its sessions forgotten each time."""
    engine = deploy.connect()
    name = registry.spec(world).id  # its container is called after it, so that no other world of this name is touched
    plan = deploy.Plan(name, image, token=secrets.token_hex(32), prepared=folder)
    taken = []
    try:
        for _ in range(times):
            began = time.monotonic()
            deploy.up(engine, plan, seconds=300)
            taken.append(time.monotonic() - began)
            deploy.down(engine, [name], forget=True)
    finally:
        engine.close()
    return taken


def told(seconds: list[float]) -> str:
    """Return median and largest."""
    return f"{statistics.median(seconds):.1f} ({max(seconds):.1f})"


def measure(world: str, image: str, folder: Path, seconds: list[float], episodes: int, sessions: int) -> Measured:
    """Return what a world costs."""
    name = registry.spec(world).id
    engine = deploy.connect()
    token = secrets.token_hex(32)
    os.environ["AGENTENVS_TOKEN"] = token
    try:
        up = deploy.up(engine, deploy.Plan(name, image, token=token, memory="2g", prepared=folder), seconds=300)
        container = engine.containers.get(up.name)
        first = _usage(container)
        play(world, up.url or "", PLAYERS[world], 20)  # indexes are opened, code is warm
        resting = _usage(container)
        time.sleep(IDLE_SECONDS)
        before = _usage(container)
        began = time.monotonic()
        turns = play(world, up.url or "", PLAYERS[world], episodes)
        idle = (before["cpu"] - resting["cpu"]) * (time.monotonic() - began) / IDLE_SECONDS
        after = _usage(container)
        kib = _memory_of(world, up.url or "", sessions, container)
        cpu_us = (after["cpu"] - before["cpu"] - idle) / 1e3 / turns
        return Measured(world, PLAYERS[world], seconds, first["cpu"] / 1e9, first["own"] / 2**20, turns, cpu_us, kib)
    finally:
        deploy.down(engine, [name], forget=True)
        engine.close()


def play(world: str, url: str, player: str, episodes: int) -> int:
    """Let a yardstick play; return how many turns it took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agentenvs.cli", "eval", world, "--policy", player, "--url", url, "--json"]
        command += [
            "--episodes",
            str(episodes),
            "--concurrency",
            "16",
            "--split",
            "train",
            "--out",
            str(Path(folder) / "run"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout)["summary"]
    return round(summary["mean_turns"] * summary["episodes"])


def _memory_of(world: str, url: str, sessions: int, container: Any) -> float:
    """Return the KiB that a session takes after three turns, the first hundreds not among them."""
    made = []
    own = []
    for size in (sessions // 4, sessions):
        envs = agentenvs.make_vec(world, size, url=url)
        made.append(envs)
        envs.reset(seed=size)
        for _ in range(3):
            envs.step(["nothing of this kind"] * size)
        own.append(_usage(container)["own"])
    for envs in made:
        envs.close()
    return (own[1] - own[0]) / 1024 / sessions


def _usage(container: Any) -> dict[str, int]:
    """Return a container's processor time in nanoseconds, and its own memory in bytes."""
    stats = container.stats(stream=False)
    memory = stats["memory_stats"]["stats"]
    own = memory.get("total_rss", memory.get("anon"))
    return {"cpu": stats["cpu_stats"]["cpu_usage"]["total_usage"], "own": own}


if __name__ == "__main__":
    main()
