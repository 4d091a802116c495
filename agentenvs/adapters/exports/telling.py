"""Tells an episode once, for every format: what was shown first, and turn by turn what was said, asked and seen.

Actions, rewards and the verdict come from the record; what was seen, what a model was asked and said, and how long it
took, from the sidecar. With ``verify`` the record is played again: what is seen is what that play showed, held against
the sidecar, with all that a model is shown beside it (task sentence, budgets, a block for each call).

Of a sealed scenario only that is told which its server hands out: what was seen and done, reward and success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentenvs.adapters.exports.reading import Source, number
from agentenvs.core.actions import Calls, Malformed, Message, ToolCall, calls_of, parse_action
from agentenvs.core.canon import JSON, canonical
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.record import Record, parse_records, redacted
from agentenvs.core.spec import EnvSpec
from agentenvs.core.verdict import Verdict
from agentenvs.harness.chat import RawCall
from agentenvs.harness.collect.telling import Dropped, Watched, is_for_tools, say, watch
from agentenvs.harness.history import Message as ChatMessage
from agentenvs.harness.history import Said, Shown, answers_to, assistant, show
from agentenvs.harness.prompting import functions, open_talk
from agentenvs.harness.protocol import Protocol, load
from agentenvs.harness.reading import read_tools, said_of

NOT_KEPT = "(what was seen is not kept: the episode's sidecar is missing or damaged)"
_HIDDEN = ("scenario", "scenario_digest", "kind", "difficulty", "par", "episode_return", "error", "metrics")
"""Fields of a line that say something of a sealed scenario."""


class ModelCall(NamedTuple):
    """One call of a model."""

    turn: int | None
    """The turn it was made in; None where that is not known."""
    model: str
    seconds: float | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    said: ChatMessage | None
    """The reply, where it is kept with the turn."""
    finish: str | None
    """Why it ended, as the endpoint said."""
    error: str | None
    prompt: str | None
    """Digest of the messages it was shown."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What was done in a turn, and what came of it."""

    number: int
    action: JSON
    said: ChatMessage
    """The action as an assistant's message."""
    answers: list[ChatMessage]
    """What was seen next: a result for each tool call, or a user's message."""
    seen: str
    reward: float | None
    """None where it is hidden."""
    valid: bool
    error: str | None
    """Code of why it was not."""
    calls: list[ModelCall]


@dataclass(frozen=True, slots=True)
class Story:
    """An episode, told."""

    run: Source
    line: Mapping[str, JSON]
    """Its summary, without what is hidden."""
    trial: int
    """How often its scenario was played before in this run, from 1."""
    header: Mapping[str, JSON]
    head: list[ChatMessage]
    """What stands before everything else, and what is seen first."""
    turns: list[Turn]
    loose: list[ModelCall]
    """Calls of a model that no turn came of, or that belong to none."""
    verdict: Verdict
    tools: list[JSON] | None
    """Functions that the player may call, where it acts by calling."""
    seconds: float | None
    verified: bool | None
    """Whether playing it again led to the same; None where that was not asked for."""
    why: str
    """Why it is not verified."""

    @property
    def name(self) -> str:
        """What it is called among the episodes of all runs."""
        return f"{self.run.manifest.run_id}/{self.line['number']}"

    @property
    def messages(self) -> list[ChatMessage]:
        """The whole conversation."""
        return [*self.head, *(message for turn in self.turns for message in (turn.said, *turn.answers))]

    @property
    def calls(self) -> list[ModelCall]:
        """Every call of a model, in order as far as it is known."""
        return [*(call for turn in self.turns for call in turn.calls), *self.loose]

    def state(self) -> dict[str, JSON]:
        """Return how it ended and counts, and what was proved of it."""
        line = self.line
        return {
            "ending": line["ending"],
            "success": line["success"],
            "reward": line["reward"],
            "turns": line["turns"],
            "invalid": line["invalid"],
            "stopped": line["stopped"],
            "fault": line["fault"],
            "error": line["error"],
            "attempt": line["attempt"],
            "privileged": bool(self.header["privileged"]),
            "sealed": self.run.sealed or bool(self.header.get("redacted")),
            "verified": self.verified,
            "not_verified": self.why or None,
        }

    def task(self) -> dict[str, JSON]:
        """Return what was played."""
        entry, line = self.run.entry, self.line
        return {
            "env": entry.env_id,
            "release": entry.env_version,
            "spec": entry.spec_digest,
            "split": line["split"],
            "index": line["index"],
            "trial": self.trial,
            "scenario": line["scenario"],
            "scenario_digest": line["scenario_digest"],
            "kind": line["kind"],
            "difficulty": line["difficulty"],
            "par": line["par"],
            "record": line["record"],
            "run_id": self.run.manifest.run_id,
            "number": line["number"],
        }


