"""From a record to a conversation: plays the record again and tells it in the words of a protocol.

What the world says comes out of the replay, which compares every digest of the record. What a model said comes from its
sidecar, and each prompt it was shown is compared by digest with the conversation told here. What a player without
words did is said as the protocol would read it: a tool call, or one line of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from agentenvs.core.actions import Calls, End, Message, ToolCall, parse_action, to_json
from agentenvs.core.canon import JSON, canonical, digest
from agentenvs.core.environment import Environment
from agentenvs.core.errors import RecordError
from agentenvs.core.observation import Observation
from agentenvs.core.record import Record
from agentenvs.core.replay import env_for, replay
from agentenvs.core.spec import EnvSpec
from agentenvs.harness.chat import RawCall, Reply
from agentenvs.harness.history import Conversation, Said, answers_to, show
from agentenvs.harness.prompting import open_talk
from agentenvs.harness.protocol import Protocol
from agentenvs.harness.reading import end_tool, read_text, read_tools, said_of


class Dropped(Exception):
    """The episode is of no use.

    Args:
        reason: One of :data:`agentenvs.harness.collect.rules.REASONS`.
    """

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why


class Words(NamedTuple):
    """What a model was asked and said in an episode, from its sidecar."""

    calls: Sequence[Mapping[str, JSON]]
    tools: bool
    """Whether it was offered functions to call."""


class Span(NamedTuple):
    """A part of a conversation that is the player's own."""

    message: int
    """Number of the message, from 0."""
    part: str
    """``content``: characters of its text. ``tool_calls``: entries of its list."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Told:
    """An episode as a conversation."""

    messages: list[dict[str, JSON]]
    spans: list[Span]
    tools: bool
    """Whether the player acts by tool calls."""
    path: str
    """Digest of the scenario, the states and the actions."""


class Watched:
    """An environment that keeps what it shows.

    Args:
        env: The environment.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.seen: list[Observation] = []
        """What was seen first, and after each turn."""
        self.instruction = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, *arguments: Any, **more: Any) -> Observation:
        """Begin an episode, and keep what is seen first and the task sentence."""
        first = self._env.reset(*arguments, **more)
        self.instruction = self._env.task().instruction
        self.seen = [first]
        return first

    def step(self, *arguments: Any, **more: Any) -> Any:
        """Play a turn, and keep what is seen."""
        result = self._env.step(*arguments, **more)
        self.seen.append(result.observation)
        return result


def tell(record: Record, protocol: Protocol, words: Words | None, **machine: Any) -> Told:
    """Play a record again and tell it.

    Args:
        record: Of an ended episode.
        protocol: Whose words are used.
        words: What a model was asked and said; None for a player without words.
        **machine: Options that no record holds, such as the folder of game files.

    Raises:
        Dropped: It cannot be told, and why.
        UserError: Some subclass: its environment is not to be had here.
    """
    watched = watch(record, **machine)
    spec, turns = watched.spec, record.turns
    if words is None:
        tools = all(is_for_tools(turn["action"], spec) for turn in turns)
        said = [say(turn["action"], spec, protocol, tools, number) for number, turn in enumerate(turns, start=1)]
        prompts = None
    else:
        tools = words.tools
        said, prompts = _as_said(words.calls, len(turns))
    talk, spans = _talk(watched, protocol, said, tools, prompts)
    messages = talk.prompt(show(protocol, watched.seen[-1], first=False)).messages
    last = spans[-1].message
    states = [record.header["state"], *(turn["state"] for turn in turns)]
    # A scenario's goal is no part of its states.
    path = digest([record.header["scenario"], states, [turn["action"] for turn in turns]])
    return Told(messages[: last + 1], spans, tools, path)


def watch(record: Record, **machine: Any) -> Watched:
    """Play a record again, watched.

    Args:
        record: Of an ended episode.
        **machine: As for :func:`tell`.

    Raises:
        Dropped: It leads elsewhere.
        UserError: Some subclass: its environment is not to be had here.
    """
    watched = Watched(env_for(record, **machine))
    try:
        report = replay(record, cast("Environment", watched))
    except RecordError as error:
        raise Dropped("not_replayed", error.what) from error
    if not report.equal or record.footer is None:
        raise Dropped("not_replayed", str(report.divergence or "the record has no end"))
    return watched


