"""ATIF, the trajectories of Harbor and Terminal-Bench: a JSON document an episode.

Version 1.7 is the first with all that stands here (tool calls and results with extras, how many model calls a step is),
and any reader of 1.7 reads it. A step of a player without a model says ``llm_call_count: 0`` and has no metrics, as the
format asks. No time of day is kept of an episode, so steps have no timestamps; the seconds of model calls are metrics.
"""

from __future__ import annotations

from agentenvs.adapters.exports.spelling import present
from agentenvs.adapters.exports.telling import ModelCall, Story, Turn
from agentenvs.adapters.exports.words import arguments_of, cost_of, tokens_of
from agentenvs.core.canon import JSON
from agentenvs.core.portable import total
from agentenvs.harness.history import Message

VERSION = "ATIF-v1.7"


def trajectory(story: Story) -> dict[str, JSON]:
    """Return the document of an episode."""
    steps = [*map(_said_to, story.head), *(_step(story, turn) for turn in story.turns)]
    for place, step in enumerate(steps, start=1):
        step["step_id"] = place
    made, state = story.run.manifest, story.state()
    verdict = story.verdict
    return {
        "schema_version": VERSION,
        "session_id": made.run_id,
        "trajectory_id": story.name,
        "agent": _agent(story),
        "steps": steps,
        "notes": f"{story.run.entry.env_id}, {state['ending']}" + (f": {state['error']}" if state["error"] else ""),
        "final_metrics": _final(story, len(steps)),
        "extra": {
            "task": story.task(),
            "options": story.run.options,
            "state": state,
            "verdict": verdict.to_json(),
            "seconds": story.seconds,
            "agentenvs": made.suite.version,
        },
    }


def _agent(story: Story) -> dict[str, JSON]:
    made = story.run.manifest
    form: dict[str, JSON] = {
        "name": made.agent.name,
        "version": made.agent.version or made.suite.version,
        "model_name": None if made.model is None else made.model.id,
        "tool_definitions": story.tools,
        "extra": {"privileged": made.agent.privileged, "prompts_hash": made.agent.prompts_hash},
    }
    return present(form)


def _said_to(message: Message) -> dict[str, JSON]:
    role = message["role"]
    source = {"system": "system", "assistant": "agent"}.get(str(role), "user")
    # An assent that a protocol puts into the model's mouth is no call of it.
    said: dict[str, JSON] = {"step_id": 0, "source": source, "message": message["content"]}
    return {**said, "llm_call_count": 0} if source == "agent" else said


def _step(story: Story, turn: Turn) -> dict[str, JSON]:
    by_model = story.run.manifest.model is not None
    calls = [
        {
            "tool_call_id": call["id"],
            "function_name": call["function"]["name"],
            "arguments": arguments_of(call),
        }
        for call in turn.said.get("tool_calls") or ()
    ]
    results = [
        present({"source_call_id": answer.get("tool_call_id"), "content": answer["content"]}) for answer in turn.answers
    ]
    return present(
        {
            "step_id": 0,
            "source": "agent",
            "message": turn.said["content"],
            "tool_calls": calls or None,
            "observation": {"results": results},
            "metrics": _metrics(turn.calls) if turn.calls else None,
            "llm_call_count": len(turn.calls) if turn.calls else None if by_model else 0,
            "extra": {"turn": turn.number, "reward": turn.reward, "valid": turn.valid, "error": turn.error},
        }
    )


def _metrics(calls: list[ModelCall]) -> dict[str, JSON]:
    """Return what the calls of a step come to; a sum is left out where a part is not known."""
    sums: dict[str, JSON] = {}
    for name, field in (("prompt_tokens", "tokens_in"), ("completion_tokens", "tokens_out")):
        values = [getattr(call, field) for call in calls]
        sums[name] = None if None in values else sum(values)
    cached = [call.tokens_cached for call in calls if call.tokens_cached is not None]
    times = [call.seconds for call in calls if call.seconds is not None]
    seconds = total(times) if len(times) == len(calls) else None
    finish = [call.finish for call in calls if call.finish is not None]
    extra = present({"seconds": seconds, "finish_reasons": finish or None})
    return present({**sums, "cached_tokens": sum(cached) if cached else None, "extra": extra or None})


def _final(story: Story, steps: int) -> dict[str, JSON]:
    usage = story.line["usage"]
    return present(
        {
            "total_prompt_tokens": tokens_of(usage, "tokens_in"),
            "total_completion_tokens": tokens_of(usage, "tokens_out"),
            "total_cached_tokens": tokens_of(usage, "tokens_cached"),
            "total_cost_usd": cost_of(usage),
            "total_steps": steps,
            "extra": {
                "reward": story.verdict.reward,
                "counted_reward": story.line["reward"],
                "success": story.line["success"],
                "components": dict(story.verdict.components),
                "reasons": list(story.verdict.reasons),
                "model_calls": len(story.calls),
            },
        }
    )
