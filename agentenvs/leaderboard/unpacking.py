"""Reads the file of a submission with suspicion: nothing is written to disk, nothing is read that was not announced.

A bundle is a ZIP file of the plainest kind. Its entries must fill the file from the first byte to the directory,
without gaps and without overlaps, and their names must be the few that a bundle has: what is not there cannot be
hidden. Sizes are held against limits before a byte is unpacked, and again while unpacking, since a directory may lie.
"""

from __future__ import annotations

import hashlib
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from pydantic import ValidationError

from agentenvs.harness.manifest import Manifest
from agentenvs.leaderboard import texts
from agentenvs.leaderboard.bundle import MANIFEST, SUBMISSION, TABLE, Submission, record_name, submission_of
from agentenvs.leaderboard.refusals import Refused

_RECORD = re.compile(r"records/(\d{6})\.jsonl")
_ARCHIVE = re.compile(r"\.(zip|gz|tgz|bz2|xz|7z|rar|tar|zst|jar|whl)$", re.IGNORECASE)
_LOCAL = struct.Struct("<4s5H3I2H")
_END = struct.Struct("<4s4H2IH")
_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x05\x06"
_PLAIN_FLAGS = 0x0800
"""The only flag an entry may have: that its name is UTF-8."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a bundle may be at most."""

    file_bytes: int = 64 << 20
    entries: int = 20_003
    unpacked_bytes: int = 512 << 20
    entry_bytes: int = 64 << 20
    ratio: int = 200
    """Times an entry may grow when unpacked, beyond the first 64 KiB."""
    line_bytes: int = 1 << 20


LIMITS = Limits()
_SMALL = 64 << 10


@dataclass(frozen=True, slots=True)
class Bundle:
    """A submission that was read; nothing in it is believed yet."""

    digest: str
    """SHA-256 of the file."""
    submission: Submission
    manifest: Manifest | None
    table: bytes | None
    records: tuple[bytes, ...]
    """In order of number."""


def read(data: bytes, limits: Limits = LIMITS) -> Bundle:
    """Read a bundle.

    Raises:
        Refused: It is none, or too much of one.
    """
    if len(data) > limits.file_bytes:
        raise Refused("oversize", f"the file has {len(data):,} bytes", why=f"at most {limits.file_bytes:,} are taken")
    entries = _entries(data, limits)
    _check_layout(data, entries)
    found = {entry.filename: _unpacked(data, entry, limits) for entry in entries}
    if SUBMISSION not in found:
        raise Refused("no-bundle", f"there is no {SUBMISSION} in it", fix="make it with `agentenvs leaderboard pack`")
    _check_lines(found, limits)
    submission = submission_of(found[SUBMISSION])
    records = tuple(_records(found))
    manifest = None if MANIFEST not in found else _manifest(found[MANIFEST])
    return Bundle(hashlib.sha256(data).hexdigest(), submission, manifest, found.get(TABLE), records)


def _entries(data: bytes, limits: Limits) -> list[zipfile.ZipInfo]:
    """Return what the directory lists, after everything that can be known without unpacking."""
    _check_end(data, limits)
    try:
        with zipfile.ZipFile(BytesIO(data)) as file:
            entries = file.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError, EOFError) as error:
        raise Refused("no-bundle", "the file is no ZIP file", why=str(error)[:200]) from error
    if len(entries) > limits.entries:
        raise Refused("zip-bomb", f"it has {len(entries):,} entries", why=f"at most {limits.entries:,} are taken")
    _check_names(entries)
    for entry in entries:
        _check_entry(entry, limits)
    whole = sum(entry.file_size for entry in entries)
    if whole > limits.unpacked_bytes:
        raise Refused("zip-bomb", f"it unpacks to {whole:,} bytes", why=f"at most {limits.unpacked_bytes:,} are taken")
    return entries


def _check_end(data: bytes, limits: Limits) -> None:
    """Hold the file to one directory at its very end, without a comment or a second form of 64 bits."""
    place = len(data) - _END.size
    if place < 0 or data[place : place + 4] != _END_MAGIC or data[:4] not in (_MAGIC, _END_MAGIC):
        raise Refused(
            "no-bundle",
            "the file is no plain ZIP file",
            why="it must begin with an entry and end with its directory",
            fix="make it with `agentenvs leaderboard pack`",
        )
    _, disk, first_disk, here, count, size, offset, _ = _END.unpack_from(data, place)
    if count > limits.entries or 0xFFFF in (here, count) or 0xFFFFFFFF in (size, offset):
        raise Refused("zip-bomb", f"it announces {count:,} entries", why=f"at most {limits.entries:,} are taken")
    if disk or first_disk or here != count or offset + size != place:
        raise Refused("overlap", "the directory of the file is not where it says", why="something may be hidden there")


