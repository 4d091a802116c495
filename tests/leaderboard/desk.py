"""A contestant's desk: runs that were really played, and every way of tampering with them before they are sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.harness.manifest import merkle_root
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.leaderboard import bundle as bundles
from agentenvs.leaderboard.boards import Board, Wanted, plan
from agentenvs.leaderboard.bundle import Submission

EPISODES = 8

Lines = list[dict[str, Any]]


def board(**more: Any) -> Board:
    """Return a small board of the household."""
    return plan(Wanted(**{"env": "household", "split": "test", "episodes": EPISODES, **more}))


def played(folder: Path, policy: str, **more: Any) -> Path:
    """Play a run and return its folder."""
    config = {"env": "household", "split": "test", "episodes": EPISODES, "policy": policy, "out": folder, **more}
    evaluate(RunConfig(**config))
    return folder


@dataclass(frozen=True)
class Desk:
    """A run, taken apart."""

    records: tuple[Lines, ...]
    manifest: dict[str, Any]
    table: Lines
    submission: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Desk:
        """Take a run apart."""
        records = [_lines(path.read_bytes()) for path in sorted((folder / "records").iterdir())]
        table = sorted(_lines((folder / "episodes.jsonl").read_bytes()), key=lambda line: line["number"])
        return cls(tuple(records), json.loads((folder / "manifest.json").read_bytes()), table)

    def named(self, **words: Any) -> Desk:
        """Return it with other words of the contestant."""
        return replace(self, submission={**self.submission, **words})

    def record(self, number: int, change: Callable[[Lines], Any]) -> Desk:
        """Return it with a record changed."""
        copy = json.loads(json.dumps(self.records[number]))
        change(copy)
        return replace(self, records=(*self.records[:number], copy, *self.records[number + 1 :]))

    def every(self, change: Callable[[Lines], Any]) -> Desk:
        """Return it with every record changed."""
        desk = self
        for number in range(len(self.records)):
            desk = desk.record(number, change)
        return desk

    def told(self, change: Callable[[dict[str, Any]], Any]) -> Desk:
        """Return it with a changed manifest."""
        copy = json.loads(json.dumps(self.manifest))
        change(copy)
        return replace(self, manifest=copy)

    def tabled(self, change: Callable[[Lines], Any]) -> Desk:
        """Return it with a changed table of episodes."""
        copy = json.loads(json.dumps(self.table))
        change(copy)
        return replace(self, table=copy)

    def with_records(self, records: Any, table: Any) -> Desk:
        """Return it with other records and their lines."""
        lines = [{**line, "number": number} for number, line in enumerate(table)]
        return replace(self, records=tuple(records), table=lines)

    def sent(self, *, consistent: bool = True, rechain: bool = True) -> bytes:
        """Return the bundle.

        Args:
            consistent: Compute everything anew that follows from what was changed, as a forger would.
            rechain: Compute the chains of the records anew.
        """
        spelled = [chained(lines) if rechain else raw(lines) for lines in self.records]
        table, manifest = json.loads(json.dumps(self.table)), json.loads(json.dumps(self.manifest))
        if consistent:
            for line, data in zip(table, spelled, strict=True):
                line["record"] = json.loads(data.splitlines()[-1])["h"]
            won = sum(line["success"] for line in table)
            manifest["episode_table_digest"], manifest["merkle_root"] = digest(table), merkle_root(spelled)
            manifest["results"] |= {"episodes": len(table), "successes": won}
            manifest["results"]["success_rate_millionths"] = round(won / max(len(table), 1) * 1_000_000)
        words = Submission(**{"contestant": "Ada", "agent": "searcher", **self.submission})
        return bundles.pack(words, spelled, canonical_bytes(manifest), raw(table))


class Thief:
    """Plays what somebody else has played, with an idle look around before."""

    script: ClassVar[list[list[Any]]] = []

    def reset(self, spec: EnvSpec, task: Task) -> None:
        self.left = ["look", *self.script[task.ref.index]]

    def act(self, observation: Observation) -> Any:
        return self.left.pop(0)


def chained(lines: Lines) -> bytes:
    """Return lines as the bytes of a record whose chain holds."""
    before, spelled = "", b""
    for line in lines:
        plain = {name: value for name, value in line.items() if name != "h"}
        before = hashlib.sha256(before.encode() + canonical_bytes(plain)).hexdigest()
        spelled += canonical_bytes({**plain, "h": before}) + b"\n"
    return spelled


def raw(lines: Lines) -> bytes:
    """Return lines as they stand."""
    return b"".join(canonical_bytes(line) + b"\n" for line in lines)


def _lines(data: bytes) -> Lines:
    return [json.loads(line) for line in data.splitlines()]
