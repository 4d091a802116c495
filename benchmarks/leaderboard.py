"""What a leaderboard costs: verifying a submission, admitting and ranking among many, and showing a board of them.

python benchmarks/leaderboard.py
python benchmarks/leaderboard.py --rows 1000
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from agentenvs.core.canon import canonical, digest
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.leaderboard import asking, bundle, clean, pages, schema
from agentenvs.leaderboard.boards import Board, Wanted, plan
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.counting import count
from agentenvs.leaderboard.pages import ServedLinks
from agentenvs.leaderboard.store import Store, opened
from agentenvs.leaderboard.verifying import Played
from agentenvs_scoring.stats import wilson


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=500)
    given = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{platform.machine()}, {os.cpu_count()} cores, {load}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path, board = _verification(folder, given.episodes)
        with opened(folder / "board") as store:
            store.make(replace(board, attempts=10**9))
            _fill(store, board.id, given.rows)
            _measured(f"places of {given.rows:,} rows", lambda: store.rank(board.id), 1)
            _measured("admitting one more", lambda: store.admit(board.id, path.read_bytes()), 1)
            _pages(store, board.id)


def _verification(folder: Path, episodes: int) -> tuple[Path, Board]:
    board = plan(Wanted("household", "test", episodes))
    evaluate(RunConfig(env="household", policy="expert", split="test", episodes=episodes, out=folder / "run"))
    path = folder / "run.zip"
    path.write_bytes(bundle.pack_folder(folder / "run", Submission(contestant="Ada", agent="expert")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    clean.verified(path, board)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"verifying {episodes} episodes: {spent:.2f} CPU s, {time.perf_counter() - began:.2f} s, ", end="")
    print(f"{path.stat().st_size / 1e6:.2f} MB, peak {after.ru_maxrss / 1024:.0f} MiB")
    return path, board


def _fill(store: Store, board_id: str, rows: int) -> None:
    """Put rows into the store as they are after verification, all at once: what is measured is what comes then."""
    board = store.board(board_id)
    made = np.random.Generator(np.random.PCG64(1))
    skill = made.uniform(0.05, 0.95, size=(rows, 1))
    wins = (made.random((rows, board.scenarios)) < skill).astype(np.uint8)
    signed = made.bytes(8 * board.scenarios * rows)
    played = [
        Played(n, digest(n), digest(-n), digest(-n), n % 3 > 0, 1.0, 20, 1, "terminated", f"k{n % 6}")
        for n in range(board.scenarios)
    ]
    detail = canonical({**count(played, board, b"key").detail, "told": {}, "alike": []})
    lines, blobs = [], []
    for number, row in enumerate(wins):
        won = int(row.sum())
        low, high = wilson(won, board.scenarios)
        lines.append({
            "no": number + 1, "board": board_id, "id": digest(number), "kind": "contestant", "tier": "replayed",
            "contestant": f"contestant {number}", "who": f"contestant{number}", "agent": "agent", "version": "1",
            "contact": "", "notes": "", "player": None, "created": "2026-11-30T12:00:00Z", "attempt": 1, "bundle": None,
            "episodes": board.scenarios, "successes": won, "rate": won / board.scenarios, "low": low, "high": high,
            "reward": won / board.scenarios, "turns": 20.0, "failed": 0, "detail": detail, "position": 0,
        })  # fmt: skip
        own = signed[8 * board.scenarios * number : 8 * board.scenarios * (number + 1)]
        blobs.append({"entry": number + 1, "wins": row.tobytes(), "actions": own, "moves": own, "records": own})
    with store.writing() as connection:
        connection.execute(schema.entries.insert(), lines)
        connection.execute(schema.plays.insert(), blobs)
        counts = {"entries": rows, "contestants": rows}
        connection.execute(schema.boards.update().where(schema.boards.c.id == board_id).values(**counts))


def _pages(store: Store, board_id: str) -> None:
    links = ServedLinks()

    def show(page: int, asked: str = "") -> int:
        shown = asking.one_board(store, board_id)
        rows, last = asking.page(store, board_id, page, asked)
        return len(pages.board(links, shown, rows, page, last, asked))

    entry = asking.page(store, board_id, 1)[0][0]["id"]
    show(1)
    _measured("board page, first", lambda: show(1))
    _measured("board page, middle", lambda: show(50))
    _measured("board page, search", lambda: show(1, "contestant 77"))
    one = asking.one_board(store, board_id)
    _measured("entry page", lambda: pages.entry(links, one, asking.one_entry(store, board_id, entry)))
    _measured("board as JSON", lambda: json.dumps(asking.page(store, board_id, 1)[0]))


def _measured(what: str, do: Callable[[], object], times: int = 20) -> None:
    wall, cpu = [], []
    for _ in range(times):
        began, spent = time.perf_counter(), time.process_time()
        do()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    middle = f"{1000 * statistics.median(wall):.1f} ms, CPU {1000 * statistics.median(cpu):.1f} ms"
    print(f"{what}: {middle}" + (f", slowest {1000 * max(wall):.1f} ms" if times > 1 else ""))


if __name__ == "__main__":
    main()
