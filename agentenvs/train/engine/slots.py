"""Continuous batching: conversations in slots of a cache, each fed only what is new in it.

A slot keeps the tokens whose keys and values lie in the cache. A draw names a slot and a whole prefix; what both have
in common is not computed again, so a turn costs its observation and its own tokens. Each tick feeds every slot that
has tokens waiting: several at once where a prefix has to be taken in, else the one token sampled last. Slots that wait
for their environment run along on a position that is written over later, so that no row of the cache is moved.

Where the legal actions are given, tokens without an alternative are not sampled one by one but fed at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentenvs.core.errors import ConfigError
from agentenvs.train.engine.chance import choose, uniform
from agentenvs.train.engine.decoder import Cache, Decoder
from agentenvs.train.engine.graphs import Graphs
from agentenvs.train.engine.legal import Trie
from agentenvs.train.interfaces import Draw, Sampled, Sampling

CHUNK = 512
"""The most tokens a row is fed at once; longer prefixes take several ticks."""


@dataclass(slots=True)
class _Slot:
    cached: list[int] = field(default_factory=list)
    """The tokens whose keys and values are in the cache."""
    waiting: list[int] = field(default_factory=list)
    """Tokens still to be fed; the logits after the last one are sampled from."""
    draw: Draw | None = None
    trie: Trie | None = None
    node: int = 0
    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    candidates: list[npt.NDArray[np.int32] | None] = field(default_factory=list)


class SlotsBase(ABC):
    """Samples turns of many conversations; how tokens are computed is a subclass's affair.

    Args:
        model: A causal language model.
        slots: How many conversations at a time.
        length: The most tokens of each.
    """

    def __init__(self, model: torch.nn.Module, slots: int, length: int) -> None:
        self.model: Any = model
        self.length = length
        self._device = next(model.parameters()).device
        self._slots = [_Slot() for _ in range(slots)]

    @abstractmethod
    def _plan(self, places: list[int]) -> list[list[int]]:
        """Return which slots are computed together, one list a forward pass."""

    @abstractmethod
    def _compute(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Feed tokens, and return the hidden state of the last of each slot; shape ``(rows, d)``."""

    def forget(self, slots: Sequence[int] | None = None) -> None:
        """Forget prefixes: those of some slots, or of all, as after a change of the weights."""
        for place in range(len(self._slots)) if slots is None else slots:
            self._slots[place] = _Slot()

    def submit(self, draw: Draw) -> None:
        """Take a turn to be sampled.

        Raises:
            ConfigError: The prefix leaves no room in the slot.
            ValueError: The slot is busy, the prefix empty, or the legal actions make no sense.
        """
        slot = self._slots[draw.slot]
        if slot.draw is not None or not draw.ids:
            raise ValueError(f"slot {draw.slot} cannot take {len(draw.ids)} tokens")
        if len(draw.ids) >= self.length:
            raise ConfigError(
                f"a prefix of {len(draw.ids)} tokens does not fit", fix=f"raise max_length above {self.length}"
            )
        known = min(common(slot.cached, draw.ids), len(draw.ids) - 1)  # the last is fed again, for its logits
        del slot.cached[known:]
        slot.waiting = [int(one) for one in draw.ids[known:]]
        slot.draw, slot.node = draw, 0
        slot.trie = None if draw.legal is None else Trie(draw.legal)
        slot.ids, slot.logps, slot.candidates = [], [], []
        self._force(slot)

    def advance(self, sampling: Sampling) -> list[tuple[int, Sampled]]:
        """Compute until at least one turn is done, and return those that are; nothing where none was submitted."""
        done: list[tuple[int, Sampled]] = []
        for place, slot in enumerate(self._slots):
            if slot.draw is not None and (found := self._ended(slot, sampling)):
                done.append((place, found))  # the legal actions left no choice
        while not done and any(slot.draw is not None for slot in self._slots):
            done = self._tick(sampling)
        return done

    # ---- inside ----------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _tick(self, sampling: Sampling) -> list[tuple[int, Sampled]]:
        active = [place for place, slot in enumerate(self._slots) if slot.draw is not None and slot.waiting]
        done: list[tuple[int, Sampled]] = []
        for places in self._plan(active):
            done += self._feed(places, sampling)
        return done

    def _feed(self, places: list[int], sampling: Sampling) -> list[tuple[int, Sampled]]:
        """Feed what waits in some slots, and sample where nothing waits any more."""
        chunks = [self._slots[place].waiting[:CHUNK] for place in places]
        hidden = self._compute(places, chunks)
        lines: list[int] = []
        for line, (place, chunk) in enumerate(zip(places, chunks, strict=True)):
            slot = self._slots[place]
            slot.cached += chunk
            del slot.waiting[: len(chunk)]
            if not slot.waiting:
                lines.append(line)
        if not lines:
            return []
        return self._sample([places[line] for line in lines], hidden[lines], sampling)

    def _sample(self, places: list[int], hidden: Tensor, sampling: Sampling) -> list[tuple[int, Sampled]]:
        logits = self.model.get_output_embeddings()(hidden).float()
        logps = restricted(logits, [self._candidates(place) for place in places], sampling.temperature)
        draws = [self._slots[place] for place in places]
        uniforms = torch.tensor(
            [uniform(slot.draw.seed, len(slot.ids)) for slot in draws if slot.draw], device=self._device
        )
        chosen = choose(logps, uniforms, sampling)
        worth = logps.gather(1, chosen[:, None])[:, 0].tolist()
        done: list[tuple[int, Sampled]] = []
        for place, slot, token, logp in zip(places, draws, chosen.tolist(), worth, strict=True):
            self._take(slot, token, logp)
            self._force(slot)
            if found := self._ended(slot, sampling):
                done.append((place, found))
        return done

    def _candidates(self, place: int) -> npt.NDArray[np.int32] | None:
        slot = self._slots[place]
        return None if slot.trie is None else slot.trie.candidates(slot.node)

    @staticmethod
    def _take(slot: _Slot, token: int, logp: float) -> None:
        slot.ids.append(token)
        slot.logps.append(logp)
        slot.waiting.append(token)
        if slot.trie is None:
            slot.candidates.append(None)
        else:
            slot.candidates.append(slot.trie.candidates(slot.node))
            slot.node = slot.trie.follow(slot.node, token)

    def _force(self, slot: _Slot) -> None:
        """Take tokens without an alternative."""
        while slot.trie is not None and len(found := slot.trie.candidates(slot.node)) == 1:
            self._take(slot, int(found[0]), 0.0)

    def _ended(self, slot: _Slot, sampling: Sampling) -> Sampled | None:
        """Return the turn where it is over, and set the slot free."""
        forced: list[int] = []
        if slot.trie is not None:
            over = not len(slot.trie.candidates(slot.node))
        else:
            over = bool(slot.ids) and slot.ids[-1] in sampling.stop
        room = len(slot.cached) + len(slot.waiting) < self.length
        if not over and slot.ids and (not room or (slot.trie is None and len(slot.ids) >= sampling.max_tokens)):
            over = True
            forced = [] if sampling.forced_end is None else [sampling.forced_end]
        if not over:
            return None
        free = all(one is None for one in slot.candidates)
        found = Sampled(slot.ids, slot.logps, forced, None if free else slot.candidates)
        slot.draw, slot.trie, slot.waiting = None, None, []
        slot.ids, slot.logps, slot.candidates = [], [], []
        return found


