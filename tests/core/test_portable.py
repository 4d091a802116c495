"""The portable functions: their accuracy, their bits, their edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from agentenvs.core import portable
from agentenvs.core.streams import Stream

INF = math.inf


def _ulps(found: float, true: float) -> float:
    return abs(found - true) / math.ulp(true)


def _draws(name: str, low: float, high: float, count: int = 4000) -> Iterator[float]:
    stream = Stream(bytes(32), name)
    yield from (low + (high - low) * stream.uniform() for _ in range(count))
    yield from (low + (high - low) * step / 1000 for step in range(1001))


@pytest.mark.parametrize(("low", "high"), [(-745.0, -700.0), (-700.0, 709.7), (-2.0, 2.0), (-1e-9, 1e-9)])
def test_exp_is_within_two_ulps(low: float, high: float) -> None:
    assert max(_ulps(portable.exp(x), math.exp(x)) for x in _draws("exp", low, high)) <= 2


@pytest.mark.parametrize(("low", "high"), [(5e-324, 1e-300), (1e-6, 4.0), (0.7, 1.5), (0.999, 1.001), (1.0, 1e300)])
def test_log_is_within_two_ulps(low: float, high: float) -> None:
    assert max(_ulps(portable.log(x), math.log(x)) for x in _draws("log", low, high)) <= 2


@pytest.mark.parametrize("scale", [0.5, 3.0, 80.0])
def test_pow_is_within_its_stated_bound(scale: float) -> None:
    exponents = _draws("exponent", -scale, scale)
    for power, exponent in zip(_draws("base", -6.0, 6.0), exponents, strict=True):
        base = math.exp(power)
        bound = 2 + 2 * abs(exponent * math.log(base))
        assert _ulps(portable.pow(base, exponent), math.pow(base, exponent)) <= bound


@pytest.mark.parametrize("exponent", range(-12, 13))
def test_a_whole_power_of_a_small_integer_is_exact(exponent: int) -> None:
    exact = 3**exponent if exponent >= 0 else 1.0 / 3**-exponent
    assert portable.pow(3.0, exponent) == exact
    assert portable.pow(-3.0, exponent) == (-exact if exponent % 2 else exact)


@pytest.mark.parametrize(
    ("function", "arguments", "bits"),
    [
        (portable.exp, (1.0,), "0x1.5bf0a8b14576ap+1"),
        (portable.exp, (-0.5,), "0x1.368b2fc6f960ap-1"),
        (portable.exp, (20.25,), "0x1.290d76d1966aap+29"),
        (portable.exp, (709.5,), "0x1.81e9b4b52d0c9p+1023"),
        (portable.exp, (-745.0,), "0x0.0000000000001p-1022"),
        (portable.log, (2.0,), "0x1.62e42fefa39efp-1"),
        (portable.log, (0.1,), "-0x1.26bb1bbb55515p+1"),
        (portable.log, (123456.789,), "0x1.77281cad8a844p+3"),
        (portable.log, (5e-324,), "-0x1.74385446d71c3p+9"),
        (portable.pow, (2.0, 0.5), "0x1.6a09e667f3bccp+0"),
        (portable.pow, (1.5, 0.333), "0x1.2501da9cd10e2p+0"),
        (portable.pow, (0.99, 50), "0x1.35c35af0797f2p-1"),
        (portable.pow, (10.0, -3.0), "0x1.0624dd2f1a9fcp-10"),
    ],
)
def test_golden_bits(function: Callable[..., float], arguments: tuple[float, ...], bits: str) -> None:
    assert function(*arguments).hex() == bits


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (portable.exp, (0.0,), 1.0),
        (portable.exp, (INF,), INF),
        (portable.exp, (709.79,), INF),
        (portable.exp, (-INF,), 0.0),
        (portable.exp, (-745.3,), 0.0),
        (portable.log, (1.0,), 0.0),
        (portable.log, (0.0,), -INF),
        (portable.log, (-0.0,), -INF),
        (portable.log, (INF,), INF),
        (portable.pow, (0.0, 0.0), 1.0),
        (portable.pow, (0.0, 0.5), 0.0),
        (portable.pow, (2.0, 1024), INF),
        (portable.pow, (2.0, -1024), 0.0),
        (portable.pow, (2.0, 1025), INF),
        (portable.pow, (1e-200, -2.0), INF),
        (portable.pow, (2.0, INF), INF),
        (portable.pow, (2.0, -INF), 0.0),
        (portable.pow, (INF, 0.5), INF),
    ],
)
def test_edges(function: Callable[..., float], arguments: tuple[float, ...], value: float) -> None:
    assert function(*arguments) == value


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (portable.exp, (math.nan,)),
        (portable.log, (math.nan,)),
        (portable.pow, (math.nan, 0.5)),
        (portable.pow, (2.0, math.nan)),
    ],
)
def test_nan_stays_nan(function: Callable[..., float], arguments: tuple[float, ...]) -> None:
    assert math.isnan(function(*arguments))


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (portable.log, (-1.0,), ValueError, "log of a negative number"),
        (portable.pow, (-2.0, 0.5), ValueError, "a negative number to a power that is not whole"),
        (portable.pow, (0.0, -1), ZeroDivisionError, "zero to a negative power"),
        (portable.pow, (0.0, -0.5), ZeroDivisionError, "zero to a negative power"),
    ],
)
def test_outside_the_domain(
    function: Callable[..., float], arguments: tuple[float, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        function(*arguments)


def test_total_adds_in_order_on_every_python():
    assert portable.total([1e100, 1.0, -1e100]) == 0.0
    assert portable.total([0.1] * 10) == 0.9999999999999999
    assert portable.total([]) == 0.0
