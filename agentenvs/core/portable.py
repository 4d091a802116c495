"""``exp``, ``log`` and ``pow`` whose last bit is the same on every platform.

The C library's versions differ between systems in the last place, and a reward that differs in one bit breaks a
digest. These use only ``+ - * /``, comparisons and exact scaling by powers of two (``frexp``, ``ldexp``), which IEEE
754 fixes bit for bit. ``exp`` and ``log`` are within 2 units in the last place of the true value; ``pow`` with a
fractional exponent within ``2 + 2 |exponent * log(base)|`` units. None is correctly rounded.

Sources: argument reduction by Cody and Waite (Software Manual for the Elementary Functions, 1980); the series for
``log`` is 2 artanh(s) with s = (m - 1) / (m + 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_LN2_HIGH = 6.93147180369123816490e-01  # upper 33 bits of ln 2, so that k * _LN2_HIGH is exact for |k| < 2**20
_LN2_LOW = 1.90821492927058770002e-10
_INV_LN2 = 1.44269504088896338700e00
_SQRT_HALF = 0.70710678118654752440
_EXP_TERMS = 15
_LOG_TERMS = 12


def exp(x: float) -> float:
    """Return e to the power of ``x``; infinity above 709.79, 0.0 below -745.2, NaN for NaN."""
    if x != x:
        return x
    if x > 709.782712893384:
        return math.inf
    if x < -745.2:
        return 0.0
    k = math.floor(x * _INV_LN2 + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    total = 1.0
    for n in range(_EXP_TERMS, 0, -1):
        total = 1.0 + r * total / n
    return math.ldexp(total, k)


def log(x: float) -> float:
    """Return the natural logarithm of ``x``; -infinity at 0.0.

    Raises:
        ValueError: ``x`` is negative.
    """
    if x != x or x == math.inf:
        return x
    if x < 0.0:
        raise ValueError("log of a negative number")
    if x == 0.0:
        return -math.inf
    mantissa, k = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa, k = mantissa * 2.0, k - 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for n in range(_LOG_TERMS, 0, -1):
        series = z * (2.0 / (2 * n + 1) + series)
    # log(1 + f) = f - s * (f - series): the large term f is exact, the correction is small.
    return k * _LN2_HIGH + (f - (s * (f - series) - k * _LN2_LOW))


def pow(base: float, exponent: float) -> float:
    """Return ``base`` to the power of ``exponent``; whole exponents up to 1,024 by squaring.

    A negative whole exponent gives the reciprocal of the positive power, so a result of 2**-1024 or less is 0.0.

    Raises:
        ValueError: A negative base with an exponent that is not whole, or is beyond 1,024.
        ZeroDivisionError: Zero to a negative power.
    """
    if base == 0.0 and exponent < 0.0:
        raise ZeroDivisionError("zero to a negative power")
    if abs(exponent) <= 1024.0 and exponent == math.floor(exponent):
        power = _power(base, int(abs(exponent)))
        if exponent >= 0:
            return power
        return 1.0 / power if power else math.copysign(math.inf, power)
    if base == 0.0:
        return 0.0
    if base < 0.0:
        raise ValueError("a negative number to a power that is not whole")
    return exp(exponent * log(base))


def total(values: Iterable[float]) -> float:
    """Return the sum, added in order; the built-in ``sum`` of floats compensates rounding from Python 3.12 on."""
    result = 0.0
    for value in values:
        result += value
    return result


def _power(base: float, count: int) -> float:
    result = 1.0
    while count:
        if count & 1:
            result *= base
        base *= base
        count >>= 1
    return result
