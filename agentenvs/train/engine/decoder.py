"""A forward pass over a preallocated KV cache, for models of Llama's shape (Llama, Qwen 2 and 3).

It reads the modules of the Hugging Face model and runs them itself, so that rows of a batch may stand at different
lengths and only new tokens are computed: row ``b`` holds tokens ``0 … start[b]-1`` and is given those after. A query
attends to the keys of its own row up to its own position; what stands behind (of rows that were cut, or padding) is
masked, and written over when the row grows. Heads that share a key stand side by side in one query, so that keys are
never repeated. The result equals the model's own forward to rounding; tests hold it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class Cache:
    """Keys and values of some slots.

    Args:
        config: Of the model.
        slots: How many rows.
        length: The most tokens a row.
        dtype: Of keys and values.
        device: Where they lie.
    """

    def __init__(self, config: Any, slots: int, length: int, dtype: torch.dtype, device: torch.device) -> None:
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (slots, heads, length, width)
        self.slots, self.length = slots, length
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)]


class Decoder:
    """Runs a model over a cache.

    Args:
        model: A causal language model for which :meth:`fits` holds.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        config = model.config
        self._heads: int = config.num_attention_heads
        self._kv: int = config.num_key_value_heads
        self._width: int = getattr(config, "head_dim", None) or config.hidden_size // self._heads

    @staticmethod
    def fits(model: Any) -> bool:
        """Return whether a model has the shape this reads: rotary positions, full attention, one residual stream."""
        config = model.config
        if getattr(config, "model_type", "") not in {"llama", "qwen2", "qwen3"}:
            return False
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        return kinds == {"full_attention"} and not getattr(config, "use_sliding_window", False)

    def forward(
        self, ids: Tensor, start: Tensor, cache: Cache, rows: Tensor | None = None, reach: int | None = None
    ) -> Tensor:
        """Compute new tokens, and put their keys and values into the cache.

        Args:
            ids: Shape ``(b, s)``; rows shorter than ``s`` are padded on the right with any id.
            start: Position of the first of them, shape ``(b,)``.
            cache: What stands before.
            rows: Which slots they belong to, shape ``(b,)``; all of them, in order, where None.
            reach: How much of the cache is looked at; as far as any row reaches where None.

        Returns:
            Hidden states after the last norm, shape ``(b, s, d)``.
        """
        body = self.model.model
        count, width = ids.shape
        positions = start[:, None] + torch.arange(width, device=ids.device)
        positions = positions.clamp_(max=cache.length - 1)
        reach = int(positions.max()) + 1 if reach is None else reach
        hidden = body.embed_tokens(ids)
        rope = body.rotary_emb(hidden, positions)
        groups = self._heads // self._kv
        seen = torch.arange(reach, device=ids.device)[None, None, :] <= positions[:, :, None]
        mask = seen[:, None, None].expand(count, 1, groups, width, reach).reshape(count, 1, groups * width, reach)
        index = torch.arange(count, device=ids.device) if rows is None else rows
        for place, layer in enumerate(body.layers):
            keys, values = cache.keys[place], cache.values[place]
            hidden = hidden + self._attend(
                layer.self_attn, layer.input_layernorm(hidden), rope, keys, values, index, positions, reach, mask, rows
            )
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return body.norm(hidden)  # type: ignore[no-any-return]

    def _attend(
        self,
        attention: Any,
        hidden: Tensor,
        rope: tuple[Tensor, Tensor],
        keys: Tensor,
        values: Tensor,
        index: Tensor,
        positions: Tensor,
        reach: int,
        mask: Tensor,
        rows: Tensor | None,
    ) -> Tensor:
        count, width, _ = hidden.shape
        query = attention.q_proj(hidden).view(count, width, self._heads, self._width)
        key = attention.k_proj(hidden).view(count, width, self._kv, self._width)
        value = attention.v_proj(hidden).view(count, width, self._kv, self._width)
        if hasattr(attention, "q_norm"):
            query, key = attention.q_norm(query), attention.k_norm(key)
        cos, sin = rope[0][:, :, None], rope[1][:, :, None]
        query, key = _rotate(query, cos, sin), _rotate(key, cos, sin)
        keys[index[:, None], :, positions] = key.to(keys.dtype)
        values[index[:, None], :, positions] = value.to(values.dtype)
        behind, worth = keys[:, :, :reach], values[:, :, :reach]
        if rows is not None:
            behind, worth = behind[rows], worth[rows]
        groups = self._heads // self._kv
        grouped = query.view(count, width, self._kv, groups, self._width).permute(0, 2, 3, 1, 4)
        grouped = grouped.reshape(count, self._kv, groups * width, self._width)
        found = F.scaled_dot_product_attention(grouped, behind.to(query.dtype), worth.to(query.dtype), attn_mask=mask)
        found = found.view(count, self._kv, groups, width, self._width).permute(0, 3, 1, 2, 4)
        return attention.o_proj(found.reshape(count, width, self._heads * self._width))  # type: ignore[no-any-return]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin
