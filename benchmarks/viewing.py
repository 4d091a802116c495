"""How long the viewer's pages take on a run of a hundred thousand episodes, and how long until the first is there.

    python benchmarks/viewing.py                      # makes the run in a temporary folder, which takes some seconds
    python benchmarks/viewing.py --episodes 1000000

The run is a real one of a few hundred episodes whose files are linked under as many numbers as wanted, so that records
and sidecars are real. CPU is that of the server's process; wall is as a client sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.harness.run import RunConfig, evaluate

SAMPLE = 300
ROUNDS = 15


def make(folder: Path, episodes: int, policy: str) -> None:
    """Make a run of so many episodes."""
    small = folder.with_name(f"{folder.name}-sample")
    evaluate(RunConfig("household", policy, split="train", episodes=SAMPLE, options={"limit": 11}, out=small))
    lines = [json.loads(line) for line in (small / "episodes.jsonl").read_text().splitlines()]
    lines.sort(key=lambda line: line["number"])
    for part in ("records", "sidecars"):
        (folder / part).mkdir(parents=True)
    table = []
    for number in range(episodes):
        one = lines[number % SAMPLE]
        table.append(canonical_bytes({**one, "number": number, "index": number}))
        for part, ending in (("records", "jsonl"), ("sidecars", "json")):
            os.link(small / part / f"{one['number']:06d}.{ending}", folder / part / f"{number:06d}.{ending}")
    (folder / "episodes.jsonl").write_bytes(b"\n".join(table) + b"\n")
    manifest = json.loads((small / "manifest.json").read_text())
    won = sum(lines[number % SAMPLE]["success"] for number in range(episodes))
    manifest["results"] |= {"episodes": episodes, "successes": won}
    manifest["envs"][0]["tasks"] = episodes
    manifest["episode_table_digest"] = digest(folder.name)
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest))
    shutil.copy(small / "plan.json", folder / "plan.json")
    shutil.rmtree(small)


@contextmanager
def viewer(folder: Path, cache: Path) -> Iterator[tuple[str, int]]:
    """Serve a folder from a process of its own; yields address and process."""
    file = folder.parent / "url"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "agentenvs.cli", "view", str(folder), "--port", "0", "--url-file", str(file)]
    environment = {**os.environ, "AGENTENVS_CACHE": str(cache)}
    process = subprocess.Popen([*command, "--no-open", "-q"], env=environment)
    try:
        while not file.exists():
            if process.poll() is not None:
                raise SystemExit("the viewer did not come up")
            time.sleep(0.01)
        yield file.read_text().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Return the MiB a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def timed(ask: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
    """Return how long an answer took, in milliseconds, and the answer."""
    begin = time.perf_counter()
    answer = ask()
    answer.raise_for_status()
    return 1000 * (time.perf_counter() - begin), answer


def main() -> None:
    """Measure, and print a table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--episodes", type=int, default=100_000)
    episodes = asked.parse_args().episodes
    with tempfile.TemporaryDirectory(prefix="viewing-") as made:
        room = Path(made)
        begin = time.perf_counter()
        for name, policy in (("a", "prior"), ("b", "expert")):
            make(room / "runs" / name, episodes, policy)
        print(f"made two runs of {episodes:,} episodes in {time.perf_counter() - begin:.0f} s")
        with viewer(room / "runs", room / "cache") as (url, pid), httpx.Client(base_url=url, timeout=300) as client:
            measure(client, pid, episodes)
        with viewer(room / "runs", room / "cache") as (url, pid), httpx.Client(base_url=url, timeout=300) as client:
            names, before = runs(client), cpu(pid)
            wall, _ = timed(lambda: client.get(f"/run/{names[0]}"))
            spent = 1000 * (cpu(pid) - before)
            print(
                f"first page of a run whose index is there, by a viewer just started: {wall:.0f} ms, CPU {spent:.0f} ms"
            )


def runs(client: httpx.Client) -> list[str]:
    """Return the names of the runs."""
    page = client.get("/").text
    return sorted(part.split('"')[0] for part in page.split('href="/run/')[1:])


def measure(client: httpx.Client, pid: int, episodes: int) -> None:
    """Measure the first look, and every page once all is read."""
    wall, _ = timed(lambda: client.get("/"))
    print(f"first list of runs: {wall:.0f} ms")
    first, second = runs(client)
    begin, before = time.perf_counter(), cpu(pid)
    wall, page = timed(lambda: client.get(f"/run/{first}"))
    print(f"first page of a run that was never looked at: {wall:.0f} ms")
    while "Reading the episodes" in page.text:
        time.sleep(0.05)
        page = client.get(f"/run/{first}")
    print(f"all of its episodes are read after {time.perf_counter() - begin:.2f} s, CPU {cpu(pid) - before:.1f} s")
    while "Reading the episodes" in client.get(f"/run/{second}").text:
        time.sleep(0.05)
    begin, before = time.perf_counter(), cpu(pid)
    compared = f"/compare?run={first}&run={second}"
    while "being made" in client.get(compared).text:
        time.sleep(0.1)
    print(f"first comparison of the two: {time.perf_counter() - begin:.2f} s, CPU {cpu(pid) - before:.1f} s")
    begin, before = time.perf_counter(), cpu(pid)
    while "so far" in client.get(f"/run/{first}?text=mug").text:
        time.sleep(0.2)
    spent = cpu(pid) - before
    print(f"the words of all tasks are searchable after {time.perf_counter() - begin:.1f} s, CPU {spent:.1f} s")
    last = episodes - 1
    places = {
        "list of runs": "/",
        "run": f"/run/{first}",
        "run, last page of episodes": f"/run/{first}?page={episodes // 50}",
        "run, lost ones, most turns first": f"/run/{first}?outcome=lost&order=-turns",
        "run, text of the task": f"/run/{first}?text=mug",
        "episode": f"/run/{first}/episode/{last}",
        "episode, lost ones only": f"/run/{first}/episode/{last}?outcome=lost",
        "episode, played again": f"/run/{first}/episode/7?trace=1",
        "comparison": compared,
        "side by side": f"/compare/episode?run={first}&run={second}&a={last}&b={last}",
    }
    print(f"\n| page | wall ms, median | wall ms, worst of {ROUNDS} | CPU ms | KiB |\n|---|--:|--:|--:|--:|")
    for name, path in places.items():
        client.get(path)
        before = cpu(pid)
        found = [timed(lambda path=path: client.get(path)) for _ in range(ROUNDS)]
        walls, spent = [wall for wall, _ in found], 1000 * (cpu(pid) - before) / ROUNDS
        size = len(found[0][1].content) / 1024
        print(f"| {name} | {statistics.median(walls):.0f} | {max(walls):.0f} | {spent:.0f} | {size:.0f} |")
    print(f"\nmemory of the viewer: {memory(pid)} MiB")


if __name__ == "__main__":
    main()
