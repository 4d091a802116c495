"""Inspect's own evaluation with its mock model, and its own reader of logs."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys

from inspect_ai import eval as evaluate
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from agentenvs.adapters.plugs.inspect_ai import world_task

ENV, SPLIT, URL, LINES = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])


def answer(messages, tools, choice, config):
    turn = sum(message.role == "assistant" for message in messages)
    made = ModelOutput.from_content("mockllm", LINES[min(turn, len(LINES) - 1)])
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it downloads a tokenizer to count
    return made


model = get_model("mockllm/model", custom_outputs=answer)
made = evaluate(world_task(ENV, SPLIT, count=2, url=URL), model=model, log_dir="logs", display="none")
log = read_eval_log(made[0].location)
assert log.status == "success", log.error
for sample in log.samples:
    score = sample.scores["verdict"]
    turns = sample.store["agentenvs"]["turns"]
    assert len(turns) == sum(message.role == "assistant" for message in sample.messages)
    assert all({"valid", "state_key", "potential", "state_before"} <= turn.keys() for turn in turns)
    print(sample.id, score.value, len(turns), json.dumps(score.metadata["verdict"]["success"]))
print("mean", log.results.scores[0].metrics["mean"].value)