def _talk(
    watched: Watched, protocol: Protocol, said: Sequence[Said], tools: bool, prompts: Sequence[str] | None
) -> tuple[Conversation, list[Span]]:
    """Tell turn by turn, and note which parts are the player's own."""
    before = show(protocol, watched.seen[0], first=True)
    talk = open_talk(protocol, watched.spec, watched.instruction, before, tools=tools)
    spans: list[Span] = []
    for number, one in enumerate(said):
        messages = talk.prompt(before).messages
        if prompts is not None and digest(messages) != prompts[number]:
            raise Dropped("other_prompt", f"turn {number + 1}")
        spans += own_spans(len(messages), one.message)
        now = show(protocol, watched.seen[number + 1], first=False)
        talk.add(before, one, now.seen, answers_to(one, now))
        before = now
    return talk, spans


def own_spans(place: int, said: Mapping[str, JSON]) -> list[Span]:
    """Return what is the player's own of its message, the place-th of a conversation."""
    content, calls = said["content"], said.get("tool_calls") or []
    found = [Span(place, "content", 0, len(content))] if content else []
    return [*found, Span(place, "tool_calls", 0, len(calls))] if calls else found


def is_for_tools(form: JSON, spec: EnvSpec) -> bool:
    """Return whether an action can be said by calling functions."""
    action = parse_action(form)
    if not spec.tools or "tool" not in spec.accepts:
        return False
    return isinstance(action, ToolCall | Calls | End | Message)


def say(form: JSON, spec: EnvSpec, protocol: Protocol, tools: bool, number: int) -> Said:
    """Return the reply that is read as an action.

    Args:
        form: The action, as a record has it.
        spec: Its environment.
        protocol: In whose words it is said.
        tools: By calling functions, or in a line of text.
        number: Of the turn, for the ids of calls.

    Raises:
        Dropped: There is none.
    """
    reply = _reply(form, spec, tools)
    reading = read_tools(reply, spec, number) if tools else read_text(reply, protocol, spec, ())
    if reading.failure is not None or to_json(parse_action(reading.action)) != form:
        raise Dropped("not_sayable", canonical(form)[:200])
    return reading.said


def _reply(form: JSON, spec: EnvSpec, tools: bool) -> Reply:
    action = parse_action(form)
    if not tools:
        words = form if isinstance(form, str) else canonical(form)
        return said_of(f"Action: {words}")
    if isinstance(action, Message):
        return said_of(action.text)
    if isinstance(action, End):
        reason = {"reason": action.reason} if action.reason else {}
        return said_of("", RawCall(end_tool(spec), reason))
    calls = action.calls if isinstance(action, Calls) else (action,) if isinstance(action, ToolCall) else ()
    text = action.text if isinstance(action, Calls) else None
    return said_of(text or "", *(RawCall(call.tool, dict(call.arguments)) for call in calls))


def _as_said(calls: Sequence[Mapping[str, JSON]], turns: int) -> tuple[list[Said], list[str]]:
    """Return what a model said in each turn, and the digests of what it was shown."""
    if any(call.get("failure") is not None or call.get("fault") is not None for call in calls):
        raise Dropped("unreadable_reply")
    if [call.get("turn") for call in calls] != list(range(1, turns + 1)):
        raise Dropped("asked_again" if len(calls) > turns else "unreadable_reply")
    said = []
    for call in calls:
        message = call.get("said")
        if not isinstance(message, dict) or call.get("thought") or _is_cut(message, call):
            raise Dropped("unreadable_reply")
        ids = tuple(item["id"] for item in message.get("tool_calls") or ())
        said.append(Said(message, message["content"], ids))
    return said, [call["prompt_digest"] for call in calls]


def _is_cut(message: Mapping[str, JSON], call: Mapping[str, JSON]) -> bool:
    """Return whether a reply is repeated otherwise than it was said: shortened, or with words for one of none."""
    content = message.get("content")
    if not isinstance(content, str) or content.endswith(" […]"):
        return True
    return content == "(nothing)" and not message.get("tool_calls")
