"""The slow way, for models of any other shape: Hugging Face's own cache, one conversation at a time.

The same turns with the same chance as :class:`~agentenvs.train.engine.slots.Slots`; only what each tick costs differs,
for conversations do not share a forward pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from agentenvs.train.engine.decoder import Decoder
from agentenvs.train.engine.slots import Slots, SlotsBase


class GenericSlots(SlotsBase):
    """Samples turns of conversations, one after another.

    Args:
        model: A causal language model.
        slots: How many conversations are kept.
        length: The most tokens of each.
    """

    def __init__(self, model: torch.nn.Module, slots: int, length: int) -> None:
        super().__init__(model, slots, length)
        names = inspect.signature(model.forward).parameters
        self._argument = "cache" if "cache" in names else "past_key_values"
        self._caches: list[Any] = [None] * slots

    def _compute(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> torch.Tensor:
        found = [self._one(row, chunk) for row, chunk in zip(rows, chunks, strict=True)]
        return torch.cat(found)

    def _plan(self, places: list[int]) -> list[list[int]]:
        return [places]

    def _one(self, row: int, chunk: Sequence[int]) -> torch.Tensor:
        length = len(self._slots[row].cached)
        cache = self._caches[row]
        if cache is None or length == 0:
            cache = DynamicCache(config=self.model.config)
        elif cache.get_seq_length() > length:
            cache.crop(length)
        body: Any = self.model.base_model
        ids = torch.tensor([list(chunk)], device=self._device)
        found = body(input_ids=ids, use_cache=True, **{self._argument: cache})
        self._caches[row] = getattr(found, self._argument, None) or cache
        return found.last_hidden_state[:, -1]  # type: ignore[no-any-return]


def slots_of(model: torch.nn.Module, slots: int, length: int, *, graphs: bool = False) -> Slots | GenericSlots:
    """Return the fastest slots that a model fits."""
    if Decoder.fits(model):
        return Slots(model, slots, length, graphs=graphs)
    return GenericSlots(model, slots, length)
