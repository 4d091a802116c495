"""What lies in the folders that are viewed: runs of evaluations and of training, each under a name for addresses.

An address never holds a path: a page names a run by its name here, and only what was found can be opened. Folders are
looked through again every few seconds, links are not followed.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from agentenvs.core.errors import AgentEnvsError, DataError
from agentenvs.harness import planfile
from agentenvs.harness.manifest import Manifest, read_manifest
from agentenvs.harness.planfile import PlanFile
from agentenvs.harness.runs.scanning import TABLE
from agentenvs.view import files
from agentenvs.view.index import Index

LOOK_SECONDS = 2.0
ACTIVE_SECONDS = 600.0
"""A run without an end that was written to within so many seconds is being played."""

METRICS = "metrics.jsonl"
_INSIDE = frozenset({"records", "sidecars", "earlier", "checkpoints", "model", "tokenizer", "node_modules", ".git"})
_MOST_FOLDERS = 50_000

State = Literal["complete", "ended", "running", "open", "damaged"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run says of itself."""

    env: str = ""
    release: str = ""
    split: str = ""
    policy: str = ""
    model: str | None = None
    created: str = ""
    options: str = "{}"
    planned: int | None = None
    state: State = "damaged"
    ended_by: str | None = None
    privileged: bool = False
    why: str | None = None
    """What is wrong with it, where something is."""
    episodes: int | None = None
    """As its manifest counts them; None where it has none."""
    successes: int | None = None
    manifest: Manifest | None = None
    plan: PlanFile | None = None
    trials: int = 1
    """Of each scenario."""

    @property
    def player(self) -> str:
        """The policy, with the model where there is one."""
        return f"{self.policy} {self.model}" if self.model else self.policy

    @property
    def world(self) -> str:
        """The environment's id without the part that all have."""
        return self.env.removeprefix("agentenvs/")

    @property
    def going(self) -> bool:
        """Whether it may still grow."""
        return self.state in ("running", "open")

    @property
    def counted(self) -> bool:
        """Whether its manifest says how much was won, and what it says can be."""
        return bool(self.episodes) and self.successes is not None and 0 <= self.successes <= (self.episodes or 0)

    @property
    def scenarios(self) -> int | None:
        """That were played, as its manifest counts them; None where each was played once."""
        if self.trials == 1 or self.manifest is None:
            return None
        return min(self.manifest.envs[0].tasks, self.episodes or 0)


class Found:
    """A run that was found."""

    def __init__(self, name: str, folder: Path, shown: str, kind: Literal["run", "training"]) -> None:
        self.name = name
        self.folder = folder
        self.shown = shown
        """The folder as a person would write it."""
        self.kind = kind
        self.index = Index(folder)
        self._facts: tuple[Any, Facts] | None = None

    @property
    def facts(self) -> Facts:
        """What it says of itself, read again where it has changed."""
        names = ("config.json", METRICS) if self.kind == "training" else ("manifest.json", planfile.NAME, TABLE)
        stamps = tuple(files.stamp(self.folder / name) for name in names)
        since = time.time() - (max((stamp[2] for stamp in stamps if stamp), default=0) / 1e9)
        key = (stamps, since < ACTIVE_SECONDS)
        if self._facts is None or self._facts[0] != key:
            made = _training(self.folder) if self.kind == "training" else _run(self.folder, active=key[1])
            self._facts = key, made
        return self._facts[1]


