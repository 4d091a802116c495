"""Journals of both kinds."""

import itertools
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.postgres import Cluster

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster():
    # A short path: the name of a socket may have some hundred characters only.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    folder.chmod(0o755)
    made = Cluster(folder / "c")
    made.start()
    try:
        yield made
    finally:
        made.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    return request.getfixturevalue("cluster").create(f"journal{next(_NUMBERS)}")