@dataclass(slots=True)
class Teller:
    """Tells the episodes of a run.

    Args:
        run: Its folder.
        verify: Whether each record is played again.
        machine: Options that no record holds, such as the folder of game files.
    """

    run: Source
    verify: bool
    machine: Mapping[str, Any] = field(default_factory=dict)

    def tell(self, line: Mapping[str, JSON], trial: int) -> Story:
        """Tell an episode.

        Raises:
            DataError: Its record is damaged.
            UserError: Some subclass: it is to be played again, and its environment is not to be had here.
        """
        run = self.run
        data, record = run.record(line)
        sidecar = run.sidecar(line)
        watched, why = self._again(record) if self.verify else (None, "")
        if watched is not None and sidecar is not None:
            why = _differs(watched, sidecar)
        hidden = run.sealed or bool(record.header.get("redacted"))
        if hidden and not record.header.get("redacted"):
            record = parse_records(redacted(data))[0]
        seen = _seen(watched, sidecar, record)
        kept, calls = _calls(sidecar, run)
        said, tools = self._said(record, calls if kept else None)
        head, told = _told(run, seen, said, tools, "" if watched is None else watched.instruction)
        turns = _turns(record, said, seen, told, calls, hidden=hidden)
        return Story(
            run=run,
            line=_public(line, record) if hidden else line,
            trial=trial,
            header=record.header,
            head=head,
            turns=turns,
            loose=[call for call in calls if call.turn is None or not 1 <= call.turn <= len(turns)],
            verdict=record.verdict or Verdict(0.0, False),
            tools=functions(run.protocol, run.spec) if tools and run.spec is not None else None,
            seconds=number((sidecar or {}).get("wall_seconds")),
            verified=not why if self.verify else None,
            why=why,
        )

    def _again(self, record: Record) -> tuple[Watched | None, str]:
        """Play a record again, and return what was seen, or why it cannot be said to be the same."""
        if record.header.get("redacted"):
            return None, "its record is redacted, and cannot be played again"
        try:
            watched = watch(record, **self.machine)
        except Dropped as dropped:
            return None, f"playing its record again led elsewhere: {dropped.why}"[:300]
        return watched, ""

    def _said(self, record: Record, calls: Sequence[ModelCall] | None) -> tuple[list[Said], bool]:
        """Return what was said in each turn, and whether the player acts by calling tools."""
        spec, protocol = self.run.spec, load("native")
        turns = record.turns
        by_model = {call.turn: call.said for call in calls or () if call.said is not None}
        if by_model:
            tools = any("tool_calls" in message for message in by_model.values())
        else:
            tools = bool(turns) and all(_calls_tools(turn["action"], spec) for turn in turns)
        said = []
        for turn in turns:
            message = by_model.get(turn["turn"])
            if message is not None:
                said.append(Said(message, str(message["content"]), tuple(_ids(message))))
            else:
                said.append(_spoken(turn["action"], spec, protocol, tools, turn["turn"]))
        return said, tools


def _turns(
    record: Record,
    said: Sequence[Said],
    seen: Sequence[Observation],
    answers: Sequence[list[ChatMessage]],
    calls: Sequence[ModelCall],
    *,
    hidden: bool,
) -> list[Turn]:
    asked: dict[int | None, list[ModelCall]] = {}
    for call in calls:
        asked.setdefault(call.turn, []).append(call)
    return [
        Turn(
            number=place,
            action=row["action"],
            said=one.message,
            answers=after,
            seen=now.text,
            reward=None if hidden else row["reward"],
            valid=row["valid"],
            error=row["error"],
            calls=asked.get(place, []),
        )
        for place, (row, one, now, after) in enumerate(zip(record.turns, said, seen[1:], answers, strict=True), start=1)
    ]


def _told(
    run: Source, seen: Sequence[Observation], said: Sequence[Said], tools: bool, instruction: str
) -> tuple[list[ChatMessage], list[list[ChatMessage]]]:
    """Return what stands before the first turn, and what followed each."""
    protocol = run.protocol
    shown = [show(protocol, one, first=not place) for place, one in enumerate(seen)]
    answers = [answers_to(one, now) for one, now in zip(said, shown[1:], strict=True)]
    if run.spec is None or not run.whole:
        return [{"role": "user", "content": shown[0].full}], answers
    return _opened(protocol, run.spec, instruction, shown[0], tools), answers


def _opened(protocol: Protocol, spec: EnvSpec, instruction: str, first: Shown, tools: bool) -> list[ChatMessage]:
    return open_talk(protocol, spec, instruction, first, tools=tools).prompt(first).messages


def _seen(watched: Watched | None, sidecar: Mapping[str, Any] | None, record: Record) -> list[Observation]:
    """Return what was seen first and after each turn."""
    if watched is not None and len(watched.seen) > len(record.turns):
        return watched.seen[: len(record.turns) + 1]
    kept = _texts(sidecar)
    texts = [*kept, *[NOT_KEPT] * (len(record.turns) + 1 - len(kept))][: len(record.turns) + 1]
    return [Observation((TextBlock(text),)) for text in texts]