class Shelf:
    """The folders that are viewed.

    Args:
        roots: Run folders, or folders that hold some.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise DataError(f"there is no folder {root}", fix="give a run folder, or one that holds some")
        self._roots = list(roots)
        self._lock = threading.Lock()
        self._found: dict[str, Found] = {}
        self._looked = float("-inf")
        self.too_many = False
        """Whether there are more folders than are looked through."""

    def all(self) -> list[Found]:
        """Return what there is, the newest first."""
        found = list(self._now().values())
        return sorted(found, key=lambda one: (one.facts.created, one.name), reverse=True)

    def get(self, name: str) -> Found | None:
        """Return what has that name."""
        return self._now().get(name)

    def at(self, folder: Path) -> Found | None:
        """Return what lies in a folder."""
        real = os.path.realpath(folder)
        return next((one for one in self._now().values() if os.path.realpath(one.folder) == real), None)

    def close(self) -> None:
        """Close all indexes."""
        for one in self._found.values():
            one.index.close()

    def _now(self) -> dict[str, Found]:
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._look()
                self._looked = time.monotonic()
            return self._found

    def _look(self) -> None:
        there = {str(one.folder): one for one in self._found.values()}
        fresh: dict[str, Found] = {}
        seen = 0
        self.too_many = False
        for root in self._roots:
            for place, folders, names in os.walk(root):
                seen += 1
                self.too_many = self.too_many or seen > _MOST_FOLDERS
                if self.too_many:
                    break
                kind = _kind(names)
                folders[:] = [] if kind == "run" else sorted(set(folders) - _INSIDE)
                if kind is not None:
                    one = there.get(place) or Found(_name(Path(place)), Path(place), place, kind)
                    fresh.setdefault(one.name, one)
        self._found = fresh


def _kind(names: Sequence[str]) -> Literal["run", "training"] | None:
    if TABLE in names or planfile.NAME in names or "manifest.json" in names:
        return "run"
    return "training" if METRICS in names and "config.json" in names else None


def _name(folder: Path) -> str:
    real = os.path.realpath(folder)
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(real).name).strip("-.")[:40] or "run"
    return f"{slug}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:8]}"


def _run(folder: Path, *, active: bool) -> Facts:
    for name in ("manifest.json", planfile.NAME, TABLE):
        if os.path.lexists(folder / name) and files.stamp(folder / name) is None:
            return Facts(why=f"{name} is no regular file")
    try:
        if (folder / "manifest.json").exists():
            return _ended(read_manifest(folder / "manifest.json"))
        plan = planfile.read(folder)
    except AgentEnvsError as error:
        return Facts(why=f"{error.what}{f': {error.why}' if error.why else ''}")
    entry, model = plan.entry, plan.model
    return Facts(
        entry.env_id,
        entry.env_version,
        entry.split,
        plan.agent.name,
        None if model is None else model.id,
        plan.created,
        entry.options,
        len(plan.indices),
        "running" if active else "open",
        privileged=plan.agent.privileged,
        plan=plan,
        trials=entry.trials,
    )


def _ended(made: Manifest) -> Facts:
    if len(made.envs) != 1:
        return Facts(why=f"its manifest is of {len(made.envs)} environments", created=made.created)
    entry, model = made.envs[0], made.model
    return Facts(
        entry.env_id,
        entry.env_version,
        entry.split,
        made.agent.name,
        None if model is None else model.id,
        made.created,
        entry.options,
        entry.tasks * entry.trials,
        "complete" if made.complete else "ended",
        made.ended_by,
        made.agent.privileged,
        episodes=made.results.episodes,
        successes=made.results.successes,
        manifest=made,
        trials=entry.trials,
    )


def _training(folder: Path) -> Facts:
    try:
        config = orjson.loads(files.read(folder, "config.json", 4_000_000))
        if not isinstance(config, dict):
            raise ValueError("it is no object")
    except (files.UnreadableError, ValueError) as error:
        return Facts(why=f"config.json: {error}")
    worlds = config.get("worlds")
    names = sorted(map(str, worlds)) if isinstance(worlds, dict) else []
    stamp = files.stamp(folder / "config.json") or (0, 0, 0)
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp[2] / 1e9))
    moved = (files.stamp(folder / METRICS) or (0, 0, 0))[2] / 1e9
    ended = (folder / "model").is_dir()
    state: State = "complete" if ended else "running" if time.time() - moved < ACTIVE_SECONDS else "open"
    said = f"{config.get('method', '?')}, seed {config.get('seed', '?')}"
    steps = config.get("steps")
    planned = steps if isinstance(steps, int) else None
    return Facts(
        env=", ".join(names), split="train", policy=said, created=made, planned=planned, state=state,
        options=orjson.dumps(config).decode(),
    )  # fmt: skip
