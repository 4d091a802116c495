"""Journals of both kinds."""

import itertools

import pytest

from tests.postgres import running

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster():
    with running() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    return request.getfixturevalue("cluster").create(f"journal{next(_NUMBERS)}")
