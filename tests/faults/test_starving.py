"""A journal that cannot be written for a while: clients wait, no turn is lost, and none is answered unwritten."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from tests.faults import weather
from tests.faults.storm import storm

SECONDS = 3.0


@pytest.fixture
def small(tmp_path):
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def journal_files(folder):
    return [folder / "journal.db", folder / "journal.db-wal"]


def can_freeze(folder):
    probe = folder / "probe"
    probe.touch()
    try:
        weather.freeze([probe])
        with pytest.raises(OSError, match="not permitted"):
            probe.open("ab")
        weather.freeze([probe], "-i")
    except (OSError, pytest.fail.Exception):
        pytest.skip("files cannot be made immutable here")


def test_a_disk_that_is_full(serving, small):
    server = serving(str(small / "journal.db"))
    report = asyncio.run(storm("disk full", [server], weather.full(small, SECONDS)))
    assert report.clean, report.said
    assert report.counts.waits > 0


def test_files_that_may_not_grow(serving):
    server = serving()
    report = asyncio.run(storm("files may not grow", [server], weather.starved(server, SECONDS)))
    assert report.clean, report.said
    assert report.counts.waits > 0


def test_a_journal_that_becomes_read_only(serving, tmp_path):
    can_freeze(tmp_path)
    server = serving()
    report = asyncio.run(storm("read-only", [server], weather.frozen(journal_files(tmp_path), SECONDS)))
    assert report.clean, report.said
    assert report.counts.waits > 0


def test_a_journal_that_is_read_only_at_the_start(serving, tmp_path):
    can_freeze(tmp_path)
    server = serving()
    server.kill()
    files = sorted(tmp_path.glob("journal.db*"))
    weather.freeze(files)
    try:
        with pytest.raises(RuntimeError, match=r"the journal .* cannot be"):
            server.start()
        assert server.process.poll() == 2
    finally:
        weather.freeze(files, "-i")
    server.start()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_that_is_away_for_a_while(serving, cluster, mode):
    server = serving(cluster.create("away"))
    report = asyncio.run(storm(f"away {mode}", [server], weather.away(cluster, 10.0, mode)))
    assert report.clean, report.said
    assert report.counts.longest_wait > 10
    assert report.counts.waits > 0
