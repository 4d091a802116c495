"""Reads a run folder for the index: what it says of itself, and a row for each line of its table.

A run that is being played, or was killed, has no manifest and may end in half a line: that is how it stands, and no
damage. A line that is whole and makes no sense is damage: it is named, and the rest is read.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.harness import manifest as manifests
from agentenvs.harness import planfile
from agentenvs.harness.planfile import PlanFile

TABLE = "episodes.jsonl"
_INSIDE = frozenset({"records", "sidecars", "earlier"})
_MOST = 2**63 - 1

Row = tuple[Any, ...]

COLUMNS = (
    "number", "split", "index", "scenario", "scenario_digest", "record", "kind", "difficulty", "par", "attempt",
    "ending", "success", "reward", "episode_return", "turns", "invalid", "undone", "stopped", "fault", "error",
    "tokens_in", "tokens_out", "tokens_cached", "cost_microusd", "metrics",
)  # fmt: skip
"""What a row holds, in order."""


class Damage(NamedTuple):
    """What could not be read."""

    file: str
    line: int
    """From 1; 0 is the whole file."""
    why: str


@dataclass(frozen=True, slots=True)
class Table:
    """The bytes of a table of episodes, as far as its lines are whole."""

    data: bytes
    torn: bool
    """Whether something followed the last whole line."""

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def grown_from(self, size: int, digest: str) -> bool:
        """Return whether an earlier table of that size and digest is the beginning of this one."""
        return size <= len(self.data) and hashlib.sha256(self.data[:size]).hexdigest() == digest


@dataclass(frozen=True, slots=True)
class Scanned:
    """A run folder, but for its rows."""

    folder: Path
    facts: dict[str, Any]
    """Columns of the run."""
    table: Table
    expected: str | None
    """Digest of the table of episodes in the manifest's spelling; None where there is no manifest."""
    damage: list[Damage] = field(default_factory=list)


def find(path: Path) -> Iterator[Path]:
    """Yield the run folders at or below a path, in order of name; links are not followed.

    Raises:
        DataError: There is nothing at the path.
    """
    if not path.is_dir():
        raise DataError(f"there is no folder {path}", fix="give a run folder, or one that holds some")
    for root, folders, files in os.walk(path):
        if TABLE in files or planfile.NAME in files:
            folders.clear()
            yield Path(root)
        else:
            folders[:] = sorted(set(folders) - _INSIDE)


def scan(folder: Path) -> Scanned:
    """Read what a run folder says of itself.

    Raises:
        DataError: It says nothing that can be used: neither a plan nor a manifest, or damaged ones.
    """
    made, digest = _manifest(folder)
    if made is None:
        planned = planfile.read(folder)
        facts = _facts(planned) | {"state": "open", "ended_by": None, "restarted": None, "retried": None}
    else:
        facts = _ended(made)
    table = _table(folder)
    facts |= {
        "folder": _storable(folder.absolute()),
        "manifest": digest,
        "table_bytes": len(table.data),
        "table_digest": table.digest,
    }
    # Counts follow from the table; the place says nothing of what a run holds.
    known = {name: value for name, value in facts.items() if name != "folder"}
    facts["content"] = hashlib.sha256(orjson.dumps([known, table.torn], option=orjson.OPT_SORT_KEYS)).hexdigest()
    damage = [Damage(TABLE, table.data.count(b"\n") + 1, "half a line")] if table.torn and made else []
    return Scanned(folder, facts, table, made.episode_table_digest if made else None, damage)


