"""Documents by number or id, in memory and in a file."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from agentenvs.core.errors import ContractError
from agentenvs.core.search import Store

DOCUMENTS = [("b", b"second"), ("a", b"first"), ("é", b""), ("0", bytes(range(256)))]


def test_documents_are_found_by_number_and_by_id() -> None:
    made = Store.build(DOCUMENTS)
    assert list(made) == DOCUMENTS
    assert len(made) == 4
    for number, (name, document) in enumerate(DOCUMENTS):
        assert (made.number_of(name), made.get(name), made[number], made.id_of(number)) == (
            number, document, document, name,
        )  # fmt: skip
    assert (made.number_of("none"), made.get("none"), made.get("")) == (-1, None, None)


@pytest.mark.parametrize("number", [-1, 4])
def test_a_number_beyond_the_last_is_none(number: int) -> None:
    with pytest.raises(IndexError):
        Store.build(DOCUMENTS)[number]


def test_what_is_written_as_it_comes_is_the_same(tmp_path: Path) -> None:
    made = Store.build(DOCUMENTS)
    written = Store.write(tmp_path / "one", iter(DOCUMENTS))
    made.save(tmp_path / "two")
    assert (tmp_path / "one").stat().st_size == (tmp_path / "two").stat().st_size
    opened = Store.open(tmp_path / "two")
    opened.verify()
    assert made.digest == written.digest == opened.digest
    assert list(written) == list(opened) == DOCUMENTS


def test_an_empty_store_is_one_too(tmp_path: Path) -> None:
    assert list(Store.write(tmp_path / "none", [])) == []
    assert Store.build([]).get("a") is None


def test_two_documents_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="have the id 'a'"):
        Store.write(tmp_path / "twice", [("a", b"1"), ("b", b"2"), ("a", b"3")])
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_shared_by_copies_and_opened_again_by_others(tmp_path: Path) -> None:
    made = Store.write(tmp_path / "store", DOCUMENTS)
    assert copy.deepcopy(made) is copy.copy(made) is made
    assert list(pickle.loads(pickle.dumps(made))) == list(pickle.loads(pickle.dumps(Store.build(DOCUMENTS))))
