"""OpenTelemetry spans by the GenAI conventions (in development), as OTLP/JSON: a line an episode, each a whole request.

An episode is a trace: a span ``invoke_agent`` with a span ``chat`` for each call of a model and a span ``execute_tool``
for each action, a text command being the argument of a tool ``step``. The verdict stands on the first span as events
``gen_ai.evaluation.result``, one for the reward and one for each of its components.

Ids are digests of the run's name and the episode's number. An episode keeps no time of day: its trace begins when its
run began, lasts as long as was measured, and so do the calls of its model; an action has a place and no length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenvs.adapters.exports.reading import Source
from agentenvs.adapters.exports.spelling import mark, spelled
from agentenvs.adapters.exports.telling import ModelCall, Story, Turn
from agentenvs.adapters.exports.words import arguments_of, begun, cost_of, nanoseconds, tokens_of
from agentenvs.core.canon import JSON
from agentenvs.harness.history import Message

INTERNAL, CLIENT = 1, 3
_ERROR = 2
_PROVIDERS = (
    ("openai.azure.com", "azure.ai.openai"),
    ("openai.com", "openai"),
    ("anthropic.com", "anthropic"),
    ("mistral.ai", "mistral_ai"),
    ("groq.com", "groq"),
    ("deepseek.com", "deepseek"),
    ("x.ai", "x_ai"),
    ("perplexity.ai", "perplexity"),
    ("cohere.com", "cohere"),
    ("moonshot.ai", "moonshot_ai"),
    ("googleapis.com", "gcp.gen_ai"),
)
"""Hosts, by their ends, and what the conventions call who serves them."""
_FINISHES = {"tool_calls": "tool_call", "function_call": "tool_call"}


def request(story: Story) -> dict[str, JSON]:
    """Return the trace of an episode as a request to an OTLP receiver."""
    version = story.run.manifest.suite.version
    service = {"service.name": "agentenvs", "service.version": version, "agentenvs.run.id": story.run.manifest.run_id}
    scope = {"name": "agentenvs.exports", "version": version}
    spans = list(_Trace(story).spans())
    return {
        "resourceSpans": [
            {"resource": {"attributes": _pairs(service)}, "scopeSpans": [{"scope": scope, "spans": spans}]}
        ]
    }


@dataclass(slots=True)
class _Trace:
    """The spans of an episode, laid out in time."""

    story: Story
    now: int = 0
    """Where the next span begins, in nanoseconds."""
    _made: int = 0
    _base: str = field(default="")

    def spans(self) -> Iterator[dict[str, JSON]]:
        """Yield them, the outermost first."""
        story = self.story
        self._base = mark("trace", story.name)
        start = self.now = begun(story.run.manifest.created)
        inner: list[dict[str, JSON]] = []
        for turn in story.turns:
            inner += [self._chat(call) for call in turn.calls]
            inner += list(self._actions(turn))
        inner += [self._chat(call) for call in story.loose]
        end = max(self.now, start + nanoseconds(story.seconds))
        attributes = {**_invoked(story), **_judged(story)}
        outer = self._span(f"invoke_agent {story.run.manifest.agent.name}", INTERNAL, start, end, attributes, top=True)
        outer["events"] = [_event(end, one) for one in _evaluations(story)]
        if (error := story.line["error"]) is not None or story.line["fault"] is not None:
            outer["status"] = {"code": _ERROR, "message": error or str(story.line["fault"])}
        yield outer
        yield from inner

    def _chat(self, call: ModelCall) -> dict[str, JSON]:
        start, self.now = self.now, self.now + nanoseconds(call.seconds)
        said = None if call.said is None else [{**_parts(call.said), "finish_reason": _finish(call)}]
        attributes: dict[str, JSON] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(self.story.run),
            "gen_ai.request.model": call.model,
            "gen_ai.conversation.id": self.story.name,
            "gen_ai.usage.input_tokens": call.tokens_in,
            "gen_ai.usage.output_tokens": call.tokens_out,
            "gen_ai.usage.cache_read.input_tokens": call.tokens_cached,
            "gen_ai.response.finish_reasons": None if call.finish is None else [call.finish],
            "gen_ai.output.messages": None if said is None else spelled(said),
            "agentenvs.turn": call.turn,
            "agentenvs.prompt.digest": call.prompt,
            "error.type": None if call.error is None else "_OTHER",
        }
        span = self._span(f"chat {call.model}", CLIENT, start, self.now, attributes)
        return span if call.error is None else {**span, "status": {"code": _ERROR, "message": call.error}}

    def _actions(self, turn: Turn) -> Iterator[dict[str, JSON]]:
        """Yield a span for each call of a tool, or one for a turn without."""
        made: list[tuple[str | None, str, JSON]] = [
            (call["id"], call["function"]["name"], arguments_of(call)) for call in turn.said.get("tool_calls") or ()
        ]
        results = [str(answer["content"]) for answer in turn.answers]
        for place, (name, tool, arguments) in enumerate(made or [(None, "step", {"action": turn.action})]):
            attributes: dict[str, JSON] = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": name,
                "gen_ai.tool.call.arguments": spelled(arguments),
                "gen_ai.tool.call.result": results[place] if place < len(results) else None,
                "agentenvs.turn": turn.number,
                # A turn of several calls is paid once.
                "agentenvs.reward": turn.reward if place == 0 else None,
                "agentenvs.valid": turn.valid,
                "error.type": turn.error,
            }
            span = self._span(f"execute_tool {tool}", INTERNAL, self.now, self.now, attributes)
            yield span if turn.valid else {**span, "status": {"code": _ERROR, "message": turn.error or "refused"}}

    def _span(
        self, name: str, kind: int, start: int, end: int, attributes: Mapping[str, JSON], *, top: bool = False
    ) -> dict[str, JSON]:
        root = mark("span", self._base, 0)[:16]
        if not top:
            self._made += 1
        return {
            "traceId": self._base[:32],
            "spanId": root if top else mark("span", self._base, self._made)[:16],
            **({} if top else {"parentSpanId": root}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": _pairs(attributes),
            "status": {},
        }


def _invoked(story: Story) -> dict[str, JSON]:
    """Return what the conventions say of an agent that was invoked."""
    made, usage = story.run.manifest, story.line["usage"]
    system = [message for message in story.head if message["role"] == "system"]
    asked = [message for message in story.head if message["role"] != "system"]
    last = story.turns[-1].said if story.turns else None
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _provider(story.run),
        "gen_ai.agent.name": made.agent.name,
        "gen_ai.agent.version": made.agent.version,
        "gen_ai.conversation.id": story.name,
        "gen_ai.request.model": None if made.model is None else made.model.id,
        "gen_ai.usage.input_tokens": tokens_of(usage, "tokens_in"),
        "gen_ai.usage.output_tokens": tokens_of(usage, "tokens_out"),
        "gen_ai.usage.cache_read.input_tokens": tokens_of(usage, "tokens_cached"),
        "gen_ai.system_instructions": spelled([part for one in system for part in _parts(one)["parts"]])
        if system
        else None,
        "gen_ai.input.messages": spelled([_parts(message) for message in asked]),
        "gen_ai.output.messages": None if last is None else spelled([{**_parts(last), "finish_reason": "stop"}]),
        "gen_ai.tool.definitions": None if story.tools is None else spelled([_defined(tool) for tool in story.tools]),
        "error.type": story.line["fault"],
    }


def _judged(story: Story) -> dict[str, JSON]:
    """Return what this suite says of an episode."""
    about = {f"agentenvs.task.{name}": value for name, value in story.task().items() if name != "run_id"}
    about |= {f"agentenvs.episode.{name}": value for name, value in story.state().items()}
    return {
        **about,
        "agentenvs.options": spelled(story.run.options, sort=True),
        "agentenvs.verdict.reasons": list(story.verdict.reasons),
        "agentenvs.verdict.facts": spelled(dict(story.verdict.facts), sort=True),
        "agentenvs.cost_usd": cost_of(story.line["usage"]),
    }


def _evaluations(story: Story) -> Iterator[dict[str, JSON]]:
    yield {
        "gen_ai.evaluation.name": "verdict",
        "gen_ai.evaluation.score.value": float(story.line["reward"]),
        "gen_ai.evaluation.score.label": "pass" if story.line["success"] else "fail",
        "gen_ai.evaluation.explanation": "\n".join(story.verdict.reasons) or None,
    }
    for name, value in story.verdict.components.items():
        yield {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(value)}


def _event(at: int, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    return {"name": "gen_ai.evaluation.result", "timeUnixNano": str(at), "attributes": _pairs(attributes)}


def _provider(run: Source) -> str:
    """Return who serves the model, by the conventions' name where they have one; ours where there is no model."""
    model = run.manifest.model
    if model is None:
        return "agentenvs"
    host = model.provider
    return next((name for end, name in _PROVIDERS if host == end or host.endswith(f".{end}")), host)


def _finish(call: ModelCall) -> str:
    return "error" if call.error is not None else _FINISHES.get(call.finish or "stop", call.finish or "stop")


def _parts(message: Message) -> dict[str, Any]:
    """Return a message in the parts of the conventions."""
    parts: list[JSON] = []
    if message["role"] == "tool":
        parts.append({"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]})
    elif message["content"]:
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls") or ():
        parts.append(
            {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments_of(call)}
        )
    return {"role": message["role"], "parts": parts}


def _defined(tool: Any) -> dict[str, JSON]:
    return {"type": "function", **tool["function"]}


def _pairs(attributes: Mapping[str, JSON]) -> list[JSON]:
    """Return attributes in the form of OTLP; what is None is not there."""
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: JSON) -> dict[str, JSON]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        # Integers are strings in OTLP/JSON, of 64 bits.
        return {"intValue": str(value)} if -(2**63) <= value < 2**63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]} if value else {}}
    return {"stringValue": spelled(value)}
