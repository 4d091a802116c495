"""What a token costs: a table with a date, a source and a version, and nothing guessed.

``prices.toml`` beside this module is read where the user gives no file of their own. A price is of a model at a host:
the same name at another endpoint may cost anything, so it is unknown there, and unknown is not zero. Prices are exact
decimals in dollars a million tokens, which are millionths of a dollar a token; costs are whole millionths of a dollar.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

from agentenvs.core.canon import JSON, sha256
from agentenvs.core.errors import DataError

ANY_HOST = "*"
"""Host of a provider whose prices hold wherever its models are served."""

_HEAD = ("name", "version", "date", "source")
_PRICE = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars a million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """Of cached tokens of the prompt; as ``input`` where None."""

    def cost(self, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None = None) -> int | None:
        """Return a cost in millionths of a dollar, rounded half to even; None where tokens were not counted.

        Args:
            tokens_in: Tokens of the prompt, the cached ones among them.
            tokens_out: Tokens of the reply.
            tokens_cached: Cached tokens of the prompt; None counts as none.
        """
        if tokens_in is None or tokens_out is None:
            return None
        cached = min(tokens_cached or 0, tokens_in)
        cached_price = self.input if self.cached_input is None else self.cached_input
        return int(
            ((tokens_in - cached) * self.input + cached * cached_price + tokens_out * self.output).to_integral_value()
        )


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices of one day."""

    name: str
    version: str
    date: str
    source: str
    sha256: str
    """Of the file."""
    models: Mapping[str, Mapping[str, Price]]
    """Host -> name of a model -> price."""

    @property
    def id(self) -> str:
        """What a manifest names the table by."""
        return f"{self.name} {self.version} sha256:{self.sha256}"

    def find(self, model: str, host: str) -> Price | None:
        """Return the price of a model at a host; None where it is not known. Names are compared whole."""
        for place in (host, ANY_HOST):
            if (found := self.models.get(place, {}).get(model)) is not None:
                return found
        return None


@cache
def load(path: Path | None = None) -> PriceTable:
    """Return a table: that of a file, or the one that comes with the package.

    Raises:
        DataError: The file cannot be read, or is no table of prices; the message names the place.
    """
    file = path or Path(__file__).with_name("prices.toml")
    try:
        data = file.read_bytes()
        form = tomllib.loads(data.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the prices {file} cannot be read", why=str(error), fix="give a TOML file") from error
    try:
        head = {name: _word(form, name) for name in _HEAD}
        models = _models(form.get("providers"))
    except ValueError as error:
        raise DataError(
            f"{file} is no table of prices", why=str(error), fix="the page docs/runs.md shows one"
        ) from error
    return PriceTable(**head, sha256=sha256(data), models=models)


def _models(form: JSON) -> dict[str, dict[str, Price]]:
    if not isinstance(form, dict):
        raise ValueError("it has no [providers.NAME]")
    found: dict[str, dict[str, Price]] = {}
    for name, provider in form.items():
        models = provider.get("models") if isinstance(provider, dict) else None
        if not isinstance(models, dict):
            raise ValueError(f"providers.{name} has no models")
        here = found.setdefault(_word(provider, "host"), {})
        here.update({model: _price(price, f"providers.{name}.models.{model}") for model, price in models.items()})
    return found


def _price(form: JSON, where: str) -> Price:
    if not isinstance(form, dict) or set(form) - set(_PRICE) or not {"input", "output"} <= set(form):
        raise ValueError(f"{where} needs input and output, and takes cached_input")
    return Price(**{name: _dollars(value, f"{where}.{name}") for name, value in form.items()})


def _dollars(value: Any, where: str) -> Decimal:
    # No floats: 0.1 is none, and a cost must not depend on how one was rounded.
    try:
        found = Decimal(value) if type(value) in (str, int) else None
    except InvalidOperation:
        found = None
    if found is None or not found.is_finite() or found < 0:
        raise ValueError(f'{where} is {value!r}: write dollars a million tokens in quotes, such as "0.15"')
    return found


def _word(form: Mapping[str, Any], name: str) -> str:
    value = form.get(name)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ValueError(f"{name} is missing, or no line of text")
    return value.strip()
