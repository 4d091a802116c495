"""Writes exports: an episode at a time, into a file or folder that is put in its place when it is whole.

=========  ===============================================================================================
Inspect    ``OUT.eval`` or ``OUT.json`` of one run; else a folder with a log for each run
SFT        a file of JSON lines, an episode each, of all runs
ATIF       a folder, with a folder for each run, with a document for each episode
OTLP       a file of JSON lines, an episode each, of all runs
=========  ===============================================================================================

The same run gives the same bytes; those of a zip also depend on the zlib that deflates it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from agentenvs.adapters.exports import atif, inspect, otel, sft
from agentenvs.adapters.exports.reading import Source
from agentenvs.adapters.exports.spelling import spelled
from agentenvs.adapters.exports.telling import Story, Teller
from agentenvs.adapters.exports.words import nanoseconds
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

Format = Literal["inspect", "sft", "atif", "otel"]
FORMATS: tuple[Format, ...] = ("inspect", "sft", "atif", "otel")

Progress = Callable[[int, int, int], None]
"""Called with episodes written, in all, and how many of those written were won."""


@dataclass(slots=True)
class Exported:
    """What came of it."""

    files: int = 0
    episodes: int = 0
    won: int = 0
    verified: int = 0
    not_verified: dict[str, str] = field(default_factory=dict)
    """Why, by episode: ``<run>/<number>``; the first thousand."""
    unverified: int = 0
    endings: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, JSON]:
        """Return it as JSON."""
        return {
            "files": self.files,
            "episodes": self.episodes,
            "won": self.won,
            "endings": dict(sorted(self.endings.items())),
            "verified": self.verified,
            "unverified": self.unverified,
            "not_verified": self.not_verified,
        }


class _Sink(Protocol):
    """Where the episodes of a run go."""

    def add(self, story: Story) -> None:
        """Write an episode."""


def export(
    runs: Sequence[Path],
    to: Format,
    out: Path,
    *,
    only_won: bool = False,
    verify: bool = False,
    machine: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write runs in the format of others.

    Args:
        runs: Run folders that have ended.
        to: The format.
        out: A file or folder that is not there yet.
        only_won: Whether other episodes are left out; else each stands there, and says how it ended.
        verify: Whether each record is played again first, and what it shows is told.
        machine: Options that no record holds, such as the folder of game files.
        progress: Told of every episode.

    Raises:
        ConfigError: The file is there, or the same run is named twice.
        DataError: A folder is no run, has not ended, or holds what its manifest does not name. Nothing is left.
        UserError: Some subclass: to verify, and the environment is not to be had here. Nothing is left.
        OSError: The file cannot be written. Nothing is left of it.
    """
    _refuse_taken(out)
    sources = [Source(folder, only_won=only_won) for folder in runs]
    _refuse_twice(sources)
    came = Exported()
    total = sum(run.totals.episodes for run in sources)
    with _placed(out, folder=_is_folder(to, out, len(sources))) as part, _opened(to, part) as shared:
        for run in sources:
            with _sink(to, part, out, run, shared, only_won=only_won) as sink:
                for story in _stories(run, verify, machine or {}):
                    sink.add(story)
                    _count(came, story)
                    if progress is not None:
                        progress(came.episodes, total, came.won)
            came.files += to == "inspect"
    came.files = {"inspect": came.files, "atif": came.episodes}.get(to, 1)
    return came


def _stories(run: Source, verify: bool, machine: Mapping[str, Any]) -> Iterator[Story]:
    teller = Teller(run, verify, machine)
    trials: Counter[tuple[str, int]] = Counter()
    for line in run.lines():
        address = (line["split"], line["index"])
        trials[address] += 1
        yield teller.tell(line, trials[address])


def _count(came: Exported, story: Story) -> None:
    came.episodes += 1
    came.won += bool(story.line["success"])
    came.endings[story.line["ending"]] += 1
    if story.verified:
        came.verified += 1
    elif story.verified is False:
        came.unverified += 1
        if len(came.not_verified) < 1000:
            came.not_verified[story.name] = story.why


# ---- the place -------------------------------------------------------------------------------------------------------


def _refuse_taken(out: Path) -> None:
    if os.path.lexists(out):
        raise ConfigError(f"{out} is there already", why="an export overwrites nothing", fix="give another --out")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent}", fix="make it, or give another --out")


def _refuse_twice(sources: Sequence[Source]) -> None:
    if not sources:
        raise ConfigError("no run is named", fix="give run folders")
    names = Counter(run.manifest.run_id for run in sources)
    name, count = names.most_common(1)[0]
    if count > 1:
        folders = ", ".join(str(run.folder) for run in sources if run.manifest.run_id == name)
        raise ConfigError(f"the run {name} is named twice", why=folders, fix="name it once")


def _is_folder(to: Format, out: Path, runs: int) -> bool:
    if to != "inspect":
        return to == "atif"
    if out.suffix in (".eval", ".json"):
        if runs > 1:
            raise ConfigError(f"{out} holds one run, not {runs}", fix="give --out a folder: a log for each run")
        return False
    return True


