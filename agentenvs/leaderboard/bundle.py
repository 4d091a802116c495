"""A submission as one file: who sends it, the manifest, the table of episodes, and every record.

    submission.json    who, in their own words
    manifest.json      of the run; a hosted run may have none
    episodes.jsonl     what the run says of each episode: claims, held against the records
    records/000000.jsonl …

A ZIP file, since everybody can open one; the same content gives the same bytes, so its SHA-256 is its name.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import DataError
from agentenvs.harness.folder import record_path
from agentenvs.harness.lines import read_lines
from agentenvs.harness.manifest import read_manifest
from agentenvs.leaderboard import texts
from agentenvs.leaderboard.refusals import Refused

SUBMISSION, MANIFEST, TABLE, RECORDS = "submission.json", "manifest.json", "episodes.jsonl", "records"
_LEVEL = 6
_TIME = (1980, 1, 1, 0, 0, 0)


class Submission(BaseModel):
    """Who sends it, in their own words."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    contestant: str
    """A person or a group: whose attempts are counted together."""
    agent: str
    version: str = ""
    contact: str = ""
    """For whoever runs the board; never shown."""
    notes: str = ""
    image: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$")
    """Digest of the container image that played the worlds, where one did."""

    @field_validator("contestant", "agent")
    @classmethod
    def _named(cls, value: str) -> str:
        return texts.check_name(value, "name")

    @field_validator("version")
    @classmethod
    def _versioned(cls, value: str) -> str:
        return texts.check_text(value, "version", texts.VERSION)

    @field_validator("contact")
    @classmethod
    def _reached(cls, value: str) -> str:
        return texts.check_text(value, "contact", texts.CONTACT)

    @field_validator("notes")
    @classmethod
    def _noted(cls, value: str) -> str:
        return texts.check_text(value, "notes", texts.NOTES, lines=True)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical_bytes(self.model_dump(mode="json")) + b"\n"


def submission_of(data: bytes) -> Submission:
    """Read a submission's own words.

    Raises:
        Refused: They are none, or cannot be shown.
    """
    try:
        return Submission.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise Refused("form", f"{SUBMISSION} is none", why=f"{where}: {first['msg']}"[:300]) from error


def record_name(number: int) -> str:
    """Return the name of a record's entry."""
    return f"{RECORDS}/{number:06d}.jsonl"


def pack(
    submission: Submission, records: Sequence[bytes], manifest: bytes | None = None, table: bytes | None = None
) -> bytes:
    """Return the file of a submission.

    Args:
        submission: Who sends it.
        records: In order of number.
        manifest: Of the run; only a hosted run may do without.
        table: Its ``episodes.jsonl``; likewise.
    """
    entries = [(SUBMISSION, submission.to_bytes())]
    entries += [(name, data) for name, data in ((MANIFEST, manifest), (TABLE, table)) if data is not None]
    entries += [(record_name(number), data) for number, data in enumerate(records)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL, strict_timestamps=True) as made:
        for name, data in entries:
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            made.writestr(info, data)
    return out.getvalue()


def pack_folder(folder: Path, submission: Submission) -> bytes:
    """Return the file of a run.

    Raises:
        DataError: It is no run folder, has not ended, or a record is missing.
    """
    read_manifest(folder / "manifest.json")
    try:
        manifest, table = (folder / MANIFEST).read_bytes(), (folder / TABLE).read_bytes()
        return pack(submission, list(_records(folder)), manifest, table)
    except (OSError, ValueError, zlib.error) as error:
        raise DataError(
            f"{folder} cannot be packed", why=str(error)[:300], fix="give the folder of a run that has ended"
        ) from error


def _records(folder: Path) -> Iterator[bytes]:
    for place, line in enumerate(read_lines(folder / TABLE)):
        if line.summary.number != place:
            raise ValueError(f"episode {place} is missing: the run is not complete")
        yield record_path(folder, place).read_bytes()
