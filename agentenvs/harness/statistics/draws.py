"""Seeded draws for resampling: raw bits of a named generator, mapped to numbers here.

The bits are those of NumPy's PCG64, whose stream is fixed; NumPy's samplers, whose streams are not, are not used.
Values that are resampled are whole numbers (see :func:`whole`), so that sums are exact, and a seed gives the same
interval and the same p-value on every platform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Whole: TypeAlias = NDArray[np.int64]
Real: TypeAlias = NDArray[np.float64]

_SPARE_BITS = 62
_MOST_FRACTION_BITS = 40
_DEVIATIONS = 12
"""Standard deviations beyond which a binomial has less than 1e-30 of its mass."""

_CHUNK = 1 << 21
"""Draws that are made at a time: 16 MiB."""


def whole(values: ArrayLike) -> tuple[Whole, int]:
    """Return values as whole numbers of a unit of ``2 ** -bits``, and ``bits``.

    As many bits as leave room for the sum of all: 40 for values up to a few hundred, so that rounding is below 1e-12.

    Raises:
        ValueError: A value is not finite.
    """
    given = np.asarray(values, dtype=np.float64)
    if not np.isfinite(given).all():
        raise ValueError("a value to be resampled is not finite")
    largest = int(np.ceil(np.abs(given).max(initial=0.0))) * max(given.size, 1)
    bits = min(_SPARE_BITS - largest.bit_length(), _MOST_FRACTION_BITS)
    return np.rint(given * 2.0**bits).astype(np.int64), bits


class Draws:
    """A reproducible source of draws.

    Args:
        key: Seed, e.g. the digest of a run.
        purpose: Draws for different purposes are independent.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        seed = hashlib.sha256(len(key).to_bytes(8, "big") + key + purpose.encode()).digest()
        self._bits = np.random.PCG64(int.from_bytes(seed, "big"))

    def indices(self, rows: int, count: int, bound: int) -> Iterator[Whole]:
        """Yield chunks of ``rows`` rows of ``count`` indices, as even as ``bound / 2**32`` allows.

        Raises:
            ValueError: More than 2**24 things to choose from: the bias would show.
        """
        if not 0 < bound <= 1 << 24:
            raise ValueError(f"cannot choose evenly among {bound}")
        for size in _chunks(rows, count):
            drawn = self._bits.random_raw(size * count) >> np.uint64(32)
            yield (drawn * np.uint64(bound) >> np.uint64(32)).astype(np.int64).reshape(size, count)

    def signs(self, rows: int, count: int) -> Iterator[Whole]:
        """Yield chunks of ``rows`` rows of ``count`` signs, -1 or 1."""
        for size in _chunks(rows, count):
            words = self._bits.random_raw(size * -(-count // 64))
            bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little").reshape(size, -1)
            yield 1 - 2 * bits[:, :count].astype(np.int64)

    def binomial(self, trials: Whole, chance: float) -> Whole:
        """Return a number of successes for each number of trials, by inversion of the distribution function.

        Args:
            trials: Shape (n,), not negative.
            chance: Of a success, in [0, 1].
        """
        uniform = (self._bits.random_raw(trials.size) >> np.uint64(11)).astype(np.float64) / 2.0**53
        if chance <= 0.0 or chance >= 1.0:
            return trials * int(chance >= 1.0)
        drawn = np.empty_like(trials)
        order = np.argsort(trials, kind="stable")
        sizes, starts = np.unique(trials[order], return_index=True)
        for size, here in zip(sizes, np.split(order, starts[1:]), strict=True):
            first, table = _distribution(int(size), chance)
            drawn[here] = first + np.minimum(np.searchsorted(table, uniform[here], side="right"), len(table) - 1)
        return drawn

    def multinomial(self, rows: int, total: int, weights: Sequence[int]) -> Whole:
        """Return ``rows`` rows of how often each item comes in ``total`` draws with putting back.

        One binomial after the other, each of what the ones before have left.

        Args:
            rows: Rows of the result.
            total: Sum of each row.
            weights: Whole numbers, not negative, not all zero.
        """
        counts = np.zeros((rows, len(weights)), dtype=np.int64)
        left, weight_left = np.full(rows, total, dtype=np.int64), sum(weights)
        for column, weight in enumerate(weights[:-1]):
            counts[:, column] = self.binomial(left, weight / weight_left if weight_left else 0.0)
            left = left - counts[:, column]
            weight_left -= weight
        counts[:, -1] = left
        return counts


def _chunks(rows: int, count: int) -> Iterator[int]:
    step = max(_CHUNK // max(count, 1), 1)
    for start in range(0, rows, step):
        yield min(step, rows - start)


def _distribution(trials: int, chance: float) -> tuple[int, Real]:
    """Return where the distribution function of a binomial is tabled from, and the table.

    Probabilities are ratios of neighbours, multiplied from the mode outwards: ``+ - * / sqrt`` only.
    """
    mode = min(int((trials + 1) * chance), trials)
    reach = int(_DEVIATIONS * np.sqrt(trials * chance * (1 - chance))) + 30
    low, high = max(mode - reach, 0), min(mode + reach, trials)
    odds = chance / (1 - chance)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    right = np.cumprod((trials - up) / (up + 1) * odds)
    left = np.cumprod(down / (trials - down + 1) / odds)
    table = np.cumsum(np.concatenate([left[::-1], np.ones(1), right]))
    return low, table / table[-1]
