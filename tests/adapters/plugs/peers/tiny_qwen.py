"""Puts a tiny random Qwen3 under a given name into a cache of the Hub, so that what asks for that name finds it.

    python tiny_qwen.py FOLDER NAME [tokenizer]

Run where transformers and torch are; for the tokenizer alone transformers do.
"""

import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CALLS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"]


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one whose tokens are bytes, with Qwen3's marks."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    words = {letter: place for place, letter in enumerate(sorted(letters))}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": MARKS})
    fast.add_tokens(CALLS)
    return fast


def shape(words: PreTrainedTokenizerFast) -> Qwen3Config:
    """Return the shape of a Qwen3 of one layer."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    made = Qwen3Config(vocab_size=len(words), num_key_value_heads=1, head_dim=8, max_position_embeddings=32768, **sizes)
    made.eos_token_id, made.pad_token_id = words.eos_token_id, words.pad_token_id
    return made


def model(words: PreTrainedTokenizerFast):
    """Return a model, random but for a liking for the end of its turn: what it says is short."""
    import torch
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(0)
    made = Qwen3ForCausalLM(shape(words))
    with torch.no_grad():
        made.model.embed_tokens.weight.fill_(1.0)
        made.lm_head.weight[words.eos_token_id] = 0.25
    return made


def main(folder: Path, name: str, *, whole: bool) -> None:
    """Write it as the Hub's client would have."""
    place = folder / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0")
    words = tokenizer()
    if whole:
        from trl.chat_template_utils import qwen3_chat_template

        words.chat_template = qwen3_chat_template
        model(words).save_pretrained(snapshot)
    else:
        shape(words).save_pretrained(snapshot)
    words.save_pretrained(snapshot)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], whole="tokenizer" not in sys.argv[3:])
