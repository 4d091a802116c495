"""How a run goes on: what is in its folder, what of it counts, and what is to be played.

A run may have ended anywhere: by its budget, by a key, by a killed process in the middle of a line. What counts is an
episode whose line is whole and whose record is the one the line names. Everything else that was begun is begun again:

* an attempt that was in flight when the process went: its traces are removed, its line stays in ``attempts.jsonl``;
* an attempt that was cut by somebody at the keyboard, and, where that is asked for, one that failed by a world, a
  server or a model's endpoint: it moves to ``earlier/`` with record and sidecar, and stays on record.

Each step leaves a folder that the next try reads the same way, so that going on may be killed as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenvs.core.canon import JSON, canonical, canonical_bytes
from agentenvs.core.errors import AgentEnvsError, ContractError, DataError
from agentenvs.harness import folder as folders
from agentenvs.harness.planfile import PlanFile
from agentenvs.harness.rollout import EpisodeSummary, outcome
from agentenvs.harness.summary import infrastructure, summary_of

_TABLE = "episodes.jsonl"
_EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands."""

    planned: int
    kept: tuple[EpisodeSummary, ...]
    """Episodes that count."""
    earlier: tuple[EpisodeSummary, ...]
    """Attempts that do not, but stay on record: those that lie in ``earlier/`` and those to be moved there."""
    moved: tuple[EpisodeSummary, ...]
    """Those to be moved."""
    attempts: Mapping[int, int]
    """Number of an episode -> attempts that were begun."""
    begun: int
    """Attempts that were begun, of all episodes."""

    @classmethod
    def fresh(cls, planned: int) -> Standing:
        """Return that of a run before its first episode."""
        return cls(planned, (), (), (), {}, 0)

    @property
    def todo(self) -> list[int]:
        """Numbers of the episodes to be played, in order."""
        done = {episode.number for episode in self.kept}
        return [number for number in range(self.planned) if number not in done]


def look(folder: Path, written: PlanFile, *, retry_errors: bool) -> Standing:
    """Look into the folder of a run; changes nothing.

    Args:
        folder: The run's.
        written: Its plan.
        retry_errors: Whether what failed by a world, a server or a model's endpoint is to be played again.

    Raises:
        DataError: A line is damaged that was once whole, or is not of this run; the message names it.
    """
    listed = list(_episodes(folder / _TABLE, written))
    earlier = tuple(_episodes(folder / _EARLIER / _TABLE, written, several=True))
    known = {(one.number, one.attempt) for one in earlier}
    kept, moved = [], []
    for episode in listed:
        again = _is_interrupted(episode) or (retry_errors and infrastructure(episode))
        if again or (episode.number, episode.attempt) in known:  # a move that was killed had begun
            moved.append(episode)
        elif (footer := _footer(folder, episode)) is not None:
            _must_agree(folder / _TABLE, episode, footer)
            kept.append(episode)
    attempts: dict[int, int] = {}
    lines = list(_lines(folder / "attempts.jsonl"))
    for where, line in lines:
        number = _number(line, where, written)
        attempts[number] = attempts.get(number, 0) + 1
    for one in (*listed, *earlier):
        attempts[one.number] = max(attempts.get(one.number, 0), one.attempt)
    fresh = tuple(one for one in moved if (one.number, one.attempt) not in known)
    return Standing(
        len(written.indices), tuple(kept), (*earlier, *fresh), tuple(moved), attempts, sum(attempts.values())
    )


def clear(folder: Path, standing: Standing) -> None:
    """Bring a folder into the state that was found in it: nothing torn, nothing that does not count.

    Raises:
        DataError: The disk does not take it.
    """
    try:
        for name in ("manifest.json", "summary.json", "report.html"):  # they speak of another state
            (folder / name).unlink(missing_ok=True)
        if standing.moved:
            _move(folder, standing)
        _rewrite(folder / _TABLE, standing.kept)
        _trim(folder / "attempts.jsonl")
        _sweep(folder, {episode.number for episode in standing.kept})
    except OSError as error:
        raise DataError(f"the run in {folder} cannot go on", why=str(error), fix="make room, then try again") from error


