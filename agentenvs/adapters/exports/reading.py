"""Reads a run folder an episode at a time: its lines are found by number, and one is in memory.

What is kept of an episode while the others are read is a number and a place: 16 bytes. The table is held against the
digest of the manifest before anything is exported, and each record against its line.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError, RecordError, UnknownEnvError, UserError
from agentenvs.core.record import Record, parse_records
from agentenvs.core.spec import EnvSpec
from agentenvs.harness import folder as folders
from agentenvs.harness import planfile
from agentenvs.harness.lines import read_line
from agentenvs.harness.manifest import EnvEntry, Manifest, read_manifest
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.protocol import Protocol, load

_NAME = re.compile(r"[0-9A-Za-z-]{1,64}")
_SEALED = "sealed"
"""Name of the splits of which only what is public is exported, where their environment is not to be had here."""


@dataclass(slots=True)
class Totals:
    """What the exported episodes of a run come to; made as they pass, in order of number."""

    episodes: int = 0
    won: int = 0
    failed: int = 0
    """Those that something outside the world ended."""
    reward: float = 0.0
    """Mean."""
    usage: dict[str, int | None] = field(default_factory=dict)
    """Sums; None where an episode did not know its own."""
    _spread: float = 0.0

    def add(self, line: Mapping[str, JSON]) -> None:
        """Count an episode in."""
        self.episodes += 1
        self.won += bool(line["success"])
        self.failed += line["error"] is not None
        off = line["reward"] - self.reward
        self.reward += off / self.episodes
        self._spread += off * (line["reward"] - self.reward)
        for name, value in line["usage"].items():
            so_far = self.usage.get(name, 0)
            self.usage[name] = None if value is None or so_far is None else so_far + value

    @property
    def reward_error(self) -> float:
        """Standard error of the mean reward."""
        return sqrt(self._spread / (self.episodes - 1) / self.episodes) if self.episodes > 1 else 0.0

    @property
    def rate(self) -> float:
        """Share that was won."""
        return self.won / self.episodes if self.episodes else 0.0

    @property
    def rate_error(self) -> float:
        """Standard error of that share, as of a mean."""
        return sqrt(self.rate * (1 - self.rate) / (self.episodes - 1)) if self.episodes > 1 else 0.0


class Source:
    """A run folder that has ended.

    Args:
        folder: The run's.
        only_won: Whether the other episodes are passed over.

    Raises:
        DataError: It is no run folder, has not ended, or holds other episodes than its manifest names.
    """

    def __init__(self, folder: Path, *, only_won: bool = False) -> None:
        self.folder = folder
        for name in ("manifest.json", "episodes.jsonl", planfile.NAME):
            if (folder / name).exists() and not (folder / name).is_file():  # a pipe would be waited for without end
                raise DataError(f"{folder} is no run folder", why=f"{name} is no regular file")
        self.manifest: Manifest = read_manifest(folder / "manifest.json")
        self._path = folder / "episodes.jsonl"
        self._only_won = only_won
        try:
            self._check()
            self._places = _places(self._path)
            self.totals = self._summed()
        except (OSError, ValueError, RecursionError, OverflowError) as error:
            raise DataError(
                f"{folder} is no run folder", why=str(error), fix="give a folder that `agentenvs eval` wrote"
            ) from error
        self.spec = _spec(self.entry)
        self.sealed = _is_sealed(self.entry, self.spec)
        self.protocol, self.whole = _protocol(folder, self.manifest)

    @property
    def entry(self) -> EnvEntry:
        """The environment that was played."""
        return self.manifest.envs[0]

    @property
    def options(self) -> dict[str, JSON]:
        """Its options."""
        found: dict[str, JSON] = json.loads(self.entry.options)
        return found

    @property
    def player(self) -> str:
        """Name of the player, with its model where it has one."""
        agent, model = self.manifest.agent, self.manifest.model
        return f"{agent.name} {model.id}" if model else agent.name

    def lines(self) -> Iterator[dict[str, JSON]]:
        """Yield the lines of the episodes that are exported, in order of number."""
        for form in self._forms():
            if form["success"] or not self._only_won:
                yield form

    def record(self, line: Mapping[str, JSON]) -> tuple[bytes, Record]:
        """Return an episode's record, as it stands and as it is read.

        Raises:
            DataError: It is damaged, or is not the one that the run lists.
        """
        path = folders.record_path(self.folder, int(line["number"]))
        try:
            if path.exists() and not path.is_file():
                raise OSError("it is no regular file")
            data = path.read_bytes()
            records = parse_records(data, str(path))
        except (OSError, RecordError) as error:
            raise DataError(f"the record {path} cannot be used", why=str(error)) from error
        if len(records) != 1 or records[0].digest != line["record"] or records[0].footer is None:
            raise DataError(
                f"the record {path} is not the one that its run lists", fix="take it from where it was made"
            )
        return data, records[0]

    def sidecar(self, line: Mapping[str, JSON]) -> dict[str, Any] | None:
        """Return an episode's sidecar; None where it is missing or damaged: no digest is over it.

        One that is a link is none: it could lead to any file of whoever exports a run of somebody else.
        """
        path = folders.sidecar_path(self.folder, int(line["number"]))
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            return None
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else None
        return None

    def _check(self) -> None:
        made = self.manifest
        if len(made.envs) != 1:
            raise ValueError(f"its manifest is of {len(made.envs)} environments")
        if type(json.loads(self.entry.options)) is not dict:
            raise ValueError("the options of its manifest are no object")
        if not _NAME.fullmatch(made.run_id):
            raise ValueError(f"its name is {made.run_id!r:.80}")

    def _forms(self) -> Iterator[dict[str, JSON]]:
        with self._path.open("rb") as file:
            for place in self._places:
                file.seek(place)
                yield _form(file.readline())

    def _summed(self) -> Totals:
        """Count what is exported, and hold the lines against the manifest: they are canonical, as they stand."""
        totals, whole = Totals(), sha256(b"[")
        with self._path.open("rb") as file:
            for number, place in enumerate(self._places):
                file.seek(place)
                line = file.readline()
                whole.update((b"," if number else b"") + line.removesuffix(b"\n"))
                form = _form(line)
                if form["success"] or not self._only_won:
                    totals.add(form)
        whole.update(b"]")
        if whole.hexdigest() != self.manifest.episode_table_digest:
            raise ValueError("its episodes were changed after the run")
        return totals


def _form(line: bytes) -> dict[str, JSON]:
    """Return a line with every field: one of an earlier release lacks some."""
    return read_line(line).summary.to_json()


def _places(path: Path) -> array[int]:
    """Return where the line of each episode begins, in order of number."""
    numbers, places = array("q"), array("q")
    place = 0
    with path.open("rb") as file:
        for line in file:
            numbers.append(read_line(line).summary.number)
            places.append(place)
            place += len(line)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    if any(numbers[one] == numbers[other] for one, other in pairwise(order)):
        raise ValueError("an episode is listed twice")
    return array("q", (places[one] for one in order))


def _spec(entry: EnvEntry) -> EnvSpec | None:
    """Return what the environment says of itself; None where the same is not to be had here."""
    try:
        found = registry.spec(entry.env_id)
    except UnknownEnvError:
        return None
    return found if found.digest == entry.spec_digest else None


def _is_sealed(entry: EnvEntry, spec: EnvSpec | None) -> bool:
    if entry.split == _SEALED:
        return True
    return spec is not None and any(split.sealed for split in spec.splits if split.name == entry.split)


def _protocol(folder: Path, made: Manifest) -> tuple[Protocol, bool]:
    """Return in whose words a run is told, and whether its model was shown conversations of that shape."""
    native = load("native")
    if made.agent.name != "openai":
        return native, True
    try:
        settings = planfile.settings_of(planfile.read(folder).settings)
        protocol = settings.load_protocol() if isinstance(settings, OpenAISettings) else native
    except UserError:
        return native, False
    return (protocol, True) if protocol.style == "chat" else (native, False)


def number(value: Any, most: float = 2**53) -> Any:
    """Return a number of a sidecar where it is one that any reader takes: finite, not negative; else None."""
    return value if type(value) in (int, float) and isfinite(value) and 0 <= value <= most else None
