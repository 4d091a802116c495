"""A critic: the first blocks of a model, trained on their own, with a value for each token and one for each turn.

One causal pass gives both: the value before a token is read off the position before it, the value of a turn off the
last position of its context (VETTA, arXiv 2610.08402, from its description).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from agentenvs.train.batch import Batch
from agentenvs.train.records import Episode, Floats


@dataclass(frozen=True)
class CriticConfig:
    """Settings of a critic."""

    layers: int = 2
    lr: float = 1e-3
    clip: float = 0.2
    """How far a value may move from what it was before its loss stops pulling."""
    epochs: int = 2
    token_budget: int = 8192
    gradient_clip: float = 1.0


class Critic(nn.Module):
    """Values of tokens and turns.

    Args:
        model: A causal language model whose first blocks are copied.
        config: Settings.
    """

    def __init__(self, model: Any, config: CriticConfig) -> None:
        super().__init__()
        self.config = config
        self.body: Any = copy.deepcopy(model.base_model)
        blocks = self.body.layers if hasattr(self.body, "layers") else self.body.h
        del blocks[config.layers :]
        width = model.get_output_embeddings().weight.shape[1]
        self.token = nn.Linear(width, 1)
        self.turn = nn.Linear(width, 1)
        for head in (self.token, self.turn):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
        self.requires_grad_(True)
        device = next(model.parameters()).device
        self.to(device)
        for count in ("num_hidden_layers", "n_layer"):
            if hasattr(self.body.config, count):
                setattr(self.body.config, count, len(blocks))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=config.lr, weight_decay=0.0)

    def values(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return values of tokens and of turns read off every position; both of shape ``(rows, width)``."""
        hidden = self.body(input_ids=ids, use_cache=False).last_hidden_state
        return self.token(hidden)[..., 0], self.turn(hidden)[..., 0]

    @torch.no_grad()
    def annotate(self, episodes: Sequence[Episode]) -> None:
        """Write the stream ``value`` (before each token) and ``turn.signals["value"]``."""
        for places, ids in self._packed(episodes):
            token, turn = (one.cpu().numpy() for one in self.values(ids))
            for line, (index, place) in enumerate(places):
                segment = episodes[index].segments[place]
                stream: Floats = np.zeros(len(segment), np.float32)
                stream[1:] = token[line, : len(segment) - 1]
                segment.streams["value"] = stream
                for one in episodes[index].turns:
                    if one.segment == place:
                        one.signals["value"] = float(turn[line, max(one.start - 1, 0)])

    def learn(self, batch: Batch) -> dict[str, float]:
        """Move values towards the stream ``value_target`` and ``turn.signals["value_target"]``, where they are."""
        losses: list[float] = []
        for _ in range(self.config.epochs):
            self.optimizer.zero_grad(set_to_none=True)
            count = sum(episode.tokens for episode in batch.episodes) or 1
            turns = sum(len(episode.turns) for episode in batch.episodes) or 1
            whole = 0.0
            for places, ids in self._packed(batch.episodes):
                token, turn = self.values(ids)
                loss = self._token_loss(batch, places, token) / count + self._turn_loss(batch, places, turn) / turns
                loss.backward()  # type: ignore[no-untyped-call]
                whole += float(loss.detach())
            nn.utils.clip_grad_norm_(self.parameters(), self.config.gradient_clip)
            self.optimizer.step()
            losses.append(whole)
        return {"loss": losses[0]}

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _packed(self, episodes: Sequence[Episode]) -> list[tuple[list[tuple[int, int]], Tensor]]:
        order = [(index, place) for index, one in enumerate(episodes) for place in range(len(one.segments))]
        order.sort(key=lambda one: (-len(episodes[one[0]].segments[one[1]]), one))
        found = []
        device = self.token.weight.device
        while order:
            width = len(episodes[order[0][0]].segments[order[0][1]])
            taken, order = _split(order, max(1, self.config.token_budget // width))
            ids = torch.zeros((len(taken), width), dtype=torch.long)
            for line, (index, place) in enumerate(taken):
                tokens = episodes[index].segments[place].ids
                ids[line, : len(tokens)] = torch.from_numpy(tokens.astype(np.int64))
            found.append((taken, ids.to(device)))
        return found

    def _token_loss(self, batch: Batch, places: list[tuple[int, int]], values: Tensor) -> Tensor:
        loss = values.new_zeros(())
        for line, (index, place) in enumerate(places):
            segment = batch.episodes[index].segments[place]
            if "value_target" in segment.streams:
                columns = np.flatnonzero(segment.loss_mask)
                now = values[line, torch.from_numpy(columns - 1).to(values.device)]
                then, target = (self._on(segment.streams[name][columns]) for name in ("value", "value_target"))
                loss = loss + self._clipped(now, then, target).sum()
        return loss

    def _turn_loss(self, batch: Batch, places: list[tuple[int, int]], values: Tensor) -> Tensor:
        rows: list[int] = []
        columns: list[int] = []
        then: list[float] = []
        target: list[float] = []
        for line, (index, place) in enumerate(places):
            for turn in batch.episodes[index].turns:
                if turn.segment == place and "value_target" in turn.signals:
                    rows.append(line)
                    columns.append(max(turn.start - 1, 0))
                    then.append(turn.signals["value"])
                    target.append(turn.signals["value_target"])
        if not rows:
            return values.new_zeros(())
        now = values[torch.tensor(rows, device=values.device), torch.tensor(columns, device=values.device)]
        return self._clipped(now, self._on(np.array(then)), self._on(np.array(target))).sum()

    def _clipped(self, now: Tensor, then: Tensor, target: Tensor) -> Tensor:
        near = then + (now - then).clamp(-self.config.clip, self.config.clip)
        return 0.5 * torch.maximum((now - target) ** 2, (near - target) ** 2)

    def _on(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(self.token.weight.device)


def _split(order: list[tuple[int, int]], count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return order[:count], order[count:]
