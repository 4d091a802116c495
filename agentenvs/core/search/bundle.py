"""Named arrays in one file: written once, mapped by every process that reads it, checked against digests.

Layout: a preamble of 128 bytes (magic, format, place and digest of the header), the arrays, each at a multiple of 64
bytes and little-endian, then the header, canonical JSON. The preamble is written last and the file is put in place by
a rename, so a file that was not finished is none. Nothing in it depends on where it lies: it can be moved.

Opening checks the preamble, the header's digest and the size of the file, which costs the same for any size;
:meth:`Bundle.verify` reads every byte. The digest of a bundle covers what it holds, not how it lies in a file, so one
built in memory has the digest it will have on disk.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from agentenvs.core.canon import JSON, canonical_bytes, digest
from agentenvs.core.errors import DataError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAGIC = b"agentenvs-bundle"
FORMAT = 1

_PREAMBLE = struct.Struct("<16sQQQ32s")  # magic, format, offset and length of the header, its SHA-256
_PREAMBLE_SIZE = 128
_ALIGN = 64
_PIECE = 1 << 24
_TYPES = {"u1": np.uint8, "u2": np.uint16, "i4": np.int32, "i8": np.int64}
_BUILD_AGAIN = "build it again, or copy it again from where it is whole"


class Bundle:
    """Named one-dimensional arrays and what is said of them.

    Args:
        kind: What it is, e.g. ``bm25``.
        meta: What is said of the arrays; JSON.
        arrays: The arrays, by name, of type u1, u2, i4 or i8.
        path: The file they are mapped from, if they are.
    """

    def __init__(self, kind: str, meta: Mapping[str, JSON], arrays: Mapping[str, Array], path: Path | None = None):
        self.kind = kind
        self.meta = dict(meta)
        self.arrays = {name: arrays[name] for name in sorted(arrays)}
        self.path = path
        self._sums: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 over kind, meta and every byte of the arrays, as 64 hexadecimal digits."""
        return digest([self.kind, self.meta, [[*_shape(name, a), self._sum(name)] for name, a in self.arrays.items()]])

    def save(self, path: Path) -> None:
        """Write the file; readers of an older one of that name keep what they have.

        Raises:
            OSError: It cannot be written.
        """
        with BundleWriter(path, self.kind) as writer:
            for name, array in self.arrays.items():
                self._sums[name] = writer.array(name, array)
            writer.finish(self.meta)

    @classmethod
    def open(cls, path: Path, kind: str) -> Bundle:
        """Map a file.

        Raises:
            DataError: It is none, is damaged as far as can be told cheaply, or is of another kind or format.
        """
        try:
            with path.open("rb") as file:
                head = file.read(_PREAMBLE_SIZE)
                header = _header(file, head, path)
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise DataError(f"{path} cannot be read", why=error.strerror or str(error)) from error
        if header["kind"] != kind:
            raise DataError(f"{path} is no {kind} file", why=f"it holds {header['kind']!r}")
        try:
            arrays = {form["name"]: _mapped(mapped, form) for form in header["arrays"]}
        except (KeyError, ValueError, TypeError) as error:
            raise _damaged(path, repr(error)) from error
        made = cls(kind, header["meta"], arrays, path)
        made._sums = {form["name"]: form["sha256"] for form in header["arrays"]}
        return made

    def verify(self) -> None:
        """Read every byte and compare it with the digests that were written.

        Raises:
            DataError: An array is not what was written.
        """
        for name, wanted in list(self._sums.items()):
            if _sha256(self.arrays[name]) != wanted:
                raise _damaged(self.path or Path(self.kind), f"the array {name!r} has another digest")

    def _sum(self, name: str) -> str:
        if name not in self._sums:
            self._sums[name] = _sha256(self.arrays[name])
        return self._sums[name]


class BundleWriter:
    """Writes a bundle piece by piece, for what does not fit in memory; nothing is there before :meth:`finish`.

    Args:
        path: Where the file will be.
        kind: As for :class:`Bundle`.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._kind = kind
        self._arrays: list[dict[str, JSON]] = []
        self._file = self._part.open("wb")
        self._file.write(bytes(_PREAMBLE_SIZE))

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def add(self, name: str, kind: str, pieces: Iterable[bytes]) -> str:
        """Write one array and return its SHA-256.

        Args:
            name: Its name.
            kind: Its type: u1, u2, i4 or i8.
            pieces: Its bytes, little-endian, in pieces of any size.
        """
        self._pad()
        start, total = self._file.tell(), hashlib.sha256()
        for piece in pieces:
            self._file.write(piece)
            total.update(piece)
        size = self._file.tell() - start
        count = size // np.dtype(_TYPES[kind]).itemsize
        form = {"name": name, "type": kind, "count": count, "offset": start, "sha256": total.hexdigest()}
        self._arrays.append(form)
        return total.hexdigest()

    def array(self, name: str, array: Array) -> str:
        """Write one array that is there and return its SHA-256."""
        pieces = (array[start : start + _PIECE] for start in range(0, array.size, _PIECE))
        return self.add(name, _type(array), (_little(piece).tobytes() for piece in pieces))

    def finish(self, meta: Mapping[str, JSON]) -> None:
        """Write the header and put the file in its place."""
        self._pad()
        header = canonical_bytes({"kind": self._kind, "meta": dict(meta), "arrays": self._arrays})
        place = self._file.tell()
        self._file.write(header)
        self._file.seek(0)
        self._file.write(_PREAMBLE.pack(MAGIC, FORMAT, place, len(header), hashlib.sha256(header).digest()))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._path)

    def _pad(self) -> None:
        self._file.write(bytes(-self._file.tell() % _ALIGN))


def _header(file: Any, head: bytes, path: Path) -> dict[str, JSON]:
    if len(head) < _PREAMBLE_SIZE or not head.startswith(MAGIC):
        raise DataError(f"{path} is no file of this suite", why="it does not begin like one")
    _, version, place, length, wanted = _PREAMBLE.unpack_from(head)
    if version != FORMAT:
        raise DataError(f"{path} has format {version}", why=f"this release reads format {FORMAT}", fix=_BUILD_AGAIN)
    size = file.seek(0, os.SEEK_END)
    if place + length != size:
        raise _damaged(path, f"it has {size} bytes, not {place + length}")
    file.seek(place)
    header = file.read(length)
    if hashlib.sha256(header).digest() != wanted:
        raise _damaged(path, "its header has another digest")
    return json.loads(header)  # type: ignore[no-any-return]


def _mapped(mapped: mmap.mmap, form: Mapping[str, JSON]) -> Array:
    dtype = np.dtype(_TYPES[form["type"]])
    if sys.byteorder == "big":
        dtype = dtype.newbyteorder("<")
    if not form["count"]:
        return np.zeros(0, dtype)
    return np.frombuffer(mapped, dtype, form["count"], form["offset"])


def _type(array: Array) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"


def _shape(name: str, array: Array) -> list[JSON]:
    return [name, _type(array), int(array.size)]


def _little(array: Array) -> Array:
    return array if sys.byteorder == "little" else array.astype(array.dtype.newbyteorder("<"))


def _sha256(array: Array) -> str:
    total = hashlib.sha256()
    for start in range(0, array.size, _PIECE):
        total.update(np.ascontiguousarray(_little(array[start : start + _PIECE])).data.cast("B"))
    return total.hexdigest()


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path} is damaged", why=why, fix=_BUILD_AGAIN)
