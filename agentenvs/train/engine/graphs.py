"""CUDA graphs of the pass over single tokens, which is bound by launches and not by arithmetic.

A graph is of fixed shapes, so that all slots run and the cache is looked at up to a multiple of :data:`STEP`: one graph
is captured for each multiple that is met. It replays the same kernels as the pass it was captured from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentenvs.core.errors import ConfigError
from agentenvs.train.engine.decoder import Cache, Decoder

STEP = 256
"""Tokens by which what is looked at of the cache grows."""


@dataclass(slots=True)
class _Captured:
    graph: Any
    ids: Tensor
    start: Tensor
    hidden: Tensor


class Graphs:
    """The graphs of a decoder over its cache.

    Args:
        decoder: Runs the model.
        cache: Of all slots.

    Raises:
        ConfigError: They do not lie on CUDA.
    """

    def __init__(self, decoder: Decoder, cache: Cache) -> None:
        if cache.keys[0].device.type != "cuda":
            raise ConfigError("graphs are captured on CUDA only", fix="leave out slots.graphs")
        self._decoder, self._cache = decoder, cache
        self._known: dict[int, _Captured] = {}

    def forward(self, ids: Tensor, start: Tensor, longest: int) -> Tensor:
        """Compute one token of every slot; see :meth:`Decoder.forward`.

        Args:
            ids: Shape ``(slots, 1)``.
            start: Shape ``(slots,)``.
            longest: The greatest position among them.
        """
        reach = reach_of(longest, self._cache.length)
        found = self._known.get(reach)
        if found is None:
            found = self._known[reach] = self._capture(ids, start, reach)
        found.ids.copy_(ids)
        found.start.copy_(start)
        found.graph.replay()
        return found.hidden

    def _capture(self, ids: Tensor, start: Tensor, reach: int) -> _Captured:
        ids, start = ids.clone(), start.clone()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries choose their kernels before anything is captured
            for _ in range(2):
                self._decoder.forward(ids, start, self._cache, None, reach)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            hidden = self._decoder.forward(ids, start, self._cache, None, reach)
        return _Captured(graph, ids, start, hidden)


def reach_of(longest: int, length: int) -> int:
    """Return how much of a cache of a length is looked at where the greatest position is ``longest``."""
    return min(-(-(longest + 1) // STEP) * STEP, length)
