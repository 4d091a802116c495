"""Episode records: what happened, in a form that can be played again and cannot be edited unseen.

A record is canonical JSON Lines: a header, one line a turn, a footer. Each line's ``h`` is the SHA-256 of the line
before and its own content, so the last ``h`` fixes the whole. No time, name or session stands in it: two plays of the
same actions give the same bytes. Observations stand as digests; the raw replies of a model, tokens and times belong in
a sidecar.

:class:`Recorded` is an environment with a record on the side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ContractError, RecordError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Scenario, TaskRef
from agentenvs.core.turn import Effect, StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.core.wellformed import fault

FORMAT = 1


class Recorded:
    """An environment that keeps the record of its episode.

    Args:
        env: The environment; this object steps it from now on.
        privileged: The player saw the hidden scenario.
        library: Digest of what the player carried over from earlier episodes.
    """

    def __init__(self, env: Environment, *, privileged: bool = False, library: str | None = None) -> None:
        self.env = env
        self._privileged = privileged
        self._library = library
        self._lines: list[dict[str, JSON]] = []
        self._return = 0.0

    def reset(self, ref: TaskRef | None = None, *, effects: Iterable[Effect] | None = None) -> Observation:
        """Begin an episode and its record; see :meth:`Environment.reset`."""
        self._return, self._lines = 0.0, []
        observation = self.env.reset(ref, effects=effects)
        self._lines = [self._header(observation)]
        return observation

    def step(self, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play a turn and note it; see :meth:`Environment.step`."""
        parsed = parse_action(action)
        return self._note(parsed, self.env.step(parsed, effects=effects))

    async def astep(self, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play a turn of an asynchronous environment and note it."""
        parsed = parse_action(action)
        return self._note(parsed, await self.env.astep(parsed, effects=effects))

    def finish(self, ending: Ending) -> Verdict:
        """End the episode if it has not ended, and close the record."""
        verdict = self.env.finish(ending)
        if self._lines[-1]["kind"] != "footer":
            self._lines.append(self._footer(verdict, ending))
        return verdict

    def abort(self, why: str, ref: TaskRef) -> Verdict:
        """Close the record of an environment that failed so badly that it cannot be asked for a verdict.

        Args:
            why: The failure, in a few words.
            ref: The address of the scenario, in case the failure came before the first observation: the header then
                has no observation, and no scenario where the environment did not get that far.
        """
        if not self._lines:
            self._lines = [self._header(None, ref)]
        verdict = _failure(why)
        # The environment's own count may be one ahead: the turn it failed in is not recorded.
        played = {"ending": "aborted", "turns": len(self._lines) - 1, "failed": True}
        self._lines.append({**self._footer(verdict, "aborted"), **played})
        return verdict

    def fork(self) -> Recorded:
        """Return a copy at the same turn; its record is whole and names where it left this one."""
        twin = Recorded(self.env.fork(), privileged=self._privileged, library=self._library)
        parent = {"digest": _chain(self._lines)[-1], "turn": self.env.turn}
        twin._lines = [{**self._lines[0], "forked_from": parent}, *self._lines[1:]]
        twin._return = self._return
        return twin

    @property
    def scenario(self) -> Any:
        """The hidden scenario, for a player that is privileged to see it."""
        return self.env.current

    def save(self) -> dict[str, JSON]:
        """Return the record so far as JSON, to be kept beside a snapshot of the environment."""
        return {"lines": list(self._lines), "return": self._return}

    def restore(self, saved: Mapping[str, JSON]) -> None:
        """Go on with a record that :meth:`save` returned; the environment is restored by its own snapshot."""
        self._lines, self._return = list(saved["lines"]), saved["return"]

    @property
    def ended(self) -> bool:
        """Whether the record has its footer."""
        return bool(self._lines) and self._lines[-1]["kind"] == "footer"

    @property
    def ending(self) -> Ending | None:
        """How the episode ended; None while it runs."""
        ending: Ending | None = self._lines[-1]["ending"] if self.ended else None
        return ending

    def to_bytes(self) -> bytes:
        """Return the record so far."""
        return _spelled(self._lines)

    def _header(self, observation: Observation | None, asked: TaskRef | None = None) -> dict[str, JSON]:
        env = self.env
        ref = asked or env.ref
        scenario = env.current if env.ref == ref else None
        if ref is None or (scenario is None and asked is None):
            raise RecordError("the environment has no episode")
        line = _header(
            env.spec, env.public_options(), ref, scenario, privileged=self._privileged, library=self._library
        )
        if observation is None:
            return line
        seen = {"observation": observation.digest(), "state": env.state_key}
        return {**line, **seen, "effects": effects_to_json(env.effects)}

    def _note(self, action: Any, result: StepResult) -> StepResult:
        env = self.env
        valid, error = env.last_valid
        line: dict[str, JSON] = {
            "kind": "turn",
            "turn": env.turn,
            "action": to_json(action),
            "valid": valid,
            "error": error,
            "observation": result.observation.digest(),
            "reward": result.reward,
            "state": env.state_key,
            "effects": effects_to_json(env.effects),
        }
        self._lines.append(line)
        self._return += result.reward
        if env.verdict is not None and env.ending is not None:
            self._lines.append(self._footer(env.verdict, env.ending))
        return result

    def _footer(self, verdict: Verdict, ending: Ending) -> dict[str, JSON]:
        return {
            "kind": "footer",
            "ending": self.env.ending or ending,
            "turns": self.env.turn,
            "return": self._return,
            "verdict": verdict.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read: its chain holds, and every field is there and of its type."""

    header: Mapping[str, JSON]
    turns: tuple[Mapping[str, JSON], ...]
    footer: Mapping[str, JSON] | None
    """None where the record was taken, or cut off, before the end."""
    digest: str
    """The last link of the chain."""

    @property
    def ref(self) -> TaskRef:
        """The address of the scenario."""
        return TaskRef(self.header["task"]["split"], self.header["task"]["index"])

    @property
    def verdict(self) -> Verdict | None:
        """The recorded verdict."""
        return None if self.footer is None else Verdict.from_json(self.footer["verdict"])


def parse_records(data: bytes, source: str = "the record") -> list[Record]:
    """Read the records in a file, one after another.

    Raises:
        RecordError: A line is no JSON, is missing, lacks a field, or breaks the chain; the message names it.
    """
    records: list[Record] = []
    block: list[tuple[int, dict[str, JSON]]] = []
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        line = _parse_line(raw, number, source)
        if line.get("kind") == "header" and block:
            records.append(_assemble(block, source))
            block = []
        block.append((number, line))
    if not block:
        raise RecordError(f"{source} is empty", fix="give a file that holds episode records")
    records.append(_assemble(block, source))
    return records


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a file, of a run folder, or of every ``*.jsonl`` file in a folder, in order of name.

    Raises:
        RecordError: The path is not there, or a record in it is damaged.
    """
    folder = path / "records" if (path / "records").is_dir() else path
    files = sorted(folder.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise RecordError(f"there are no records at {path}", fix="give a record file or a folder of them")
    for file in files:
        yield from parse_records(file.read_bytes(), str(file))


def lost_record(
    spec: EnvSpec,
    options: Mapping[str, JSON],
    ref: TaskRef,
    why: str,
    *,
    privileged: bool = False,
    library: str | None = None,
) -> bytes:
    """Return the record of an episode whose environment went away with all that it knew.

    Args:
        spec: What the environment said of itself.
        options: Those that belong to the episode.
        ref: The address of the scenario.
        why: The failure, in a few words.
        privileged: The player saw the hidden scenario.
        library: Digest of what the player carried over from earlier episodes.
    """
    head = _header(spec, options, ref, None, privileged=privileged, library=library)
    foot = {"kind": "footer", "ending": "aborted", "turns": 0, "return": 0.0, "verdict": _failure(why).to_json()}
    return _spelled([head, {**foot, "failed": True}])


def without_rewards(data: bytes) -> bytes:
    """Return the lines of a record with nothing of what was earned: no rewards, no footer, and so no chain.

    For a policy that learns from its episodes under a run that does not show it the reward.
    """
    kept = []
    for line in map(json.loads, data.splitlines()):
        if line["kind"] != "footer":
            kept.append({name: value for name, value in line.items() if name not in ("reward", "h")})
    return b"".join(canonical_bytes(line) + b"\n" for line in kept)


def redacted(data: bytes) -> bytes:
    """Return a record of a sealed scenario as it may be handed out: nothing in it tells what was hidden.

    What was seen and done stays; scenario, states, effects, rewards of single turns, and all of the verdict but reward
    and success go. It is chained anew, and says that it is redacted; it cannot be replayed.
    """
    kept = []
    for line in map(json.loads, data.splitlines()):
        line.pop("h")
        if line["kind"] == "header":
            line = {**line, "redacted": True, "scenario": None, "state": None, "effects": []}
        elif line["kind"] == "turn":
            line = {**line, "state": "", "effects": [], "reward": 0.0}
        else:
            verdict = Verdict(line["verdict"]["reward"], line["verdict"]["success"])
            line = {**line, "verdict": verdict.to_json()}
        kept.append(line)
    return b"".join(canonical_bytes({**line, "h": link}) + b"\n" for line, link in zip(kept, _chain(kept), strict=True))


def effects_of(form: Iterable[JSON]) -> list[Effect]:
    """Read the effects of a line."""
    return [Effect(item["kind"], item["value"]) for item in form]


def effects_to_json(effects: Iterable[Effect]) -> list[JSON]:
    """Return the JSON form of effects."""
    return [{"kind": effect.kind, "value": effect.value} for effect in effects]


def _header(
    spec: EnvSpec,
    options: Mapping[str, JSON],
    ref: TaskRef,
    scenario: Scenario | None,
    *,
    privileged: bool,
    library: str | None,
) -> dict[str, JSON]:
    """Return the header of an episode that has shown nothing yet."""
    return {
        "kind": "header",
        "format": FORMAT,
        "since": spec.since,
        "env": spec.id,
        "release": spec.release,
        "spec": spec.digest,
        "options": dict(options),
        "task": ref.to_json(),
        "scenario": None if scenario is None else scenario.digest,
        "privileged": privileged,
        "library": library,
        "forked_from": None,
        "observation": None,
        "state": None,
        "effects": [],
    }


def _failure(why: str) -> Verdict:
    return Verdict(0.0, False, reasons=(f"the environment failed: {why}",))


def _spelled(lines: Sequence[Mapping[str, JSON]]) -> bytes:
    return b"".join(
        canonical_bytes({**line, "h": link}) + b"\n" for line, link in zip(lines, _chain(lines), strict=True)
    )


def _link(before: str, line: Mapping[str, JSON]) -> str:
    return hashlib.sha256(before.encode() + canonical_bytes(line)).hexdigest()


def _chain(lines: Iterable[Mapping[str, JSON]]) -> list[str]:
    links: list[str] = []
    before = ""
    for line in lines:
        before = _link(before, line)
        links.append(before)
    return links


def _parse_line(raw: bytes, number: int, source: str) -> dict[str, JSON]:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _no_json(number, source, error) from error
    if not isinstance(line, dict) or line.get("kind") not in ("header", "turn", "footer") or "h" not in line:
        raise RecordError(f"line {number} of {source} is no line of a record", fix="give a file of episode records")
    return line


def _no_json(number: int, source: str, error: Exception) -> RecordError:
    return RecordError(f"line {number} of {source} is no JSON", why=str(error), fix="the file is damaged")


def _assemble(block: list[tuple[int, dict[str, JSON]]], source: str) -> Record:
    before, head = "", block[0][1]
    if head["kind"] == "header" and head.get("format") != FORMAT:
        raise RecordError(
            f"{source} has format {head.get('format')!r}, this release reads {FORMAT}",
            fix="use the version of agentenvs that wrote it",
        )
    for number, line in block:
        link = line.pop("h")
        try:
            before = _link(before, line)
        except ContractError as error:  # what JSON spells and a record cannot hold: NaN, half a surrogate pair
            raise _no_json(number, source, error) from error
        if link != before:
            raise RecordError(
                f"line {number} of {source} breaks the chain",
                why="the line, or one before it, was changed after it was written",
                fix="take the record from where it was made",
            )
    lines = [line for _, line in block]
    kinds = [line["kind"] for line in lines]
    footer = lines[-1] if kinds[-1] == "footer" else None
    turns = lines[1:-1] if footer is not None else lines[1:]
    wanted = ["header", *["turn"] * len(turns), *(["footer"] if footer is not None else [])]
    if kinds != wanted or [turn.get("turn") for turn in turns] != list(range(1, len(turns) + 1)):
        raise RecordError(f"the lines of {source} from line {block[0][0]} are not a header, turns in order, a footer")
    if (found := fault(lines)) is not None:
        position, what = found
        raise RecordError(f"line {block[position][0]} of {source} is no line of a record", why=what)
    return Record(lines[0], tuple(turns), footer, before)
