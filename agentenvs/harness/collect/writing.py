"""Writes rows of chat data out of run folders, and beside them which rules kept what.

    FILE                   a JSON line an episode: messages, tools, spans, where it is from
    FILE.manifest.json     rules, runs, counts kept and dropped by reason, digest of FILE

Loaders take FILE as it is. ``tools`` is a JSON string: loaders that make columns of nested objects would mix the
arguments of one tool with another's.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentenvs._version import __version__
from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import ConfigError, RecordError
from agentenvs.core.record import Record, parse_records
from agentenvs.harness import folder as folders
from agentenvs.harness import planfile
from agentenvs.harness.collect.rules import REASONS, Rules
from agentenvs.harness.collect.telling import Dropped, Told, Words, tell
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.prompting import functions
from agentenvs.harness.protocol import Protocol, load
from agentenvs.harness.report import Run, read_run

_MODEL = "openai"
"""The policy whose words are in its sidecar."""

Progress = Callable[[int, int, int], None]
"""Called with episodes looked at, in all, and kept so far."""


@dataclass(slots=True)
class Collected:
    """What came of it."""

    kept: int = 0
    privileged: int = 0
    """Rows of players that were shown the hidden scenario."""
    dropped: Counter[str] = field(default_factory=Counter)
    played: int = 0

    def to_json(self) -> dict[str, JSON]:
        """Return the counts."""
        return {
            "played": self.played,
            "kept": self.kept,
            "privileged": self.privileged,
            "dropped": {reason: self.dropped[reason] for reason in REASONS if self.dropped[reason]},
        }


def manifest_path(out: Path) -> Path:
    """Return the file beside the data that says how they came to be."""
    return out.with_name(f"{out.name}.manifest.json")


def refuse_taken(out: Path) -> None:
    """Refuse a file that is there, before anything is played.

    Raises:
        ConfigError: It is, or cannot be made.
    """
    for path in (out, manifest_path(out)):
        if os.path.lexists(path):
            raise ConfigError(f"{path} is there already", why="data are never overwritten", fix="give another --out")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent}", fix="make it, or give another --out")


def collect(
    runs: Sequence[Path],
    out: Path,
    rules: Rules,
    machine: Mapping[str, Any],
    progress: Progress | None = None,
    *,
    env: str | None = None,
) -> Collected:
    """Write the episodes of runs that the rules keep, each played again first.

    Args:
        runs: Run folders, all of one environment.
        out: A file that is not there yet.
        rules: Which are kept.
        machine: Options that no record holds, such as the folder of game files.
        progress: Told of every episode.
        env: Id of the environment the runs must be of; whatever they are of where None.

    Raises:
        UserError: Some subclass: a folder is no run, or its environment is not to be had here; nothing was written.
        OSError: The file cannot be written; nothing is left of it.
    """
    refuse_taken(out)
    found = [read_run(folder) for folder in runs]
    played = {run.manifest.envs[0].env_id for run in found}
    if env is not None and (other := sorted(played - {env})):
        raise ConfigError(f"a run is of {other[0]}, not of {env}", fix=f"agentenvs collect {other[0]} --from …")
    if len(played) > 1:
        raise ConfigError("the runs are of several environments", fix="collect from each by itself")
    work = _Work(rules, machine, sum(len(run.episodes) for run in found), progress)
    part, whole = out.with_name(f".{out.name}.part"), sha256()
    try:
        with part.open("xb") as file:
            for run in found:
                for row in work.rows(run):
                    line = (canonical(row) + "\n").encode()
                    whole.update(line)
                    file.write(line)
        folders.write_json(manifest_path(out), _manifest(found, rules, work, whole.hexdigest()))
        part.replace(out)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return work.came


class _Work:
    """Goes through the episodes of runs."""

    def __init__(self, rules: Rules, machine: Mapping[str, Any], planned: int, progress: Progress | None) -> None:
        self.came = Collected()
        self.protocols: dict[str, str] = {}
        self._rules = rules
        self._machine = machine
        self._planned = planned
        self._progress = progress
        self._paths: set[str] = set()
        self._scenarios: Counter[str] = Counter()

    def rows(self, run: Run) -> Iterator[dict[str, JSON]]:
        """Yield the rows of a run, in order of number."""
        protocol = _protocol(run)
        self.protocols[protocol.name] = protocol.digest
        for episode in sorted(run.episodes, key=lambda one: one["number"]):
            self.came.played += 1
            try:
                row = self._row(run, protocol, episode)
            except Dropped as dropped:
                self.came.dropped[dropped.reason] += 1
            else:
                self.came.kept += 1
                self.came.privileged += row["privileged"]
                yield row
            if self._progress is not None:
                self._progress(self.came.played, self._planned, self.came.kept)

    def _row(self, run: Run, protocol: Protocol, episode: Mapping[str, JSON]) -> dict[str, JSON]:
        if (reason := self._rules.refuses(episode)) is not None:
            raise Dropped(reason)
        record = _record(run.folder, episode)
        told = tell(record, protocol, _words(run, episode), **self._machine)
        if self._rules.distinct and told.path in self._paths:
            raise Dropped("duplicate")
        scenario = str(episode["scenario_digest"])
        if self._rules.per_scenario is not None and self._scenarios[scenario] >= self._rules.per_scenario:
            raise Dropped("over_the_cap")
        self._paths.add(told.path)
        self._scenarios[scenario] += 1
        return _written(run, protocol, episode, record, told)


def _protocol(run: Run) -> Protocol:
    """Return the protocol in whose words a run's episodes are told.

    Raises:
        ConfigError: The model was not shown whole conversations.
    """
    if run.manifest.agent.name != _MODEL:
        return load("native")
    settings = planfile.settings_of(planfile.read(run.folder).settings)
    if not isinstance(settings, OpenAISettings):
        return load("native")
    protocol = settings.load_protocol()
    if protocol.style != "chat" or protocol.history.keep is not None:
        raise ConfigError(
            f"the run in {run.folder} showed its model no whole conversations",
            why=f"protocol {protocol.name}, history {settings.history or 'as the protocol'}",
            fix="play it with --protocol native --history full",
        )
    return protocol


def _record(folder: Path, episode: Mapping[str, JSON]) -> Record:
    path = folders.record_path(folder, int(episode["number"]))
    try:
        records = parse_records(path.read_bytes(), str(path))
    except (OSError, RecordError) as error:
        raise Dropped("not_replayed", str(error)) from error
    if len(records) != 1 or records[0].digest != episode["record"]:
        raise Dropped("not_replayed", "not the record that the run lists")
    return records[0]


def _words(run: Run, episode: Mapping[str, JSON]) -> Words | None:
    """Return what a model was asked and said; None for a player without words, or whose words are its own affair."""
    if run.manifest.agent.name != _MODEL:
        return None
    path = folders.sidecar_path(run.folder, int(episode["number"]))
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["policy"]
        calls, tools = kept["calls"], kept["channel"] == "tool"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Dropped("unreadable_reply", str(error)) from error
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise Dropped("unreadable_reply")
    return Words(calls, tools)


def _written(run: Run, protocol: Protocol, episode: Mapping[str, JSON], record: Record, told: Told) -> dict[str, JSON]:
    spec = registry.spec(record.header["env"])
    tools = canonical(functions(protocol, spec)) if told.tools else None
    return {
        "id": f"{run.manifest.run_id}/{episode['number']}",
        "messages": told.messages,
        "tools": tools,
        "spans": [span._asdict() for span in told.spans],
        "env": spec.id,
        "release": spec.release,
        "split": episode["split"],
        "index": episode["index"],
        "scenario": episode["scenario_digest"],
        "record": record.digest,
        "player": run.name,
        "privileged": bool(record.header["privileged"]),
        "success": episode["success"],
        "reward": episode["reward"],
        "turns": episode["turns"],
    }


def _manifest(runs: Sequence[Run], rules: Rules, work: _Work, whole: str) -> dict[str, JSON]:
    return {
        "schema_version": 1,
        "agentenvs": __version__,
        "verified": True,
        "env": runs[0].manifest.envs[0].model_dump(mode="json") if runs else None,
        "runs": [
            {"run_id": run.manifest.run_id, "player": run.name, "merkle_root": run.manifest.merkle_root} for run in runs
        ],
        "protocols": work.protocols,
        "rules": rules.to_json(),
        "reasons": {name: said for name, said in REASONS.items() if work.came.dropped[name]},
        **work.came.to_json(),
        "sha256": whole,
    }


__all__ = ["Collected", "Rules", "collect", "manifest_path", "refuse_taken"]
