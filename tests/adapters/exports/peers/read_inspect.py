"""Run by a Python that has inspect_ai: reads logs with Inspect's own reader, whole and in parts.

python read_inspect.py LOG ... -> JSON: a list with what each says
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("error")

from inspect_ai.log import (  # noqa: E402
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
)


def told(path: str) -> dict[str, Any]:
    log = read_eval_log(path, resolve_attachments=True)
    head = read_eval_log(path, header_only=True)
    assert head.samples is None
    # Its reader puts the names of the samples it has read into the data set.
    assert head.eval.model_dump(exclude={"dataset"}) == log.eval.model_dump(exclude={"dataset"})
    assert head.results == log.results
    summaries = read_eval_log_sample_summaries(path)
    samples = log.samples or []
    assert [(one.id, one.epoch, one.uuid) for one in summaries] == [(one.id, one.epoch, one.uuid) for one in samples]
    assert all(one.summary().scores == short.scores for one, short in zip(samples, summaries, strict=True))
    for one in samples:
        assert read_eval_log_sample(path, one.id, one.epoch).messages == one.messages
    return {
        "status": log.status,
        "times": [log.stats.started_at, log.stats.completed_at],
        "task": log.eval.task,
        "model": log.eval.model,
        "metrics": {
            score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores
        },
        "samples": [sample(one) for one in samples],
    }


def sample(one: Any) -> dict[str, Any]:
    asked = [event for event in one.events if event.event == "model"]
    return {
        "id": one.id,
        "epoch": one.epoch,
        "messages": [[message.role, message.text] for message in one.messages],
        "calls": [
            [call.function, call.arguments]
            for message in one.messages
            if message.role == "assistant"
            for call in message.tool_calls or []
        ],
        "events": [event.event for event in one.events],
        "shown": [len(event.input) for event in asked],
        "seconds": one.total_time,
        "usage": {name: usage.model_dump() for name, usage in one.model_usage.items()},
        "scores": {name: [score.value, score.explanation] for name, score in one.scores.items()},
        "error": None if one.error is None else one.error.message,
        "limit": None if one.limit is None else one.limit.reason,
        "metadata": one.metadata,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([told(path) for path in sys.argv[1:]]))