def _texts(sidecar: Mapping[str, Any] | None) -> list[str]:
    """Return the texts of a sidecar, as far as they are some."""
    if sidecar is None:
        return []
    first, turns = sidecar.get("first_observation"), sidecar.get("turns")
    rows = turns if isinstance(turns, list) else []
    found = [first, *(row.get("observation") if isinstance(row, dict) else None for row in rows)]
    if found[0] is None:
        found[0] = "(the environment failed before it showed anything)"
    return [text if isinstance(text, str) else NOT_KEPT for text in found]


def _differs(watched: Watched, sidecar: Mapping[str, Any]) -> str:
    """Return where a sidecar says something else than was seen; empty where it does not."""
    for place, (kept, now) in enumerate(zip(_texts(sidecar), watched.seen, strict=False)):
        if kept != now.text:
            return f"its sidecar says something else than was seen {f'in turn {place}' if place else 'first'}"
    return ""


def _public(line: Mapping[str, JSON], record: Record) -> dict[str, JSON]:
    """Return a line without what is hidden; its record is named by the digest of what may be seen of it."""
    return {**line, **dict.fromkeys(_HIDDEN), "metrics": {}, "record": record.digest}


# ---- what was said ---------------------------------------------------------------------------------------------------


def _calls_tools(form: JSON, spec: EnvSpec | None) -> bool:
    if spec is not None:
        return is_for_tools(form, spec)
    return isinstance(parse_action(form), ToolCall | Calls)


def _spoken(form: JSON, spec: EnvSpec | None, protocol: Protocol, tools: bool, turn: int) -> Said:
    """Return an action as it would be said; what no reply is read as is said as it stands."""
    if spec is not None:
        try:
            return say(form, spec, protocol, tools, turn)
        except Dropped:
            pass
    action = parse_action(form)
    if isinstance(action, Malformed):
        raw = action.raw if isinstance(action.raw, str) else canonical(action.raw)
        return Said(assistant(raw), raw)
    if made := calls_of(action):
        text = action.text if isinstance(action, Calls) else None
        reply = said_of(text or "", *(RawCall(call.tool, dict(call.arguments)) for call in made))
        return read_tools(reply, _ANY, turn).said
    words = action.text if isinstance(action, Message) else form if isinstance(form, str) else canonical(form)
    return Said(assistant(f"Action: {words}"), words)


_ANY = EnvSpec(
    id="any/Any-v1",
    slug="any",
    release="1",
    entry_point="any:Any",
    title="any",
    description="any",
    accepts=("tool", "message"),
)  # what the reading of calls asks of an environment that is not to be had here


def _ids(message: ChatMessage) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or ()]


# ---- what a model was asked ------------------------------------------------------------------------------------------


def _calls(sidecar: Mapping[str, Any] | None, run: Source) -> tuple[bool, list[ModelCall]]:
    """Return the calls of a model, and whether their replies are the player's turns."""
    made = run.manifest.model
    policy = (sidecar or {}).get("policy")
    if made is None or not isinstance(policy, dict):
        return False, []
    own = policy.get("calls")
    proxied = policy.get("model")
    rows = own if isinstance(own, list) else proxied.get("calls") if isinstance(proxied, dict) else None
    found = [_call(row, made.id) for row in rows or () if isinstance(row, dict)] if isinstance(rows, list) else []
    return isinstance(own, list), found


def _call(row: Mapping[str, Any], model: str) -> ModelCall:
    turn, error, said, prompt = row.get("turn"), row.get("error"), row.get("said"), row.get("prompt_digest")
    if isinstance(error, dict):
        error = error.get("what")
    return ModelCall(
        turn=turn if type(turn) is int else None,
        model=model,
        seconds=number(row.get("seconds")),
        tokens_in=_count(row.get("tokens_in")),
        tokens_out=_count(row.get("tokens_out")),
        tokens_cached=_count(row.get("tokens_cached")),
        said=said if _is_message(said) else None,
        finish=_finish(row.get("raw", row.get("reply"))),
        error=next((one for one in (error, row.get("fault")) if isinstance(one, str)), None),
        prompt=prompt if isinstance(prompt, str) else None,
    )


def _count(value: Any) -> int | None:
    found: int | None = number(value) if type(value) is int else None
    return found


def _finish(reply: Any) -> str | None:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    found = choice.get("finish_reason") if isinstance(choice, dict) else None
    return found if isinstance(found, str) else None


def _is_message(said: Any) -> bool:
    """Return whether this is an assistant's message as a run keeps it."""
    if not isinstance(said, dict) or said.get("role") != "assistant" or not isinstance(said.get("content"), str):
        return False
    calls = said.get("tool_calls", [])
    return isinstance(calls, list) and all(map(_is_call, calls))


def _is_call(call: Any) -> bool:
    made = call.get("function") if isinstance(call, dict) else None
    texts = (call.get("id"), made.get("name"), made.get("arguments")) if isinstance(made, dict) else (None,)
    return all(isinstance(text, str) for text in texts)
