"""The advantage of each turn, estimated from continuations; and its error.

Of turn t (counted from 0) with history ``h_t``, action ``a_t`` and reward ``r_t``, and of continuation j, let ``R_tj``
be the return from turn t on of an episode that is played on from ``h_t`` by the same policy, its action drawn anew. The
world answers the same to the same, so what follows ``a_t`` is what is played on from ``h_{t+1}``, and one continuation
serves two turns:

    V(h_t) ~ mean_j R_tj        Q(h_t, a_t) ~ r_t + mean_j R_(t+1)j        A_t ~ mean_j d_tj
    d_tj = r_t + R_(t+1)j - R_tj        (R_Tj = 0 behind the last turn)

Returns are sums of rewards, not discounted. Continuation j of an episode draws turn u from one stream of its own in
both arms (common random numbers): where the action drawn anew is ``a_t`` itself, both arms are the same episode, and
``d_tj`` is 0 exactly. The estimate is unbiased; its variance is ``var_j(d_tj) / K``, and its standard error the root of
the sample's. Errors of an episode's turns are correlated, since neighbours share continuations; intervals over turns
are therefore made from whole groups of episodes. The episode's own return is not used, so that the error of the truth
and what a method saw are independent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentenvs.train.batch import Array


@dataclass(frozen=True, slots=True)
class Truth:
    """What continuations say of the turns of one episode."""

    episode: int
    rewards: Array
    """Of each turn; shape ``(turns,)``."""
    returns: Array
    """``R_tj``; shape ``(turns, branches)``."""
    joined: int = 0
    """Continuations that were not played, since both arms are the same."""
    continuations: int = 0
    tokens: int = 0
    cpu: float = 0.0

    @property
    def differences(self) -> Array:
        """``d_tj``; shape ``(turns, branches)``."""
        behind = np.vstack([self.returns[1:], np.zeros((1, self.returns.shape[1]))])
        return self.rewards[:, None] + behind - self.returns

    @property
    def values(self) -> Array:
        """``V(h_t)``; shape ``(turns,)``."""
        return np.asarray(self.returns.mean(axis=1), dtype=np.float64)

    @property
    def advantages(self) -> Array:
        """``A_t``; shape ``(turns,)``."""
        return np.asarray(self.differences.mean(axis=1), dtype=np.float64)

    @property
    def errors(self) -> Array:
        """Standard errors of the advantages; shape ``(turns,)``."""
        count = self.returns.shape[1]
        return np.asarray(self.differences.std(axis=1, ddof=1) / np.sqrt(count), dtype=np.float64)

    def halves(self) -> tuple[Array, Array]:
        """Return the advantages of continuations with even and with odd numbers; each of shape ``(turns,)``."""
        found = self.differences
        return found[:, 0::2].mean(axis=1), found[:, 1::2].mean(axis=1)

    def spread_without_pairs(self) -> tuple[float, float]:
        """Return the summed variance over j of ``d_tj``, and what it would be if the arms were independent."""
        behind = np.vstack([self.returns[1:], np.zeros((1, self.returns.shape[1]))])
        apart = behind.var(axis=1, ddof=1) + self.returns.var(axis=1, ddof=1)
        return float(self.differences.var(axis=1, ddof=1).sum()), float(apart.sum())

    def to_line(self) -> str:
        """Return the JSON form, one line; numbers are read back as they were."""
        form = {
            "episode": self.episode,
            "rewards": self.rewards.tolist(),
            "returns": self.returns.tolist(),
            "joined": self.joined,
            "continuations": self.continuations,
            "tokens": self.tokens,
            "cpu": round(self.cpu, 3),
        }
        return json.dumps(form)


def from_form(form: Mapping[str, Any]) -> Truth:
    """Read what :meth:`Truth.to_line` wrote.

    Raises:
        ValueError: It is something else.
    """
    try:
        return Truth(
            int(form["episode"]),
            np.array(form["rewards"], dtype=np.float64),
            np.array(form["returns"], dtype=np.float64).reshape(len(form["rewards"]), -1),
            int(form["joined"]),
            int(form["continuations"]),
            int(form["tokens"]),
            float(form["cpu"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no truth of an episode: {error!r}") from error


def returned(rewards: Sequence[float], played: Sequence[Sequence[float | None]]) -> tuple[Array, int]:
    """Return ``R_tj`` and how many were joined.

    Args:
        rewards: ``r_t``.
        played: By turn and continuation: the return from that turn on, or None where the continuation drew ``a_t``
            again, so that it goes on as the one of the next turn does.
    """
    found = np.zeros((len(rewards), len(played[0]) if played else 0))
    joined = 0
    for place in range(len(rewards) - 1, -1, -1):
        for number, worth in enumerate(played[place]):
            if worth is None:
                behind = found[place + 1, number] if place + 1 < len(rewards) else 0.0
                worth = rewards[place] + behind
                joined += 1
            found[place, number] = worth
    return found, joined
