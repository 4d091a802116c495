"""The folder of a run: where it lies, and how episodes get into it as they end.

    manifest.json     who played what with which code, and digests over the rest; written last
    episodes.jsonl    a summary line an episode, in the order they ended
    records/          one episode record each: replayable, hash-chained
    sidecars/         texts, raw replies, times
    summary.json      rates with intervals, per task type
    report.html       the same to look at

What is written stays: a run that is interrupted, or fails, keeps every episode that ended before.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
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


def keep(folder: Path, episode: Episode) -> None:
    """Write an ended episode.

    Raises:
        DataError: The disk does not take it.
    """
    number = episode.summary.number
    sidecar = json.dumps(episode.sidecar, ensure_ascii=False, default=repr)
    try:
        record_path(folder, number).write_bytes(episode.record)
        (folder / "sidecars" / f"{number:06d}.json").write_text(sidecar, encoding="utf-8", errors="replace")
        with (folder / "episodes.jsonl").open("a", encoding="utf-8") as table:
            table.write(canonical(episode.summary.to_json()) + "\n")
    except OSError as error:
        raise DataError(
            f"episode {number} cannot be written to {folder}", why=str(error), fix="make room; what is written stays"
        ) from error


def record_path(folder: Path, number: int) -> Path:
    """Return the file of an episode's record."""
    return folder / "records" / f"{number:06d}.jsonl"


def read_leaves(folder: Path, episodes: Sequence[EpisodeSummary]) -> Iterator[bytes]:
    """Read the records back, one at a time, in the order of the episodes."""
    for episode in episodes:
        yield record_path(folder, episode.number).read_bytes()


def write_json(path: Path, value: JSON) -> None:
    """Write canonical JSON and a newline."""
    path.write_text(canonical(value) + "\n", encoding="utf-8")
