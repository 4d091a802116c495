"""Two steps of ``GRPOTrainer`` on a CPU with a tiny random Qwen3 and a scripted sampler; nothing is downloaded."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys
import tempfile

import trl
from tiny_qwen import model, tokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from agentenvs.adapters.plugs.trl import dataset, environment

ENV, SPLIT, URL = sys.argv[1], sys.argv[2], sys.argv[3] or None
CALLS = json.loads(sys.argv[4])  # what the model says, call by call; the last one again and again

words = tokenizer()
words.chat_template = qwen3_chat_template
policy = model(words)

rounds = {"count": 0}
seen = []
World = environment(ENV, url=URL)


class Watched(World):
    def reset(self, **row):
        first = super().reset(**row)
        seen.append((row["split"], row["index"], first, id(self)))
        rounds["count"] = 0
        return first


def said(call) -> str:
    if call is None:
        return "I am done.<|im_end|>"
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call><|im_end|>"


class Scripted(GRPOTrainer):
    """Samples what the script says; log-probabilities, loss and optimizer are TRL's own."""

    def _generate_single_turn(self, prompt_ids, *rest, **more):
        text = said(CALLS[min(rounds["count"], len(CALLS) - 1)])
        rounds["count"] += 1
        ids = words.encode(text, add_special_tokens=False)
        return [list(ids) for _ in prompt_ids], None


with tempfile.TemporaryDirectory() as folder:
    settings = GRPOConfig(
        output_dir=folder, max_steps=2, per_device_train_batch_size=4, num_generations=2, use_cpu=True, bf16=False,
        max_completion_length=6000, max_tool_calling_iterations=len(CALLS), report_to=[], save_strategy="no",
        logging_steps=1, learning_rate=1e-3, beta=0.0, gradient_checkpointing=False, disable_tqdm=True,
    )  # fmt: skip
    rows = dataset(ENV, SPLIT, 0, 2, url=URL)
    before = [weight.detach().clone() for weight in policy.parameters()]
    trainer = Scripted(
        model=policy, processing_class=words, args=settings, train_dataset=rows, environment_factory=Watched
    )
    trainer.train()

logs = [line for line in trainer.state.log_history if "reward" in line]
print(json.dumps(logs, default=str))
assert len(logs) == 2, logs
assert len(seen) == 8, len(seen)
groups = {}
for split, index, first, _ in seen:
    groups.setdefault((split, index), []).append(first)
assert all(len(set(firsts)) == 1 and len(firsts) >= 2 for firsts in groups.values()), "starts of a group differ"
assert len({name for *_, name in seen}) == 4, "instances are reused over the steps"
print(json.dumps({"facts": [environment._facts for environment in trainer.environments]}))
print(json.dumps({"rewards": [environment.get_reward() for environment in trainer.environments]}))
print("trained", trl.__version__)
