"""Run by a Python that has trl and torch: reads files of ``agentenvs collect`` with TRL's SFT trainer.

    python trl_sft.py FILE.jsonl ... -> JSON: rows, the tokens that are trained, and what one step's loss was

The mask that TRL computes is turned back into text, which must be what the rows' spans name, message by message.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import trl
from datasets import load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3_training.jinja").read_text()
    return made


def own(row: dict[str, Any]) -> list[str]:
    """Return what the spans of a row say is the player's, one text a message, as the template spells it."""
    found: dict[int, dict[str, Any]] = {}
    for span in row["spans"]:
        part = row["messages"][span["message"]][span["part"]]
        found.setdefault(span["message"], {})[span["part"]] = part[span["start"] : span["end"]]
    texts = []
    for parts in found.values():
        text = parts.get("content", "")
        made = [call["function"] for call in parts.get("tool_calls", [])]
        calls = [
            f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}\n</tool_call>'
            for call in made
        ]
        texts.append("<think>\n\n</think>\n\n" + "\n".join([*([text] if text else []), *calls]) + "<|im_end|>\n")
    return texts


def trained(example: dict[str, Any], tokens: PreTrainedTokenizerFast) -> list[str]:
    """Return the runs of tokens that TRL trains on, as text."""
    runs: list[list[int]] = [[]]
    for token, label in zip(example["input_ids"], example["labels"], strict=True):
        if label != -100:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    return [tokens.decode(run) for run in runs if run]


def main(files: list[str]) -> None:
    rows = load_dataset("json", data_files=files, split="train")
    raw = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    tokens = tokenizer([message["content"] for row in raw for message in row["messages"]])
    config = Qwen3Config(
        vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=8192,
        eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.SFTConfig(
            output_dir=folder, assistant_only_loss=True, max_length=None, max_steps=1, per_device_train_batch_size=1,
            report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False, save_strategy="no",
            disable_tqdm=True, dataset_num_proc=None,
        )  # fmt: skip
        trainer = trl.SFTTrainer(
            model=Qwen3ForCausalLM(config), args=settings, train_dataset=rows, processing_class=tokens
        )
        loss = trainer.train().training_loss
        examples = list(trainer.train_dataset)
    wrong = [
        {"row": number, "spans": own(row), "trained": trained(example, tokens)}
        for number, (row, example) in enumerate(zip(raw, examples, strict=True))
        if own(row) != trained(example, tokens)
    ]
    counts = {
        "rows": len(raw),
        "turns": sum(len(own(row)) for row in raw),
        "trained": sum(label != -100 for example in examples for label in example["labels"]),
        "tokens": sum(len(example["input_ids"]) for example in examples),
    }
    sys.stdout.write(json.dumps({**counts, "loss": loss, "wrong": wrong[:2]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
