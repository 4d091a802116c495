"""Two steps of ``GRPOTrainer`` on a CPU with a tiny random Qwen3 and a scripted sampler; nothing is downloaded."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys
import tempfile

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from agentenvs.adapters.plugs.trl import dataset, environment

ENV, SPLIT, URL = sys.argv[1], sys.argv[2], sys.argv[3] or None
CALLS = json.loads(sys.argv[4])  # what the model says, call by call; the last one again and again
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer() -> PreTrainedTokenizerFast:
    letters = pre_tokenizers.ByteLevel.alphabet()
    words = {letter: place for place, letter in enumerate(sorted(letters))}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": MARKS})
    fast.add_tokens(["<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"])
    fast.chat_template = qwen3_chat_template
    return fast


words = tokenizer()
torch.manual_seed(0)
shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
config = Qwen3Config(vocab_size=len(words), num_key_value_heads=1, head_dim=8, max_position_embeddings=32768, **shape)
config.eos_token_id, config.pad_token_id = words.eos_token_id, words.pad_token_id
policy = Qwen3ForCausalLM(config)

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