def _move(folder: Path, standing: Standing) -> None:
    away = folder / _EARLIER
    for part in ("records", "sidecars"):
        (away / part).mkdir(parents=True, exist_ok=True)
    for episode in standing.moved:
        for source in (folders.record_path(folder, episode.number), folders.sidecar_path(folder, episode.number)):
            target = away / source.parent.name / f"{source.stem}.{episode.attempt}{source.suffix}"
            with suppress(FileNotFoundError):  # it lies there already, or never came to be
                folders.replace(target, source.read_bytes())
    _rewrite(away / _TABLE, standing.earlier)


def _rewrite(path: Path, episodes: Iterable[EpisodeSummary]) -> None:
    data = "".join(canonical(episode.to_json()) + "\n" for episode in episodes).encode()
    if not path.exists() or path.read_bytes() != data:
        folders.replace(path, data)


def _trim(path: Path) -> None:
    """Cut off a last line that is not whole."""
    if path.exists() and not (data := path.read_bytes()).endswith(b"\n"):
        folders.replace(path, data[: data.rfind(b"\n") + 1])


def _sweep(folder: Path, kept: set[int]) -> None:
    """Remove records and sidecars of attempts that came to nothing."""
    for part in ("records", "sidecars"):
        (folder / part).mkdir(exist_ok=True)
        for path in sorted((folder / part).iterdir()):
            if path.stem.isdecimal() and int(path.stem) not in kept:
                path.unlink()


def _is_interrupted(episode: EpisodeSummary) -> bool:
    return episode.ending == "abandoned" and episode.stopped == "interrupted"


def _footer(folder: Path, episode: EpisodeSummary) -> dict[str, JSON] | None:
    """Return the footer of the record that a line names: its last link is the digest of the whole; None without it."""
    try:
        data = folders.record_path(folder, episode.number).read_bytes()
        footer: dict[str, JSON] = json.loads(data.splitlines()[-1])
        return footer if data.endswith(b"\n") and footer["h"] == episode.record else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _must_agree(table: Path, episode: EpisodeSummary, footer: Mapping[str, JSON]) -> None:
    """Refuse a line that does not say what its record says: a new manifest must not be made over it.

    Raises:
        DataError: It does not.
    """
    try:
        said = outcome(footer)
    except (LookupError, TypeError, ValueError, AgentEnvsError) as error:
        raise _damaged(f"the record of episode {episode.number} in {table.parent}", repr(error)) from error
    for name, value in said.items():
        if (listed := getattr(episode, name)) != value:
            where = f"the line of episode {episode.number} in {table}"
            raise _damaged(where, f"it says {name} {listed!r:.40}, its record {value!r:.40}")


def _episodes(path: Path, written: PlanFile, several: bool = False) -> Iterator[EpisodeSummary]:
    seen: set[int] = set()
    for where, line in _lines(path):
        number = _number(line, where, written)
        try:
            episode = summary_of(line)
        except ValueError as error:
            raise _damaged(where, str(error)) from error
        if (episode.split, episode.index) != (written.split, written.indices[number]):
            raise _damaged(where, f"it is of {episode.split}/{episode.index}, which the plan has not at {number}")
        if number in seen and not several:
            raise _damaged(where, f"episode {number} is listed twice")
        seen.add(number)
        yield episode


def _lines(path: Path) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Read the lines of a file, without a last one that is not whole; the place stands beside each."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{path} cannot be read", why=str(error)) from error
    whole: Sequence[bytes] = data.split(b"\n")[:-1]
    for place, raw in enumerate(whole, start=1):
        where = f"line {place} of {path}"
        try:
            line: Any = json.loads(raw)
            canonical_bytes(line)
        except (ValueError, RecursionError, ContractError) as error:
            raise _damaged(where, _why(error)) from error
        if not isinstance(line, dict):
            raise _damaged(where, "it is no object")
        yield where, line


def _number(line: Mapping[str, JSON], where: str, written: PlanFile) -> int:
    number = line.get("number")
    if type(number) is not int or not 0 <= number < len(written.indices):
        raise _damaged(where, f"{number!r} is the number of no episode of this run")
    return number


def _why(error: Exception) -> str:
    return f"{error.what}: {error.why}" if isinstance(error, ContractError) else str(error)


def _damaged(where: str, why: str) -> DataError:
    return DataError(f"{where} is damaged", why=why, fix="take the line out: its episode is then played again")
