"""Records that were altered: replaying or rescoring them must notice, whatever field was changed.

Whoever alters a record chains it anew, so the chain is no help here. A few fields are claims that no replay can prove
(who played, with what it came); these are listed and not held against the environment. What an environment records as
an *effect* is fed back at replay: where it declares to be deterministic, an altered effect must not earn more.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.record import Record, Recorded, effects_of, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import Row, opened, skipped
from agentenvs.harness.audit.theatre import Theatre
from agentenvs.harness.check.findings import Sight, Skip

CLAIMS = ("privileged", "library", "forked_from", "redacted")
"""Fields of a header that say who played and with what; no replay can prove them."""

_FIELDS = "an altered field of a record is noticed, though it is chained anew"
_EFFECTS = "an altered effect of a record does not earn more"
_LOST = "nobody can tell a true record from a false one"
_TURNS = 3
"""Turns of a record of which each field is altered."""


def rows(theatre: Theatre) -> Iterator[Row]:
    """Yield the rows on records."""
    for row in (_fields(theatre), _effects(theatre)):
        yield opened(row, theatre.said.open[row.name]) if row.name in theatre.said.open else row


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return 2


def _fields(theatre: Theatre) -> Row:
    name = "record.altered-fields"
    subject = theatre.subject
    if not subject.spec.capabilities.replayable:
        return skipped(name, _FIELDS, "the spec says replayable: false", _LOST)
    if Sight.RECORD not in subject.sights:
        return skipped(name, _FIELDS, "records are not to be seen from here", _LOST)
    ref = theatre.refs[0]
    lines = _lines(subject.record(ref, theatre.solution(ref)[:200] or ("", "x", "")))
    tried, blind = 0, []
    try:
        for where, altered in _alterations(lines):
            tried += 1
            if not _noticed(theatre, altered):
                blind.append(where)
    except Skip as skip:
        return skipped(name, _FIELDS, skip.why, _LOST)
    found = [where for where in blind if where.removeprefix("header.") not in CLAIMS]
    said = f"{tried - len(blind)} of {tried} altered fields are noticed"
    claims = [where for where in blind if where not in found]
    said += f"; claims nobody can prove: {', '.join(claims)}" if claims else ""
    if found:
        said = f"nobody notices an altered {found[0]}" + (f", and {len(found) - 1} more" if found[1:] else "")
    return Row(name, _FIELDS, "breach" if found else "held", said, 0.0, float(len(found)), episodes=tried)


def _effects(theatre: Theatre) -> Row:
    """Alter each effect of a losing play to what would pay, and see what the episode is then said to be worth."""
    name = "record.altered-effects"
    if not theatre.local or not theatre.spec.capabilities.replayable:
        return skipped(name, _EFFECTS, "it has to be replayed here")
    tried = 0
    for ref in theatre.refs[:4]:
        for actions in (
            ("", "x"),
            theatre.solution(ref)[:-1],
            *(known.solution for _, known in theatre.openings()[:3]),
        ):
            (record,) = parse_records(theatre.subject.record(ref, actions))
            worth = float((record.footer or {})["verdict"]["reward"])
            for forged in _forged(record):
                tried += 1
                earned = _worth(theatre, ref, record, forged)
                if earned is not None and earned > worth + 1e-9:
                    row = Row(name, _EFFECTS, "breach", f"{worth:g} becomes {earned:g} on {ref.split}/{ref.index}")
                    row = Row(name, _EFFECTS, row.verdict, row.evidence, worth, earned, episodes=tried)
                    declared = theatre.spec.capabilities.deterministic
                    return (
                        row if declared else opened(row, "deterministic: false, its effects are the other side's word")
                    )
    return Row(name, _EFFECTS, "held", f"{tried} altered effects" if tried else "it records no effects", episodes=tried)


def _forged(record: Record) -> Iterator[list[list[JSON]]]:
    """Yield the effects of header and turns with one of them altered."""
    plain = [list(line["effects"]) for line in (record.header, *record.turns)]
    for at, effects in enumerate(plain):
        for number, effect in enumerate(effects):
            for value in _richer(effect["value"]):
                changed = copy.deepcopy(plain)
                changed[at][number] = {**effect, "value": value}
                yield changed


def _richer(value: JSON) -> Iterator[JSON]:
    """Yield values of the same form that may pay more."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (type(value)(1), value + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from ({**value, name: richer} for richer in _richer(item))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from ([*value[:number], richer, *value[number + 1 :]] for richer in _richer(item))


