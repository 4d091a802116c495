"""Drawing tokens: one uniform number a token, fixed by the seed of its turn and its place, whatever else is sampled."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from agentenvs.train.interfaces import Sampling


def uniform(seed: int, place: int) -> float:
    """Return a number in ``[0, 1)`` with 53 bits."""
    data = hashlib.blake2b(
        place.to_bytes(8, "big"), key=seed.to_bytes(32, "big"), digest_size=8, person=b"agentenvs/sample"
    ).digest()
    return (int.from_bytes(data, "big") >> 11) / 9007199254740992.0


def choose(logps: Tensor, uniforms: Tensor, sampling: Sampling) -> Tensor:
    """Return one id a row by inverting the cumulative distribution.

    Args:
        logps: Normalised log-probabilities, shape ``(n, vocabulary)``; ``-inf`` for what cannot be.
        uniforms: One number a row, shape ``(n,)``.
        sampling: The greatest is taken where the temperature is 0; ``top_p`` and ``min_p`` cut the distribution.
    """
    if sampling.temperature == 0:
        return logps.argmax(dim=-1)
    probabilities = logps.double().exp()
    if sampling.min_p > 0:
        probabilities[probabilities < sampling.min_p * probabilities.amax(dim=-1, keepdim=True)] = 0.0
    if sampling.top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        ordered[ordered.cumsum(dim=-1) - ordered >= sampling.top_p * ordered.sum(dim=-1, keepdim=True)] = 0.0
        probabilities = torch.zeros_like(probabilities).scatter_(-1, order, ordered)
    heights = probabilities.cumsum(dim=-1)
    at = (heights <= uniforms.double()[:, None] * heights[:, -1:]).sum(dim=-1)
    # Where rounding leaves nothing above, the last id that can be is taken.
    last = (probabilities > 0).int().flip(-1).argmax(dim=-1)
    return torch.minimum(at, probabilities.shape[-1] - 1 - last)
