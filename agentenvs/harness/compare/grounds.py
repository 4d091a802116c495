"""On what grounds runs may be compared: the same world, made and judged alike, and the same scenarios.

What a player is, sees and is told is what is compared; it may differ, and stands in the list of differences. Whether
the scenarios are the same is seen in :mod:`~agentenvs.harness.compare.pairing`, from their digests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentenvs.core.canon import JSON

if TYPE_CHECKING:
    from agentenvs.harness.report import Run

_SHOWN = frozenset({"admissible"})
"""Options that change what a player is shown, and not the world."""

_OF_ONE_RUN = (
    "run_id", "submission_id", "created", "schema_version", "results", "episode_table_digest", "merkle_root",
    "signatures", "exclusions", "complete",
)  # fmt: skip

_PLAY_AGAIN = "play one of them again, so that both are of one"


class Reason(NamedTuple):
    """Why runs cannot be compared."""

    what: str
    fix: str


def reasons(runs: Sequence[Run], across: Collection[str] = ()) -> list[Reason]:
    """Return why these runs cannot be compared; nothing where they can, as far as their manifests tell.

    Args:
        runs: At least one; each is held against the first.
        across: Options that are part of what is compared, and so may differ.
    """
    found: dict[Reason, None] = {}
    for run in runs[1:]:
        found |= dict.fromkeys(_between(runs[0], run, across))
    return list(found)


def _between(one: Run, other: Run, across: Collection[str]) -> Iterator[Reason]:
    first, second = one.manifest.envs[0], other.manifest.envs[0]
    if first.env_id != second.env_id:
        yield Reason(f"they are of two environments: {first.env_id} and {second.env_id}", "compare runs of one")
        return
    if first.env_version != second.env_version:
        what = f"they are of two releases of {first.env_id}: {first.env_version} and {second.env_version}"
        yield Reason(what, f"{_PLAY_AGAIN} release")
    elif first.spec_digest != second.spec_digest:
        what = f"the environment says other things of itself: spec {_short(first.spec_digest, second.spec_digest)}"
        yield Reason(what, f"{_PLAY_AGAIN} version of the code")
    if None not in (first.scorer_hash, second.scorer_hash) and first.scorer_hash != second.scorer_hash:
        what = f"they were judged by different code: {_short(first.scorer_hash, second.scorer_hash)}"
        yield Reason(what, f"{_PLAY_AGAIN} version of the code; `agentenvs rescore RUN` says whether scores moved")
    if one.manifest.user != other.manifest.user:
        yield Reason("their simulated users are not the same", "play both with one user")
    if first.split != second.split:
        yield Reason(f"they are of two splits: {first.split} and {second.split}", "compare runs of one split")
    yield from _options(_world(one), _world(other), across)
    budgets = [{item.name: item.amount for item in entry.budgets} for entry in (first, second)]
    if budgets[0] != budgets[1] and not across and _world(one) == _world(other):
        yield Reason(f"their episodes had other budgets: {budgets[0]} and {budgets[1]}", "play both with one budget")


def _options(first: dict[str, JSON], second: dict[str, JSON], across: Collection[str]) -> Iterator[Reason]:
    for name in sorted(first.keys() | second.keys()):
        mine, other = first.get(name), second.get(name)
        if mine != other and name not in across:
            what = f"the option {name} was {json.dumps(mine)} and {json.dumps(other)}"
            yield Reason(what, f"play both with one {name}, or say that it is what you compare: --across {name}")


def _world(run: Run) -> dict[str, JSON]:
    options: dict[str, JSON] = json.loads(run.manifest.envs[0].options)
    return {name: value for name, value in options.items() if name not in _SHOWN}


def _short(*digests: str | None) -> str:
    return " and ".join((digest or "unknown")[:12] for digest in digests)


class Row(NamedTuple):
    """One thing that is not the same in all manifests."""

    what: str
    values: tuple[JSON, ...]


def manifest_rows(runs: Sequence[Run]) -> list[Row]:
    """Return what differs in the manifests of runs, apart from what is new in each run anyway."""
    flat = [_flat(run.manifest.model_dump(mode="json")) for run in runs]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = [Row(name, tuple(one.get(name) for one in flat)) for name in names]
    return [row for row in rows if any(value != row.values[0] for value in row.values)]


def _flat(manifest: dict[str, Any]) -> dict[str, JSON]:
    """Return the manifest as dotted names and plain values; the options of the environment one by one."""
    found: dict[str, JSON] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{name}.{key}" if name else key, item)
        else:
            found[name] = value

    for name, value in manifest.items():
        if name == "envs":
            entry = dict(value[0])
            entry["options"] = json.loads(entry["options"])
            entry["budgets"] = {item["name"]: item["amount"] for item in entry["budgets"]}
            walk("environment", entry)
        elif name not in _OF_ONE_RUN:
            walk(name, value)
    return found
