"""Documents beside an index: bytes by number or id, mapped from a file, so that a million need no memory.

The file is a bundle (``bundle``): all documents joined, where each begins, and their ids, in the order in which they
were handed in and, as numbers, in the order of their bytes, so that an id is found by halving.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from agentenvs.core.errors import ContractError
from agentenvs.core.search.bundle import Array, Bundle, BundleWriter
from agentenvs.core.search.packing import Packed, native, pack

KIND = "documents"


class Store:
    """Documents by number or id. Shared freely: nothing changes it.

    Args:
        bundle: Its arrays.
    """

    def __init__(self, bundle: Bundle) -> None:
        arrays = bundle.arrays
        self._bundle = bundle
        self._documents = Packed(arrays["joined"], arrays["starts"])
        self._ids = Packed(arrays["ids"], arrays["id_starts"])
        self._order = native(arrays["order"])
        self.count = len(self._ids)

    @property
    def digest(self) -> str:
        """SHA-256 of all documents, their ids and their order."""
        return self._bundle.digest

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return ((self.id_of(number), self[number]) for number in range(self.count))

    def __getitem__(self, number: int) -> bytes:
        """Return the document of a number.

        Raises:
            IndexError: There is none.
        """
        if not 0 <= number < self.count:
            raise IndexError(number)
        return self._documents[number]

    def id_of(self, number: int) -> str:
        """Return the id of the document of a number."""
        return self._ids[number].decode()

    def number_of(self, name: str) -> int:
        """Return the number of the document of an id; -1 where there is none."""
        wanted = name.encode("utf-8", "replace")
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._ids[self._order[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        return self._order[low] if low < self.count and self._ids[self._order[low]] == wanted else -1

    def get(self, name: str) -> bytes | None:
        """Return the document of an id; None where there is none."""
        number = self.number_of(name)
        return None if number < 0 else self._documents[number]

    @classmethod
    def build(cls, documents: Iterable[tuple[str, bytes]]) -> Store:
        """Keep documents in memory.

        Raises:
            ContractError: Two have one id.
        """
        kept = list(documents)
        joined, starts = pack(document for _, document in kept)
        return cls(Bundle(KIND, {}, {"joined": joined, "starts": starts, **_named([name for name, _ in kept])}))

    @classmethod
    def write(cls, path: Path, documents: Iterable[tuple[str, bytes]]) -> Store:
        """Write documents to a file as they come, and map it; only their ids are held in memory.

        Raises:
            ContractError: Two have one id.
            OSError: The file cannot be written.
        """
        names: list[str] = []
        ends = array("q", [0])

        def pieces() -> Iterator[bytes]:
            for name, document in documents:
                names.append(name)
                ends.append(ends[-1] + len(document))
                yield document

        with BundleWriter(path, KIND) as writer:
            writer.add("joined", "u1", pieces())
            rest = {"starts": np.frombuffer(ends, np.int64), **_named(names)}
            for name in sorted(rest):
                writer.array(name, rest[name])
            writer.finish({})
        return cls.open(path)

    def save(self, path: Path) -> None:
        """Write the store to a file.

        Raises:
            OSError: It cannot be written.
        """
        self._bundle.save(path)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Map a store; processes that open the same file share its memory.

        Raises:
            DataError: It is no store, or is damaged as far as can be told cheaply.
        """
        return cls(Bundle.open(path, KIND))

    def verify(self) -> None:
        """Read every byte of the file and compare digests.

        Raises:
            DataError: It is not what was written.
        """
        self._bundle.verify()

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        return self

    def __copy__(self) -> Store:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        bundle = self._bundle
        if bundle.path is not None:
            return Store.open, (bundle.path,)
        return _rebuilt, (bundle.kind, bundle.meta, bundle.arrays)


def _rebuilt(kind: str, meta: dict[str, Any], arrays: dict[str, Array]) -> Store:
    return Store(Bundle(kind, meta, arrays))


def _named(names: list[str]) -> dict[str, Array]:
    """Return the arrays of the ids.

    Raises:
        ContractError: Two are equal.
    """
    spelled = [name.encode() for name in names]
    order = sorted(range(len(spelled)), key=spelled.__getitem__)
    for before, after in itertools.pairwise(order):
        if spelled[before] == spelled[after]:
            raise ContractError(f"two documents have the id {names[before]!r:.80}")
    ids, id_starts = pack(spelled)
    return {"ids": ids, "id_starts": id_starts, "order": np.array(order, np.int32)}
