"""A tokenizer of one's own: byte-level BPE trained on what an environment says, so that no hub is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SPECIALS = ("<pad>", "<seen>", "<act>", "<end>")


def train_tokenizer(texts: Iterable[str], vocabulary: int = 512) -> Any:
    """Return a Hugging Face tokenizer trained on some texts; the same texts give the same tokenizer.

    Args:
        texts: What an environment shows, and what players say.
        vocabulary: The most tokens, with 256 bytes and the special ones.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=tokenizer, pad_token=SPECIALS[0], eos_token=SPECIALS[3])