def _worth(theatre: Theatre, ref: TaskRef, record: Record, effects: list[list[JSON]]) -> float | None:
    """Return what an episode is worth when it is played again with forged effects; None where that is refused."""
    env = Recorded(theatre.subject.verifier())
    try:
        env.reset(ref, effects=effects_of(effects[0]))
        for turn, fed in zip(record.turns, effects[1:], strict=True):
            if env.ended:
                break
            env.step(turn["action"], effects=effects_of(fed))
        return float(env.finish("abandoned").reward)
    except Exception:  # noqa: BLE001 - boundary: a world that is fed forged effects may fail in any way
        return None
    finally:
        theatre.subject.tidy()


def _noticed(theatre: Theatre, lines: list[dict[str, JSON]]) -> bool:
    """Whether reading, replaying or rescoring a record finds fault with it."""
    verifier = theatre.subject.verifier()
    try:
        (record,) = parse_records(_chained(lines))
        options = record.header["options"]
        if options != json.loads(canonical_bytes(verifier.public_options())):
            return True  # it is played with the options it says, in another environment than this
        return not replay(record, verifier).equal or not rescore(record, theatre.subject.verifier()).equal
    except AgentEnvsError:
        return True
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return True
    finally:
        with contextlib.suppress(Exception):
            theatre.subject.tidy()


def _alterations(lines: list[dict[str, JSON]]) -> Iterator[tuple[str, list[dict[str, JSON]]]]:
    """Yield records with one field altered, named by its path, and records with a turn more or less."""
    picked = [0, *range(1, min(_TURNS + 1, len(lines) - 1)), len(lines) - 1]
    for number in dict.fromkeys(picked):
        line = lines[number]
        for path, value in _leaves(line):
            if path[0] == "kind":
                continue
            for other in _others(value):
                changed = copy.deepcopy(lines)
                _set(changed[number], path, other)
                yield f"{line['kind']}.{'.'.join(map(str, path))}", changed
    if len(lines) > 3:
        yield "turn that is missing", [*lines[:1], *lines[2:]]
        yield "turn that is doubled", [*lines[:2], lines[1], *lines[2:]]


def _leaves(value: JSON, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], JSON]]:
    """Yield the paths of all values that hold no others; an action stands for itself, since another may do the same."""
    if path == ("action",):
        return
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value[:4]):
            yield from _leaves(item, (*path, number))
    else:
        yield path, value


def _others(value: JSON) -> tuple[JSON, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1,)
    if isinstance(value, str):
        return (value + "x",)
    return ("x",) if value is None else (["x"],) if isinstance(value, list) else ({"x": 1},)


def _set(line: Any, path: tuple[Any, ...], value: JSON) -> None:
    for part in path[:-1]:
        line = line[part]
    line[path[-1]] = value


def _lines(data: bytes) -> list[dict[str, JSON]]:
    lines = [json.loads(line) for line in data.splitlines()]
    return [{name: value for name, value in line.items() if name != "h"} for line in lines]


def _chained(lines: list[dict[str, JSON]]) -> bytes:
    """Return lines as the bytes of a record whose chain holds."""
    before, spelled = "", b""
    for line in lines:
        before = hashlib.sha256(before.encode() + canonical_bytes(line)).hexdigest()
        spelled += canonical_bytes({**line, "h": before}) + b"\n"
    return spelled
