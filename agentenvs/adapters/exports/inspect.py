"""Inspect's logs, version 2: the header of a run, and a sample for each episode.

Written by us, so that nobody needs Inspect to export and a run passes through an episode at a time; its own reader,
viewer and commands take them (:mod:`tests.adapters.exports.test_inspect`). A sample has the conversation as messages,
an event for each call of a model and of a tool, and one for what each turn earned. The model's events point into the
sample's own messages, as Inspect's condensed logs do, so that a long episode is not repeated at each of its calls.

Inspect needs a time for each event: a run's beginning and, after it, the seconds that were measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenvs.adapters.exports.reading import Source
from agentenvs.adapters.exports.spelling import mark, present, spelled
from agentenvs.adapters.exports.telling import ModelCall, Story, Turn
from agentenvs.adapters.exports.words import arguments_of, begun, cost_of, nanoseconds, tokens_of
from agentenvs.core.canon import JSON
from agentenvs.harness.history import Message

VERSION = 2
MAX_SUMMARY = 1000
"""Characters of a text in a summary: what Inspect itself leaves of one."""

_LATEST = 253_402_300_799_000_000
"""The last second of the year 9999, in microseconds."""
_STOPS = {
    "stop": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_SAMPLING: Mapping[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
    "max_tokens": (int,),
    "seed": (int,),
    "frequency_penalty": (int, float),
    "presence_penalty": (int, float),
    "reasoning_effort": (str,),
}
"""What of a request Inspect has a name for, and its types."""


def header(run: Source, *, only_won: bool, played: int = 0) -> dict[str, JSON]:
    """Return a log without its samples, in the order of fields that Inspect asks for.

    Args:
        run: The run.
        only_won: Whether the other episodes were left out, which the log then says.
        played: Nanoseconds that its episodes took: a run notes when it began and not when it ended.
    """
    made = run.manifest
    return {
        "version": VERSION,
        "status": "success" if made.complete else "cancelled",
        "eval": _spec(run, only_won=only_won),
        "plan": {
            "name": "plan",
            "steps": [{"solver": made.agent.name, "params": {}, "params_passed": {}}],
            "config": _sampling(run),
        },
        "results": _results(run),
        "stats": {
            "started_at": moment(run, 0),
            "completed_at": moment(run, played),
            "model_usage": _usage(run, run.totals.usage),
            "role_usage": {},
        },
        "invalidated": False,
    }


def moment(run: Source, after: int) -> str:
    """Return a moment of a run, so many nanoseconds after it began; always of the same length."""
    return _clock(begun(run.manifest.created) + after, "microseconds")


def task_name(run: Source) -> str:
    """Return what a run's task is called: as by the plug that plays these worlds under Inspect."""
    slug = run.spec.slug if run.spec is not None else _plain(run.entry.env_id.rpartition("/")[2].lower())
    return f"{slug}_{_plain(run.entry.split)}"


def model_name(run: Source) -> str:
    """Return the name of the model, or of the player that is none."""
    made = run.manifest
    return f"agentenvs/{made.agent.name}" if made.model is None else made.model.id


def sample_id(story: Story) -> str:
    """Return the name of a sample, which is part of the name of its file: the address of its scenario."""
    return f"{_plain(str(story.line['split']))}/{story.line['index']}"


def sample(story: Story) -> dict[str, JSON]:
    """Return an episode as a sample."""
    messages = _messages(story)
    events = list(_Events(story).all())
    line = story.line
    first = next((message["content"] for message in story.head if message["role"] == "user"), "")
    form = {
        "id": sample_id(story),
        "epoch": story.trial,
        "input": first,
        "target": "",
        "messages": messages,
        "output": _last_output(story, messages),
        "scores": _scores(story),
        "metadata": {**story.task(), **story.state(), "metrics": line["metrics"], "usage": line["usage"]},
        "store": {},
        "events": events,
        "model_usage": _usage(story.run, line["usage"]),
        "role_usage": {},
        "total_time": story.seconds,
        "working_time": story.seconds,
        "uuid": mark("sample", story.name)[:22],
        "error": _error(story),
        "attachments": {},
        "events_data": {"messages": messages, "calls": []},
        "limit": _limit(story),
        "turn_count": len(story.turns),
    }
    return present(form)


