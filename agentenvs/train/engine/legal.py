"""Sampling among the legal actions only: a trie over token ids.

At each position the tokens that continue some legal sequence are the candidates; the policy's distribution is
restricted to them and renormalised, and the log-probability that is recorded is that of the restricted choice. So the
probability of an action is exact: the product over its tokens, summing to one over the legal actions. Where one token
alone continues, nothing is chosen: its log-probability is 0, and it is neither trained on nor counted among what is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class Trie:
    """Token sequences by their beginnings.

    Args:
        sequences: Each with the token that ends it, so that none is the beginning of another.

    Raises:
        ValueError: There is none, or one is empty, or the beginning of another.
    """

    __slots__ = ("_children", "_ids")

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        self._children: list[dict[int, int]] = [{}]
        self._ids: dict[int, Ids] = {}
        ends: set[int] = set()
        for sequence in sequences:
            node = 0
            for token in sequence:
                if node in ends:
                    raise ValueError(f"a legal sequence is the beginning of {list(sequence)}")
                node = self._children[node].setdefault(int(token), len(self._children))
                if node == len(self._children):
                    self._children.append({})
            if node == 0 or self._children[node]:
                raise ValueError(f"{list(sequence)} is empty, or the beginning of another legal sequence")
            ends.add(node)
        if not ends:
            raise ValueError("there is no legal sequence")

    def candidates(self, node: int) -> Ids:
        """Return the ids that may follow, in rising order; empty at an end. Node 0 is the beginning."""
        found = self._ids.get(node)
        if found is None:
            found = self._ids[node] = np.array(sorted(self._children[node]), dtype=np.int32)
        return found

    def follow(self, node: int, token: int) -> int:
        """Return the node after a candidate."""
        return self._children[node][token]
