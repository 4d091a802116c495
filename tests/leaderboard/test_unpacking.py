"""Every kind of file that is no honest bundle is refused, each for its own reason, before anything is unpacked."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import replace

import pytest

from agentenvs.leaderboard import bundle as bundles
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.refusals import REASONS, Refused, from_json, title
from agentenvs.leaderboard.texts import check_name, key_of
from agentenvs.leaderboard.unpacking import LIMITS, Limits, read

WORDS = Submission(contestant="Ada", agent="searcher").to_bytes()
RECORD = "records/000000.jsonl"
SMALL = replace(LIMITS, file_bytes=4_096, entries=4, unpacked_bytes=200_000, entry_bytes=150_000, line_bytes=1_000)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in entries:
            made.writestr(name, data)
        made.comment = comment
    return out.getvalue()


def plain(*more: tuple[str | zipfile.ZipInfo, bytes], **how) -> bytes:
    return zipped(("submission.json", WORDS), (RECORD, b"{}\n"), *more, **how)


def info(name: str, **fields) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def patched(data: bytes, at: int, change: bytes) -> bytes:
    return data[:at] + change + data[at + len(change) :]


def directory(data: bytes) -> int:
    return struct.unpack_from("<I", data, len(data) - 6)[0]


def reason(data: bytes, limits: Limits = LIMITS) -> str:
    with pytest.raises(Refused) as caught:
        read(data, limits)
    assert caught.value.code == REASONS[caught.value.reason][0]
    assert caught.value.why or caught.value.what
    return caught.value.reason


def test_what_is_packed_is_read_and_has_one_spelling():
    words = Submission(contestant="Ada", agent="searcher", notes="two\nlines")
    data = bundles.pack(words, [b"one\n", b"two\n"])
    assert data == bundles.pack(words, [b"one\n", b"two\n"])
    found = read(data)
    assert found.submission == words
    assert found.records == (b"one\n", b"two\n")
    assert found.manifest is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (("../records/000001.jsonl", b""), "path"),
        (("/etc/passwd", b""), "path"),
        (("records\\000001.jsonl", b""), "path"),
        (("C:records", b""), "path"),
        (("records/../../x", b""), "path"),
        (("records/", b""), "link"),
        ((info(RECORD[:-7] + "1.jsonl", external_attr=0o120777 << 16), b"/etc/passwd"), "link"),
        ((info(RECORD[:-7] + "1.jsonl", external_attr=0o020666 << 16), b""), "link"),
        (("inner.zip", b""), "nested"),
        (("records/000001.jsonl.gz", b""), "nested"),
        (("notes.txt", b""), "stray"),
        (("records/1.jsonl", b""), "stray"),
        (("records/00000\u0661.jsonl", b""), "text"),
        (("records/\u202e.jsonl", b""), "text"),
        (("records/\x07.jsonl", b""), "text"),
        (("SUBMISSION.JSON", b""), "duplicate-name"),
        ((info("manifest.json", extra=b"\x01\x00\x02\x00ab"), b"{}"), "overlap"),
        ((info("manifest.json", comment=b"psst"), b"{}"), "overlap"),
    ],
)
def test_an_entry_that_does_not_belong(entry, expected):
    assert reason(plain(entry)) == expected


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name():
    assert reason(plain((RECORD, b"other\n"))) == "duplicate-name"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_odd_compression(method):
    assert reason(plain(method=method)) in ("compression", "overlap")
    data = plain()
    odd = patched(data, directory(data) + 10, struct.pack("<H", 99))
    assert reason(odd) == "compression"


def test_an_encrypted_entry():
    data = plain()
    assert reason(patched(data, directory(data) + 8, b"\x01\x00")) == "encrypted"


def test_a_bomb_by_ratio_by_size_and_by_number():
    assert reason(plain(("manifest.json", b"\0" * 140_000)), SMALL) == "zip-bomb"
    assert reason(plain(("manifest.json", b"\0" * (1 << 20)))) == "zip-bomb"
    many = [(f"records/{number:06d}.jsonl", b"") for number in range(1, 6)]
    assert reason(plain(*many), SMALL) == "zip-bomb"
    heavy = [(bundles.record_name(number), bytes(range(256)) * 400) for number in range(1, 3)]
    assert reason(zipped(("submission.json", WORDS), *heavy), replace(SMALL, ratio=1_000)) == "zip-bomb"


def test_an_entry_that_unpacks_to_more_than_it_says():
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(b"a" * 100_000) + packer.flush()
    data = plain()
    place = data.index(b"{}\n") if b"{}\n" in data else None
    assert place is None  # three bytes are deflated too
    lying = zipped(("submission.json", WORDS), (RECORD, b"a" * 100_000))
    for at in (lying.index(RECORD.encode()) - 8, directory(lying) + 46 + len("submission.json") + 24):
        lying = patched(lying, at, struct.pack("<I", 1_000))
    assert len(body) < 1_000
    assert reason(lying) == "zip-bomb"


def test_entries_that_overlap_or_leave_gaps():
    data = plain()
    second = directory(data) + 46 + len("submission.json")
    assert reason(patched(data, second + 42, struct.pack("<I", 0))) == "overlap"
    assert reason(plain(comment=b"hidden")) == "no-bundle"
    assert reason(b"#!/bin/sh\n" + data) == "no-bundle"
    assert reason(data + b"more") == "no-bundle"
    at = directory(data)
    moved = data[:at] + b"hidden" + data[at:-6] + struct.pack("<I", at + 6) + data[-2:]
    assert reason(moved) == "overlap"
    assert reason(patched(data, data.index(RECORD.encode()), b"records/000007.jsonl")) == "overlap"


@pytest.mark.parametrize("data", [b"", b"PK", b"junk" * 100, b"\x1f\x8b" + b"\0" * 50])
def test_what_is_no_zip_file(data):
    assert reason(data) == "no-bundle"


def test_every_cut_of_a_bundle_is_refused():
    data = plain()
    for length in range(len(data)):
        assert reason(data[:length]) in ("no-bundle", "overlap", "zip-bomb")


def test_every_flipped_byte_is_refused_or_changes_nothing():
    data = plain()
    for place in range(len(data)):
        try:
            found = read(patched(data, place, bytes([data[place] ^ 0x20])))
        except Refused:
            continue
        assert (found.submission.to_bytes(), found.records) == (WORDS, (b"{}\n",))


def test_oversize_and_long_lines():
    assert reason(b"x" * 5_000, SMALL) == "oversize"
    assert reason(plain(("manifest.json", bytes(range(32, 127)) * 20)), SMALL) == "long-line"


def test_records_are_numbered_without_gaps():
    assert reason(zipped(("submission.json", WORDS), ("records/000001.jsonl", b"{}\n"))) == "dropped"
    assert reason(zipped(("submission.json", WORDS))) == "dropped"
    assert reason(zipped((RECORD, b"{}\n"))) == "no-bundle"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"contestant": "<b>Ada</b>"}, "text"),
        ({"contestant": "Ada&copy;"}, "text"),
        ({"contestant": "A\u202eda"}, "text"),
        ({"contestant": "A\u200bda"}, "text"),
        ({"contestant": "A\x1b[31mda"}, "text"),
        ({"contestant": "A\nda"}, "text"),
        ({"contestant": "Ada\u3164"}, "text"),
        ({"contestant": "Ada\u2800"}, "text"),
        ({"contestant": "Ada\ufe0f"}, "text"),
        ({"contestant": "\u0410da"}, "text"),
        ({"contestant": "e\u0301" * 3}, "text"),
        ({"contestant": "x" + "\u0336" * 9}, "text"),
        ({"contestant": ""}, "text"),
        ({"contestant": " Ada"}, "text"),
        ({"contestant": "A" * 61}, "text"),
        ({"agent": '"><script>'}, "text"),
        ({"version": "1\x00"}, "text"),
        ({"notes": "x" * 2_001}, "text"),
        ({"notes": "\u2066hidden"}, "text"),
        ({"image": "latest"}, "form"),
        ({"rank": 1}, "form"),
        ({"contestant": 7}, "form"),
    ],
)
def test_words_that_cannot_be_shown(words, expected):
    import json

    form = {**json.loads(WORDS), **words}
    data = json.dumps(form).encode()
    assert reason(zipped(("submission.json", data), (RECORD, b"{}\n"))) == expected


@pytest.mark.parametrize("other", ["ADA", "\u0410\u0501\u0430", "\uff21da", "A-d a", "\u00c5da"])
def test_names_that_look_alike_are_one(other):
    assert key_of(other) == key_of("Ada")
    assert key_of("AIan 1O") == key_of("Alan l0") != key_of("Aran 10")


def test_names_of_every_script_are_taken():
    for name in ("\u042e\u0440\u0430", "\u03a3\u03bf\u03c6\u03af\u03b1", "\u6771\u4eac 2", "Team \u03b2"):
        assert check_name(name, "name") == name


def test_a_refusal_travels_as_json():
    first = Refused("copied", "what", why="why", fix="fix")
    again = from_json(first.to_json())
    assert again is not None
    assert (again.reason, str(again)) == ("copied", str(first))
    assert from_json({"code": "AE101"}) is None
    assert title("LB401") == "the play of somebody else"
    assert len({code for code, _ in REASONS.values()}) == len(REASONS)