def rows(data: bytes, first: int, seen: set[int], damage: list[Damage]) -> Iterator[Row]:
    """Read the lines of a table; what makes no sense is added to the damage.

    Args:
        data: Whole lines.
        first: Number of the first one in its file.
        seen: Numbers of the episodes before; is added to.
        damage: Is added to.
    """
    for number, line in enumerate(BytesIO(data), start=first):
        try:
            row = _row(orjson.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            damage.append(Damage(TABLE, number, _why(error)))
            continue
        if row[0] in seen:
            damage.append(Damage(TABLE, number, f"episode {row[0]} is listed twice"))
            continue
        seen.add(row[0])
        yield row


def is_as_listed(table: Table, expected: str) -> bool:
    """Return whether a table is the one that a manifest was made over.

    Its lines are canonical, so the digest over them in order of number needs no spelling anew.
    """
    numbers, places, place = array("q"), array("q"), 0
    try:
        for line in BytesIO(table.data):
            numbers.append(int(orjson.loads(line)["number"]))
            places.append(place)
            place += len(line)
    except (ValueError, TypeError, KeyError, OverflowError):
        return False
    whole = hashlib.sha256(b"[")
    for rank, one in enumerate(sorted(range(len(numbers)), key=numbers.__getitem__)):
        start = places[one]
        whole.update((b"," if rank else b"") + table.data[start : table.data.index(b"\n", start)])
    whole.update(b"]")
    return whole.hexdigest() == expected


def _manifest(folder: Path) -> tuple[manifests.Manifest | None, str | None]:
    path = folder / "manifest.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise DataError(f"{path} cannot be read", why=str(error)) from error
    return manifests.read_manifest(path), hashlib.sha256(data).hexdigest()


def _table(folder: Path) -> Table:
    try:
        data = (folder / TABLE).read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise DataError(f"{folder / TABLE} cannot be read", why=str(error)) from error
    whole = data.rfind(b"\n") + 1
    return Table(data[:whole], whole < len(data))


def _facts(plan: PlanFile) -> dict[str, Any]:
    return _common(plan.run_id, plan.created, plan.entry, plan.agent, plan.model) | {
        "planned": len(plan.indices),
        "price_table": plan.price_table,
    }


def _ended(made: manifests.Manifest) -> dict[str, Any]:
    if len(made.envs) != 1:
        raise DataError(f"run {made.run_id} names {len(made.envs)} environments, not one")
    entry = made.envs[0]
    return _common(made.run_id, made.created, entry, made.agent, made.model) | {
        "planned": entry.tasks * entry.trials,
        "price_table": made.price_table,
        "state": "complete" if made.complete else "ended",
        "ended_by": made.ended_by,
        "restarted": made.harness.restarted,
        "retried": made.harness.retried,
    }


def _common(
    run_id: str,
    created: str,
    entry: manifests.EnvEntry,
    agent: manifests.AgentEntry,
    model: manifests.ModelEntry | None,
) -> dict[str, Any]:
    if len(run_id) != 36 or not run_id.replace("-", "").isalnum() or not run_id.isascii():
        raise DataError("the name of a run is no UUID", why=repr(run_id[:80]))
    if len(created) > 20 or not created.isascii() or not created.isprintable():
        raise DataError(f"run {run_id} was made at no time", why=repr(created[:80]))
    bounded = {"env": (entry.env_id, 200), "release": (entry.env_version, 40), "split": (entry.split, 200)}
    for name, (value, most) in bounded.items():
        if len(value) > most:
            raise DataError(f"run {run_id} has a {name} of {len(value)} characters")
    return {
        "id": run_id,
        "created": created,
        "env": _clean(entry.env_id),
        "release": _clean(entry.env_version),
        "spec": entry.spec_digest,
        "split": _clean(entry.split),
        "panel": None if entry.panel is None else _clean(entry.panel)[:64],
        "options": _clean(entry.options),
        "policy": _clean(agent.name),
        "privileged": agent.privileged,
        "model": None if model is None else _clean(model.id),
    }


def _row(line: Mapping[str, JSON]) -> Row:
    usage, attempt, undone = line["usage"], line.get("attempt", 1), line.get("undone", 0)
    number, turns, invalid, index = line["number"], line["turns"], line["invalid"], line["index"]
    counts = {"number": number, "turns": turns, "invalid": invalid, "attempt": attempt, "undone": undone}
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value < 2**31:
            raise ValueError(f"{name} is {value!r:.60}")
    if type(index) is not int or abs(index) > _MOST:
        raise ValueError(f"index is {index!r:.60}")
    if type(line["success"]) is not bool:
        raise ValueError(f"success is {line['success']!r:.60}")
    return (
        number,
        _text(line["split"], 200),
        index,
        _text(line["scenario"]),
        _text_or_none(line["scenario_digest"], 64),
        _text(line["record"], 64),
        _label(line["kind"]),
        _label(line.get("difficulty")),
        _count(line["par"]),
        attempt,
        _text(line["ending"], 12),
        line["success"],
        _real(line["reward"]),
        _real(line["episode_return"]),
        turns,
        invalid,
        undone,
        _text_or_none(line.get("stopped")),
        _text_or_none(line.get("fault"), 12),
        _text_or_none(line.get("error")),
        _count(usage.get("tokens_in")),
        _count(usage.get("tokens_out")),
        _count(usage.get("tokens_cached")),
        _count(usage.get("cost_microusd")),
        _clean(orjson.dumps(line.get("metrics") or {}).decode()),
    )


def _text(value: Any, most: int | None = None) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.60} should be text")
    if most is not None and len(value) > most:
        raise ValueError(f"a text of {len(value)} characters where {most} are the most")
    return value if "\0" not in value else _clean(value)


def _label(value: Any) -> str | None:
    """Return a label as text: a world may number its kinds."""
    return str(value) if type(value) in (int, float, bool) else _text_or_none(value)


def _text_or_none(value: Any, most: int | None = None) -> str | None:
    return None if value is None else _text(value, most)


def _count(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= _MOST):
        return value
    if type(value) is float and 0 <= value <= 2**53:  # a policy of one's own may count in halves
        return round(value)
    raise ValueError(f"{value!r:.60} is no count")


def _real(value: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise ValueError(f"{value!r:.60} is no number")


def _clean(text: str) -> str:
    """Return text that every database takes: PostgreSQL has no NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _storable(path: Path) -> str:
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fix = "give the folder another name"
        raise DataError(f"the name of {text!a} is no UTF-8", why=str(error), fix=fix) from error
    return text


def _why(error: Exception) -> str:
    said = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    return _clean(said.encode("utf-8", "replace").decode())[:300]
