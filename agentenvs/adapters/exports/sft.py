"""Chat data: a JSON line an episode, in the columns of ``agentenvs collect``, with how it ended beside them.

``collect`` keeps what its rules keep, proved by replay; here stands every episode, won or not. What differs between the
rows of a file in its names is a JSON string, since loaders make columns of objects.
"""

from __future__ import annotations

from agentenvs.adapters.exports.spelling import spelled
from agentenvs.adapters.exports.telling import Story
from agentenvs.adapters.exports.words import tokens_of
from agentenvs.core.canon import JSON
from agentenvs.harness.collect.telling import own_spans


def row(story: Story) -> dict[str, JSON]:
    """Return the row of an episode; its conversation ends with what the player said last."""
    messages, spans = list(story.head), []
    for turn in story.turns:
        spans += own_spans(len(messages), turn.said)
        messages += [turn.said, *turn.answers]
    last = spans[-1].message if spans else len(messages) - 1
    task, state, made = story.task(), story.state(), story.run.manifest
    return {
        "id": story.name,
        "messages": messages[: last + 1],
        "tools": None if story.tools is None else spelled(story.tools),
        "spans": [span._asdict() for span in spans],
        **{name: task[name] for name in ("env", "release", "split", "index", "trial")},
        "scenario": task["scenario_digest"],
        "record": task["record"],
        "player": story.run.player,
        "model": None if made.model is None else made.model.id,
        **{name: state[name] for name in ("privileged", "success", "reward", "turns", "invalid", "ending")},
        **{name: state[name] for name in ("stopped", "fault", "error", "verified")},
        "reasons": list(story.verdict.reasons),
        "components": spelled(dict(story.verdict.components), sort=True),
        **{name: tokens_of(story.line["usage"], name) for name in ("tokens_in", "tokens_out", "cost_microusd")},
    }