def summary(form: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the summary of a sample: what listings read."""
    scores = {
        name: present({**score, "explanation": _short(score.get("explanation")), "metadata": _thin(score["metadata"])})
        for name, score in form["scores"].items()
    }
    return present(
        {
            "id": form["id"],
            "epoch": form["epoch"],
            "input": _short(form["input"]),
            "target": "",
            "metadata": _thin(form["metadata"]),
            "scores": scores,
            "model_usage": form["model_usage"],
            "role_usage": {},
            "total_time": form.get("total_time"),
            "working_time": form.get("working_time"),
            "uuid": form["uuid"],
            "error": _short(form["error"]["message"]) if "error" in form else None,
            "limit": form["limit"]["type"] if "limit" in form else None,
            "limit_reason": form["limit"]["reason"] if "limit" in form else None,
            "completed": True,
            "message_count": len(form["messages"]),
            "turn_count": form["turn_count"],
        }
    )


# ---- the header ------------------------------------------------------------------------------------------------------


def _spec(run: Source, *, only_won: bool) -> dict[str, JSON]:
    made, entry = run.manifest, run.entry
    suite = made.suite
    revision = None
    if suite.git_commit is not None:
        revision = present({"type": "git", "origin": "", "commit": suite.git_commit, "dirty": suite.dirty})
    form = {
        "eval_id": mark("eval", made.run_id, only_won)[:22],
        "run_id": made.run_id,
        "created": _clock(begun(made.created)),
        "task": task_name(run),
        "task_id": mark("task", entry.env_id, entry.spec_digest, entry.split, entry.options)[:22],
        "task_version": entry.env_version,
        "task_display_name": f"{entry.env_id} {entry.split}",
        "task_attribs": {},
        "task_args": run.options,
        "task_args_passed": run.options,
        "solver": made.agent.name,
        "dataset": {"name": f"{entry.env_id}/{entry.split}", "samples": entry.tasks, "shuffled": False},
        "model": model_name(run),
        "model_generate_config": _sampling(run),
        "model_args": {},
        "config": {"epochs": entry.trials, "fail_on_error": False},
        "revision": revision,
        "packages": {"agentenvs": suite.version},
        "metadata": {
            "exported_by": "agentenvs",
            "only_won": only_won,
            # Signatures are over the whole manifest, and no part of what is exported.
            "manifest": made.model_dump(mode="json", exclude={"signatures", "machine"}),
        },
        "scorers": [
            {"name": "verdict", "metrics": [{"name": "mean"}, {"name": "stderr"}]},
            {"name": "success", "metrics": [{"name": "accuracy"}, {"name": "stderr"}]},
        ],
        "headline_metric": {"scorer": "success", "metric": "accuracy"},
    }
    return present(form)


def _results(run: Source) -> dict[str, JSON]:
    totals = run.totals
    return {
        "total_samples": totals.episodes,
        "completed_samples": totals.episodes - totals.failed,
        "scores": [
            _score_of("verdict", totals.episodes, {"mean": totals.reward, "stderr": totals.reward_error}),
            _score_of("success", totals.episodes, {"accuracy": totals.rate, "stderr": totals.rate_error}),
        ],
        "headline": {"scorer": "success", "metric": "accuracy"},
    }


def _score_of(name: str, count: int, metrics: Mapping[str, float]) -> dict[str, JSON]:
    return {
        "name": name,
        "scorer": name,
        "scored_samples": count,
        "unscored_samples": 0,
        "params": {},
        "metrics": {one: {"name": one, "value": value, "params": {}} for one, value in metrics.items()},
    }


def _sampling(run: Source) -> dict[str, JSON]:
    """Return what was sent to sample with, as far as Inspect has a name for it."""
    model = run.manifest.model
    if model is None:
        return {}
    try:
        sent = json.loads(model.sampling)
    except (ValueError, RecursionError):
        return {}
    sent = sent if isinstance(sent, dict) else {}
    return {name: sent[name] for name, kinds in _SAMPLING.items() if type(sent.get(name)) in kinds}


def _usage(run: Source, usage: Mapping[str, Any]) -> dict[str, JSON]:
    """Return tokens and dollars under the name of the model; nothing where they are not known."""
    into, out = tokens_of(usage, "tokens_in"), tokens_of(usage, "tokens_out")
    if run.manifest.model is None or into is None or out is None:
        return {}
    return {model_name(run): _tokens(into, out, tokens_of(usage, "tokens_cached"), cost_of(usage))}


def _tokens(into: int, out: int, cached: int | None, cost: float | None) -> dict[str, JSON]:
    # Inspect's input tokens are those that were not read from a cache; its total holds both.
    read = min(cached or 0, into)
    return present(
        {
            "input_tokens": into - read,
            "output_tokens": out,
            "total_tokens": into + out,
            "input_tokens_cache_read": cached,
            "total_cost": cost,
        }
    )


# ---- a sample --------------------------------------------------------------------------------------------------------


def _messages(story: Story) -> list[JSON]:
    found: list[JSON] = []
    for message in story.head:
        found.append(_message(message, len(found), story, source="input"))
    for turn in story.turns:
        told: dict[str, JSON] = {"turn": turn.number, "valid": turn.valid, "error": turn.error}
        if turn.reward is not None:
            told["reward"] = turn.reward
        found.append(_message(turn.said, len(found), story, source="generate"))
        names = {call["id"]: call["function"]["name"] for call in turn.said.get("tool_calls") or ()}
        for answer in turn.answers:
            found.append(_message(answer, len(found), story, names=names, failed=turn.error, metadata=told))
    return found


def _message(
    message: Message,
    place: int,
    story: Story,
    *,
    source: str | None = None,
    names: Mapping[str, str] | None = None,
    failed: str | None = None,
    metadata: JSON = None,
) -> JSON:
    role = message["role"]
    form: dict[str, JSON] = {
        "id": mark("message", story.name, place)[:22],
        "content": message["content"],
        "source": source,
        "metadata": metadata,
        "role": role,
    }
    if role == "assistant":
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        form |= {"tool_calls": calls or None, "model": model_name(story.run)}
    elif role == "tool":
        name = str(message["tool_call_id"])
        error = {"type": "unknown", "message": failed} if failed is not None else None
        form |= {"tool_call_id": name, "function": (names or {}).get(name), "error": error}
    return present(form)


def _call(call: Mapping[str, Any]) -> JSON:
    return {
        "id": call["id"],
        "function": call["function"]["name"],
        "arguments": arguments_of(call),
        "type": "function",
    }


def _last_output(story: Story, messages: Sequence[JSON]) -> JSON:
    last = next((message for message in reversed(messages) if message.get("source") == "generate"), None)
    if last is None:
        return {"model": model_name(story.run), "choices": []}
    finish = next((call.finish for turn in reversed(story.turns) for call in reversed(turn.calls)), None)
    return {
        "model": model_name(story.run),
        "choices": [{"message": last, "stop_reason": _STOPS.get(finish or "stop", "unknown")}],
        "completion": last["content"],
    }


def _scores(story: Story) -> dict[str, JSON]:
    verdict = story.verdict
    why = "\n".join(verdict.reasons) or None
    about = {"success": story.line["success"], "ending": story.line["ending"]}
    told = {"components": dict(verdict.components), "facts": dict(verdict.facts), "judged_reward": verdict.reward}
    return {
        "verdict": present({"value": story.line["reward"], "explanation": why, "metadata": {**about, **told}}),
        "success": present({"value": float(story.line["success"]), "explanation": why, "metadata": about}),
    }


def _error(story: Story) -> JSON:
    line = story.line
    if line["error"] is None and line["fault"] is None:
        return None
    words = f"{line['fault'] or 'unknown'}: {line['error'] or line['ending']}"
    return {"message": words, "traceback": "", "traceback_ansi": ""}


def _limit(story: Story) -> JSON:
    """Return what cut an episode short without anybody's failure."""
    line = story.line
    if line["ending"] == "terminated" or _error(story) is not None:
        return None
    reason = line["ending"] if line["stopped"] is None else f"{line['ending']}: {line['stopped']}"
    return {"type": "custom", "limit": float(line["turns"]), "reason": reason}


def _told(turn: Turn) -> dict[str, JSON]:
    """Return what a turn was and earned; and what was seen, where no other event says so."""
    told = {"turn": turn.number, "action": turn.action, "valid": turn.valid, "error": turn.error, "reward": turn.reward}
    return told if turn.calls or turn.said.get("tool_calls") else {**told, "observation": turn.seen}


class _Events:
    """The events of a sample, laid out in time."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._start = begun(story.run.manifest.created)
        self._now = 0
        self._made = 0

    def all(self) -> Iterator[dict[str, JSON]]:
        story = self._story
        place = len(story.head)
        for turn in story.turns:
            for call in turn.calls:
                yield self._model(call, place)
            yield from self._tools(turn, place)
            yield self._event("info", source="agentenvs", data=_told(turn))
            place += 1 + len(turn.answers)
        for call in story.loose:
            yield self._model(call, place)
        for name, score in _scores(story).items():
            yield self._event("score", score=score, intermediate=False, scorer=name)

    def _model(self, call: ModelCall, place: int) -> dict[str, JSON]:
        model = model_name(self._story.run)
        choices = []
        if call.said is not None:
            message = _message(call.said, place, self._story, source="generate")
            choices.append({"message": message, "stop_reason": _STOPS.get(call.finish or "stop", "unknown")})
        usage = None
        if call.tokens_in is not None and call.tokens_out is not None:
            usage = _tokens(call.tokens_in, call.tokens_out, call.tokens_cached, None)
        output = present({"model": model, "choices": choices, "usage": usage, "time": call.seconds})
        event = self._event(
            "model",
            model=model,
            input=[],
            input_refs=[[0, place]] if place and call.said is not None else None,
            tools=[],
            tool_choice="auto",
            config={},
            output=output,
            error=call.error,
            working_time=call.seconds,
            metadata=None if call.prompt is None else {"prompt_digest": call.prompt},
        )
        self._now += nanoseconds(call.seconds)
        return {**event, "completed": _clock(self._start + self._now)}

    def _tools(self, turn: Turn, place: int) -> Iterator[dict[str, JSON]]:
        for order, call in enumerate(turn.said.get("tool_calls") or ()):
            answer = turn.answers[order] if order < len(turn.answers) else {"content": ""}
            error = {"type": "unknown", "message": turn.error} if turn.error is not None else None
            event = self._event(
                "tool",
                type="function",
                id=call["id"],
                function=call["function"]["name"],
                arguments=arguments_of(call),
                result=answer["content"],
                error=error,
                message_id=mark("message", self._story.name, place + 1 + order)[:22],
            )
            yield {**event, "events": [], "completed": event["timestamp"]}

    def _event(self, kind: str, **fields: JSON) -> dict[str, JSON]:
        self._made += 1
        return {
            "uuid": mark("event", self._story.name, self._made)[:22],
            "timestamp": _clock(self._start + self._now),
            "working_start": self._now / 1e9,
            "event": kind,
            **present(fields),
        }


def _clock(since: int, digits: str = "auto") -> str:
    """Return a time as Inspect spells it, from nanoseconds since 1970."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=min(since // 1000, _LATEST))).isoformat(
        timespec=digits
    )


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 3]}..."


def _thin(form: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in form.items() if len(spelled(value)) < MAX_SUMMARY}


def _plain(name: str) -> str:
    """Return a name that may be part of a file's: no slash, and no dot that leads upwards."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in name)
    return kept.lstrip(".")[:80] or "-"