@contextmanager
def _placed(out: Path, *, folder: bool) -> Iterator[Path]:
    """Give a place beside the real one, and put it there when all has come well; else nothing is left."""
    part = out.with_name(f".{out.name}.part")
    if os.path.lexists(part):
        raise ConfigError(f"{part} is in the way", why="another export is at work, or was cut off", fix="remove it")
    try:
        if folder:
            part.mkdir()
        yield part
        _refuse_taken(out)
        part.replace(out)
    finally:
        if folder:
            shutil.rmtree(part, ignore_errors=True)
        else:
            with suppress(OSError):
                part.unlink(missing_ok=True)


@contextmanager
def _opened(to: Format, part: Path) -> Iterator[IO[bytes] | None]:
    """Give the one file of the formats that have one for all runs."""
    if to not in ("sft", "otel"):
        yield None
        return
    with part.open("xb") as file:
        yield file


# ---- the formats -----------------------------------------------------------------------------------------------------


def _sink(
    to: Format, part: Path, out: Path, run: Source, shared: IO[bytes] | None, *, only_won: bool
) -> AbstractContextManager[_Sink]:
    if shared is not None:
        return nullcontext(_Lines(shared, sft.row if to == "sft" else otel.request))
    if to == "atif":
        return nullcontext(_Documents(part / run.manifest.run_id))
    log, kind = (part, out.suffix) if out.suffix in (".eval", ".json") else (part / _log_name(run), ".eval")
    return _zipped(log, run, only_won) if kind == ".eval" else _whole(log, run, only_won)


def _log_name(run: Source) -> str:
    """Return the name of a log as Inspect names them: when, what, and which."""
    header = inspect.header(run, only_won=False)["eval"]
    return f"{header['created'].replace(':', '-')}_{header['task'].replace('_', '-')}_{run.manifest.run_id}.eval"


@dataclass(slots=True)
class _Lines:
    """A line an episode."""

    file: IO[bytes]
    form: Callable[[Story], dict[str, JSON]]

    def add(self, story: Story) -> None:
        self.file.write(spelled(self.form(story)).encode() + b"\n")


@dataclass(slots=True)
class _Documents:
    """A file an episode."""

    folder: Path

    def add(self, story: Story) -> None:
        self.folder.mkdir(exist_ok=True)
        text = spelled(atif.trajectory(story))
        (self.folder / f"{story.line['number']:06d}.json").write_text(text + "\n", encoding="utf-8")


@dataclass(slots=True)
class _Zipped:
    """A member an episode, and a summary that is put beside them in the end."""

    archive: ZipFile
    summaries: IO[bytes]
    count: int = 0
    played: int = 0

    def add(self, story: Story) -> None:
        form = inspect.sample(story)
        _member(self.archive, f"samples/{form['id']}_epoch_{form['epoch']}.json", form)
        self.summaries.write((b"," if self.count else b"[") + spelled(inspect.summary(form)).encode())
        self.count += 1
        self.played += nanoseconds(story.seconds)


@contextmanager
def _zipped(path: Path, run: Source, only_won: bool) -> Iterator[_Sink]:
    """Write a log of Inspect as it keeps them: a zip of JSON, the header last."""
    header = inspect.header(run, only_won=only_won)
    with ZipFile(path, "x", ZIP_DEFLATED) as archive, tempfile.TemporaryFile() as summaries:
        start = {name: header[name] for name in ("version", "eval", "plan")}
        _member(archive, "_journal/start.json", start)
        sink = _Zipped(archive, summaries)
        yield sink
        summaries.write(b"]" if sink.count else b"[]")
        summaries.seek(0)
        with archive.open(_info("summaries.json"), "w", force_zip64=True) as member:
            shutil.copyfileobj(summaries, member)
        _member(archive, "header.json", inspect.header(run, only_won=only_won, played=sink.played))


def _member(archive: ZipFile, name: str, form: JSON) -> None:
    archive.writestr(_info(name), spelled(form).encode())


def _info(name: str) -> ZipInfo:
    """Return an entry that tells neither time nor machine."""
    info = ZipInfo(name)
    info.compress_type = ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o644 << 16
    return info


@dataclass(slots=True)
class _Whole:
    """An entry of one long list an episode."""

    file: IO[bytes]
    count: int = 0
    played: int = 0

    def add(self, story: Story) -> None:
        self.file.write((b"," if self.count else b"") + spelled(inspect.sample(story)).encode())
        self.count += 1
        self.played += nanoseconds(story.seconds)


@contextmanager
def _whole(path: Path, run: Source, only_won: bool) -> Iterator[_Sink]:
    """Write a log of Inspect as one JSON document, its samples behind the rest; what they took is put in at the end."""
    head = spelled(inspect.header(run, only_won=only_won)).encode().removesuffix(b"}") + b',"samples":['
    with path.open("xb") as file:
        file.write(head)
        sink = _Whole(file)
        yield sink
        file.write(b"]}\n")
        mark = b'"completed_at":"'
        file.seek(head.rindex(mark) + len(mark))
        file.write(inspect.moment(run, sink.played).encode())