def _check_names(entries: Sequence[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for entry in entries:
        name = entry.orig_filename
        if name != entry.filename or any(not 32 <= ord(char) < 127 for char in name):
            raise Refused("text", f"an entry is named {name[:60]!r}", why="names are plain ASCII")
        if name.startswith(("/", "\\")) or "\\" in name or re.match(r"[A-Za-z]:", name) or ".." in name.split("/"):
            raise Refused("path", f"an entry is named {name[:60]!r}", why="a bundle names no places outside itself")
        if name.casefold() in seen:
            raise Refused("duplicate-name", f"there are two entries {name[:60]!r}", why="each reader might see another")
        seen.add(name.casefold())
    for entry in entries:
        name = entry.filename
        if _ARCHIVE.search(name):
            raise Refused("nested", f"it holds the archive {name[:60]!r}", why="records are not packed twice")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if name.endswith("/") or kind not in (0, stat.S_IFREG) or entry.external_attr & 0x10:
            raise Refused("link", f"{name[:60]!r} is no plain file", why="links and folders lead elsewhere")
        if name not in (SUBMISSION, MANIFEST, TABLE) and not _RECORD.fullmatch(name):
            raise Refused("stray", f"{name[:60]!r} does not belong in a bundle", fix="leave it out")


def _check_entry(entry: zipfile.ZipInfo, limits: Limits) -> None:
    name = entry.filename
    if entry.flag_bits & 0x2041:
        raise Refused("encrypted", f"{name} is encrypted", why="what cannot be read cannot be verified")
    if entry.flag_bits & ~_PLAIN_FLAGS or entry.extra or entry.comment:
        raise Refused("overlap", f"{name} carries more than its content", why="something may be hidden there")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused("compression", f"{name} is compressed by method {entry.compress_type}", fix="use deflate")
    if entry.file_size > limits.entry_bytes:
        raise Refused("zip-bomb", f"{name} unpacks to {entry.file_size:,} bytes", why=f"at most {limits.entry_bytes:,}")
    if entry.file_size > _SMALL and entry.file_size > limits.ratio * max(entry.compress_size, 1):
        raise Refused(
            "zip-bomb", f"{name} grows {entry.file_size // max(entry.compress_size, 1):,} times", why="records do not"
        )


def _check_layout(data: bytes, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Hold the entries to lie one behind another, and each to say of itself what the directory says."""
    place = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset != place or place + _LOCAL.size > len(data):
            raise Refused("overlap", f"{entry.filename} overlaps another entry, or leaves a gap before it")
        magic, _, flags, method, _, _, check, packed, size, named, extra = _LOCAL.unpack_from(data, place)
        begin = place + _LOCAL.size
        said = (magic, flags, method, check, packed, size, extra, data[begin : begin + named])
        listed = (entry.flag_bits, entry.compress_type, entry.CRC, entry.compress_size, entry.file_size)
        if said != (_MAGIC, *listed, 0, entry.filename.encode()):
            raise Refused("overlap", f"{entry.filename} says of itself something else than the directory does")
        place = begin + named + packed
    if place != _END.unpack_from(data, len(data) - _END.size)[6]:
        raise Refused("overlap", "something lies between the entries and their directory")


def _unpacked(data: bytes, entry: zipfile.ZipInfo, limits: Limits) -> bytes:
    begin = entry.header_offset + _LOCAL.size + len(entry.filename)
    packed = data[begin : begin + entry.compress_size]
    if entry.compress_type == zipfile.ZIP_STORED:
        out = packed
    else:
        machine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            out = machine.decompress(packed, min(entry.file_size, limits.entry_bytes) + 1)
        except zlib.error as error:
            if str(error).startswith("Error -4"):  # its memory, not its data
                raise MemoryError from error
            raise Refused("no-bundle", f"{entry.filename} cannot be unpacked", why=str(error)) from error
        if machine.unused_data or machine.unconsumed_tail or not machine.eof:
            raise Refused("zip-bomb", f"{entry.filename} unpacks to something else than it announces")
    if len(out) != entry.file_size or zlib.crc32(out) != entry.CRC:
        raise Refused("zip-bomb", f"{entry.filename} unpacks to something else than it announces")
    return out


def _check_lines(found: dict[str, bytes], limits: Limits) -> None:
    for name, data in found.items():
        if len(data) > limits.line_bytes and max(map(len, data.split(b"\n"))) > limits.line_bytes:
            raise Refused("long-line", f"a line of {name} is too long", why=f"at most {limits.line_bytes:,} bytes")


def _records(found: dict[str, bytes]) -> Iterator[bytes]:
    count = sum(1 for name in found if _RECORD.fullmatch(name))
    if not count:
        raise Refused("dropped", "there are no records in it", fix="make it with `agentenvs leaderboard pack`")
    for number in range(count):
        data = found.get(record_name(number))
        if data is None:
            raise Refused("dropped", f"record {number} is missing", why="records are numbered without gaps")
        yield data


def _manifest(data: bytes) -> Manifest:
    try:
        made = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise Refused("form", f"{MANIFEST} is none", why=f"{where}: {first['msg']}"[:300]) from error
    texts.check_text(made.agent.name, "agent of the manifest", 200, lines=True)
    if made.model is not None:
        texts.check_text(made.model.id, "model of the manifest", 200, lines=True)
    if not made.envs:
        raise Refused("form", f"{MANIFEST} names no environment")
    return made