class Slots(SlotsBase):
    """The fast way, for models that :class:`Decoder` fits: one cache, one forward pass for many slots."""

    def __init__(self, model: torch.nn.Module, slots: int, length: int, *, graphs: bool = False) -> None:
        super().__init__(model, slots, length)
        self._decoder = Decoder(model)
        self._cache = Cache(self.model.config, slots, length, next(model.parameters()).dtype, self._device)
        self._graphs = Graphs(self._decoder, self._cache) if graphs else None

    def _plan(self, places: list[int]) -> list[list[int]]:
        """Put slots together that are fed about as much: what is padded is computed for nothing."""
        sizes: dict[int, list[int]] = {}
        for place in places:
            count = min(len(self._slots[place].waiting), CHUNK)
            sizes.setdefault((count - 1).bit_length(), []).append(place)
        return [sizes[size] for size in sorted(sizes, reverse=True)]

    def _compute(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Compute the slots asked for.

        Of single tokens all slots are computed where most are asked for: that is cheaper than gathering their caches.
        """
        width = max(len(chunk) for chunk in chunks)
        dense = len(rows) == len(self._slots) or (width == 1 and 2 * len(rows) >= len(self._slots))
        fed = dict(zip(rows, chunks, strict=True))
        lines = range(len(self._slots)) if dense else rows
        padded = [[*fed.get(line, ()), *[0] * (width - len(fed.get(line, ())))] for line in lines]
        ids = torch.tensor(padded, device=self._device)
        start = torch.tensor([len(self._slots[line].cached) for line in lines], device=self._device)
        index = None if dense else torch.tensor(list(rows), device=self._device)
        if self._graphs is not None and dense and width == 1:
            longest = max(len(slot.cached) for slot in self._slots)
            hidden = self._graphs.forward(ids, start, longest)
        else:
            hidden = self._decoder.forward(ids, start, self._cache, index)
        last = torch.tensor([len(chunk) - 1 for chunk in chunks], device=self._device)
        where = torch.tensor(list(rows), device=self._device) if dense else torch.arange(len(rows), device=self._device)
        return hidden[where, last]


def restricted(logits: Tensor, candidates: Sequence[npt.NDArray[np.int32] | None], temperature: float) -> Tensor:
    """Return log-probabilities restricted to candidates.

    Args:
        logits: Shape ``(n, vocabulary)``, float32.
        candidates: By row: the ids that may be, or None for all.
        temperature: Logits are divided by it; 0 is taken as 1, for the greatest is the same.

    Returns:
        Shape ``(n, vocabulary)``; ``-inf`` for what may not be.
    """
    scaled = logits / (temperature or 1.0)
    rows = [row for row, found in enumerate(candidates) if found is not None]
    if rows:
        barred = torch.zeros(scaled.shape, dtype=torch.bool, device=scaled.device)
        barred[rows] = True
        where = torch.from_numpy(np.concatenate([candidates[row] for row in rows]).astype(np.int64))
        which = torch.tensor(rows).repeat_interleave(
            torch.tensor([len(found) for found in candidates if found is not None])
        )
        barred[which.to(scaled.device), where.to(scaled.device)] = False
        scaled = scaled.masked_fill(barred, float("-inf"))
    return torch.log_softmax(scaled, dim=-1)


def common(known: Sequence[int], ids: Sequence[int]) -> int:
    """Return how many tokens two sequences share from the beginning."""
    bound = min(len(known), len(ids))
    if list(ids[:bound]) == list(known[:bound]):
        return bound
    return next(place for place in range(bound) if known[place] != ids[place])
