"""Kills, starves and cuts off real servers under load, and accounts for every turn that their clients saw.

    python benchmarks/faults.py            # what RESULTS.md has: about half an hour
    python benchmarks/faults.py --kills 5 --database-kills 2 --away 5

Thirty-two clients play household, ledger and clerk (the last two are fixtures of the tests): over HTTP, in batches and
over the package's own socket, with answers thrown away and connections cut at random. At the end each episode that a
client began is held against the server's record of it, turn by turn, each record is played again in process, and the
journal is searched for what nobody asked for. Exit code 1 where anything was lost, doubled, swapped, refused or failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.envs.fixtures import register_fixtures
from tests.faults import weather
from tests.faults.processes import Server
from tests.faults.storm import Report, Weather, storm
from tests.postgres import Cluster

Case = Callable[[argparse.Namespace, Path], Report]


def _run(name: str, servers: list[Server], what: Weather, seed: int, *, fresh: bool = False) -> Report:
    try:
        for server in servers:
            server.start()
        return asyncio.run(storm(name, servers, what, seed=seed, fresh=fresh))
    finally:
        for server in servers:
            server.close()


@contextmanager
def _cluster(folder: Path) -> Iterator[Cluster]:
    folder.chmod(0o755)
    cluster = Cluster(folder / "pg")
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop("immediate")


def kills_on_a_file(args: argparse.Namespace, folder: Path) -> Report:
    server = Server(str(folder / "journal.db"), folder / "log")
    return _run("kill -9, SQLite", [server], weather.kills([server], args.kills), args.seed)


def kills_on_a_database(args: argparse.Namespace, folder: Path) -> Report:
    with _cluster(folder) as cluster:
        server = Server(cluster.url(), folder / "log")
        return _run("kill -9, PostgreSQL", [server], weather.kills([server], args.database_kills), args.seed)


def race_on_a_database(args: argparse.Namespace, folder: Path) -> Report:
    with _cluster(folder) as cluster:
        servers = [Server(cluster.url(), folder / f"log{number}") for number in range(4)]
        what = weather.kills(servers, args.database_kills)
        return _run("4 servers, one PostgreSQL, any of them asked, kill -9", servers, what, args.seed)


def race_on_a_file(args: argparse.Namespace, folder: Path) -> Report:
    server = Server(str(folder / "journal.db"), folder / "log", more=("--workers", "3"))
    what = weather.worker_kills(server, max(args.database_kills // 2, 1))
    name = "--workers 3, one SQLite, any of them asked, kill -9 of workers"
    return _run(name, [server], what, args.seed, fresh=True)


def away(args: argparse.Namespace, folder: Path, mode: str) -> Report:
    with _cluster(folder) as cluster:
        server = Server(cluster.url(), folder / "log")
        what = weather.away(cluster, args.away, mode)
        return _run(f"PostgreSQL stopped ({mode}) for {args.away:g} s", [server], what, args.seed)


def disk_full(args: argparse.Namespace, folder: Path) -> Report:
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(small)], check=False).returncode:
        raise OSError("a file system of its own cannot be mounted here")
    try:
        server = Server(str(small / "journal.db"), folder / "log")
        return _run("disk full for 10 s", [server], weather.full(small, 10), args.seed)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def no_growth(args: argparse.Namespace, folder: Path) -> Report:
    server = Server(str(folder / "journal.db"), folder / "log")
    return _run("no file may grow for 10 s", [server], weather.starved(server, 10), args.seed)


def read_only(args: argparse.Namespace, folder: Path) -> Report:
    server = Server(str(folder / "journal.db"), folder / "log")
    files = [folder / "journal.db", folder / "journal.db-wal"]
    return _run("journal read-only for 10 s", [server], weather.frozen(files, 10), args.seed)


CASES: dict[str, Case] = {
    "file": kills_on_a_file,
    "database": kills_on_a_database,
    "servers": race_on_a_database,
    "workers": race_on_a_file,
    "stopped": lambda args, folder: away(args, folder, "fast"),
    "crashed": lambda args, folder: away(args, folder, "immediate"),
    "full": disk_full,
    "growth": no_growth,
    "read-only": read_only,
}

COLUMNS: dict[str, Callable[[Report], object]] = {
    "case": lambda report: report.name,
    "kills": lambda report: report.kills,
    "episodes": lambda report: report.episodes,
    "turns": lambda report: report.turns,
    "answers thrown away": lambda report: report.counts.thrown_away,
    "connections broken": lambda report: report.counts.broken,
    "told to wait": lambda report: report.counts.waits,
    "longest wait": lambda report: f"{report.counts.longest_wait:.0f} s",
    "lost": lambda report: report.wrongs["lost"],
    "doubled": lambda report: report.wrongs["doubled"],
    "swapped": lambda report: report.wrongs["swapped"],
    "diverged": lambda report: report.wrongs["diverged"],
    "refused": lambda report: report.wrongs["refused"],
    "failed": lambda report: report.wrongs["failed"],
}


def show(reports: list[Report]) -> None:
    print(f"\nfaults, Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" + "|--:" * (len(COLUMNS) - 1) + "|")
    for report in reports:
        print("| " + " | ".join(str(value(report)) for value in COLUMNS.values()) + " |")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="of the server on a file")
    parser.add_argument("--database-kills", type=int, default=50, help="of the server, and of four, on a database")
    parser.add_argument("--away", type=float, default=60, help="seconds for which the database is away")
    parser.add_argument("--seed", type=int, default=0, help="of clients and weather")
    parser.add_argument("--only", choices=CASES, action="append", help="this case, and others so named")
    args = parser.parse_args()
    register_fixtures()
    reports: list[Report] = []
    for name in args.only or CASES:
        with tempfile.TemporaryDirectory(prefix="faults", ignore_cleanup_errors=True) as folder:
            try:
                report = CASES[name](args, Path(folder))
            except OSError as error:
                print(f"{name}: not done here: {error}", flush=True)
                continue
        reports.append(report)
        print(f"{report.name}: {'clean' if report.clean else report.said} ({report.seconds:.0f} s)", flush=True)
    show(reports)
    return 0 if all(report.clean for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
