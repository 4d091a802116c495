"""The folder of a run: where it lies, and how episodes get into it as they end.

    plan.json         what the run set out to do; written first
    attempts.jsonl    a line for each episode that was begun, before it is played
    episodes.jsonl    a summary line an episode, in the order they ended
    records/          one episode record each: replayable, hash-chained
    sidecars/         texts, raw replies, times
    earlier/          attempts whose episode was played again, with records and sidecars
    summary.json      rates with intervals, per task type
    manifest.json     who played what with which code, and digests over the rest; a run without one has not ended
    report.html       the same to look at

What is written stays: a run that is interrupted, or fails, keeps every episode that ended before. One process at a time
writes to a folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.rollout import Episode, EpisodeSummary


def make_folder(out: Path | None, slug: str, policy: str) -> Path:
    """Make the folder of a new run and return it.

    Args:
        out: Where the user wants it; ``runs/<slug>--<policy>/<time>-<id>`` where None.
        slug: Of the environment.
        policy: Name of the policy.

    Raises:
        ConfigError: It is not empty, or cannot be made.
    """
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = out or Path("runs") / f"{slug}--{re.sub(r'[^A-Za-z0-9._-]+', '-', policy)}" / stamp
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", why="a run never overwrites another", fix="give another --out")
    try:
        for part in ("records", "sidecars"):
            (folder / part).mkdir(parents=True)
        (folder / "episodes.jsonl").touch()
    except FileExistsError as error:
        raise ConfigError(
            f"{folder} was taken at this moment", why="a run never overwrites another", fix="give another --out"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the run folder {folder} cannot be made", why=str(error), fix="give another --out"
        ) from error
    return folder


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run's folder; the lock goes with this process, however it ends.

    Where the platform or the disk has no such lock, nobody is kept out.

    Raises:
        ConfigError: Another process holds it, or it is not there.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"{folder} is no run folder", why=str(error), fix="give the folder of a run") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"the run in {folder} is being played", why="another process holds its folder", fix="wait for its end"
            ) from error
        except OSError:
            pass
        yield
    finally:
        os.close(handle)


def begin(folder: Path, number: int, attempt: int) -> None:
    """Note that an episode is begun.

    Raises:
        DataError: The disk does not take it.
    """
    try:
        append(folder / "attempts.jsonl", {"number": number, "attempt": attempt})
    except OSError as error:
        raise _refused(folder, number, error) from error


def keep(folder: Path, episode: Episode) -> None:
    """Write an ended episode.

    Raises:
        DataError: The disk does not take it.
    """
    number = episode.summary.number
    sidecar = json.dumps(episode.sidecar, ensure_ascii=False, default=repr)
    record, beside = record_path(folder, number), sidecar_path(folder, number)
    try:
        record.write_bytes(episode.record)
        beside.write_text(sidecar, encoding="utf-8", errors="replace")
        append(folder / "episodes.jsonl", episode.summary.to_json())
    except OSError as error:
        for path in (record, beside):  # half a record is none
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise _refused(folder, number, error) from error


def _refused(folder: Path, number: int, error: OSError) -> DataError:
    fix = f"make room, then `agentenvs eval --resume {folder}`; what is written stays"
    return DataError(f"episode {number} cannot be written to {folder}", why=str(error), fix=fix)


def append(path: Path, value: JSON) -> None:
    """Append a line of canonical JSON, whole or not at all.

    Raises:
        OSError: The disk does not take it.
    """
    line = (canonical(value) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            file.truncate(before)
            raise


def replace(path: Path, data: bytes) -> None:
    """Write a file in the place of another: whoever looks sees the one or the other, whole.

    Raises:
        OSError: The disk does not take it.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def record_path(folder: Path, number: int) -> Path:
    """Return the file of an episode's record."""
    return folder / "records" / f"{number:06d}.jsonl"


def sidecar_path(folder: Path, number: int) -> Path:
    """Return the file of an episode's sidecar."""
    return folder / "sidecars" / f"{number:06d}.json"


def read_leaves(folder: Path, episodes: Sequence[EpisodeSummary]) -> Iterator[bytes]:
    """Read the records back, one at a time, in the order of the episodes."""
    for episode in episodes:
        yield record_path(folder, episode.number).read_bytes()


def write_json(path: Path, value: JSON) -> None:
    """Write canonical JSON and a newline.

    Raises:
        OSError: The disk does not take it.
    """
    replace(path, (canonical(value) + "\n").encode())
