"""A PostgreSQL cluster of a test's own: made in a temporary folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "postgres"


class Cluster:
    """A cluster that can be stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        program = found[-1] if found else shutil.which("pg_ctl")
        if program is None:
            pytest.skip("PostgreSQL is not installed")
        self._bin = Path(program).parent
        self.folder = folder
        # PostgreSQL refuses to run as root.
        self._as = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        folder.mkdir(mode=0o755, parents=True)
        if self._as:
            shutil.chown(folder, USER)
        self._run("initdb", "--no-sync", "-A", "trust", "-U", USER, "-D", self.data)

    @property
    def data(self) -> str:
        """The folder of the cluster's files."""
        return str(self.folder / "data")

    def url(self, database: str = USER) -> str:
        """Return the address of a database in it."""
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it."""
        options = f"-k {self.folder} -c listen_addresses='' -c max_connections=60 -c shared_buffers=16MB"
        self._run("pg_ctl", "start", "-w", "-D", self.data, "-o", options, "-l", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop it; ``immediate`` is a crash."""
        self._run("pg_ctl", "stop", "-w", "-m", mode, "-D", self.data)

    def create(self, database: str) -> str:
        """Make a database, and return its address."""
        self._run("createdb", "-h", str(self.folder), "-U", USER, database)
        return self.url(database)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._bin / program), *arguments]
        done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed with {done.returncode}")


@contextmanager
def running() -> Iterator[Cluster]:
    """Run a cluster."""
    # A short path: the name of a socket may have some hundred characters only.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    folder.chmod(0o755)
    try:
        made = Cluster(folder / "c")
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
