"""Settings of the ``openai`` policy: what a user says about the model, the endpoint and the protocol."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

import httpx

from agentenvs.client.endpoint import address_class
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError
from agentenvs.harness import prices as price_tables
from agentenvs.harness.prices import Price
from agentenvs.harness.protocol import Protocol, load

DEFAULT_BASE_URL = "https://api.openai.com/v1"

_RESERVED = ("messages", "model", "n", "stream", "tools")
_LEAST: Mapping[str, float] = {
    "max_tokens": 1,
    "retries": 0,
    "backoff": 0,
    "max_wait": 0,
    "max_calls": 1,
    "temperature": 0,
    "top_p": 0,
}
_INTEGERS = ("max_tokens", "seed", "retries", "max_calls")
_NUMBERS = ("temperature", "top_p", "timeout", "backoff", "max_wait")
_PRICES = ("price_in", "price_out", "price_cached")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """What the ``openai`` policy needs to know.

    Raises:
        ConfigError: A value that makes no sense; the message names the setting.
    """

    model: str
    base_url: str | None = None
    """Up to and including ``/v1``; ``$OPENAI_BASE_URL`` or OpenAI's own where None."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; the key itself is never a setting."""
    protocol: str = "native"
    history: str | None = None
    """``full`` or ``last:K``; the protocol's own where None."""
    tools: Literal["auto", "text"] = "auto"
    """``auto``: tool calls where the environment has tools. ``text``: never."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    timeout: float = 120.0
    """Seconds an attempt may take."""
    retries: int = 4
    """Attempts after the first."""
    backoff: float = 0.5
    """Seconds before the second attempt; doubled each time."""
    max_wait: float = 60.0
    """Seconds of the longest wait between attempts."""
    max_calls: int | None = None
    """Model calls an episode; the protocol's own where None."""
    examples: Path | None = None
    """File of example episodes, for protocols that show some."""
    price_in: Decimal | None = None
    """Dollars a million tokens of prompt."""
    price_out: Decimal | None = None
    """Dollars a million tokens of reply."""
    price_cached: Decimal | None = None
    """Dollars a million cached tokens of prompt; as ``price_in`` where None."""
    prices: Path | None = None
    """Table of prices, where none is given above; that of the package where None."""
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the request's body."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not self.model.strip():
            raise ConfigError("the openai policy needs a model", fix="give --model, as the endpoint names it")
        if self.tools not in ("auto", "text"):
            raise ConfigError(f"tools {self.tools!r} makes no sense", fix="auto or text")
        for name in (*_INTEGERS, *_NUMBERS):
            _check_number(name, getattr(self, name), whole=name in _INTEGERS)
        if self.timeout <= 0:
            raise ConfigError("a timeout is longer than 0 seconds")
        for name in _PRICES:
            _check_price(name, getattr(self, name))
        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("half a price is none", fix="give both --price-in and --price-out")
        if taken := sorted(set(_RESERVED).intersection(self.extra)):
            raise ConfigError(f"extra must not set {taken[0]!r}", why="the policy sets it")
        _check_url(self.url)
        price_tables.load(self.prices)
        self.load_protocol()

    @classmethod
    def parse(cls, **given: Any) -> OpenAISettings:
        """Return settings from words: numbers, prices, paths and JSON may be strings, None is the default.

        Raises:
            ConfigError: An unknown setting, or a value that makes no sense.
        """
        known = {item.name for item in fields(cls)}
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(f"the openai policy has no setting {unknown[0]!r}", fix=f"known: {', '.join(known)}")
        values = {name: _read(name, value) for name, value in given.items() if value is not None}
        return cls(**{"model": "", **values})

    @property
    def url(self) -> str:
        """The base URL in force."""
        return (self.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL).rstrip("/")

    def load_protocol(self) -> Protocol:
        """Return the protocol with the user's history, examples and bound.

        Raises:
            ConfigError: No such protocol, or it does not go with the other settings.
            DataError: The file of examples cannot be used.
        """
        protocol = load(self.protocol)
        if protocol.replies.channel == "tool" and self.tools == "text":
            raise ConfigError(f"the protocol {self.protocol} is made of tool calls", fix="leave --tools text out")
        return protocol.with_history(self.history).with_calls(self.max_calls).with_examples(self.examples)

    def key(self) -> str | None:
        """Return the key from the environment, or None where none is set.

        Raises:
            ConfigError: It holds something no header can carry; the message does not show it.
        """
        key = os.environ.get(self.api_key_env, "").strip()
        if any(not 33 <= ord(letter) <= 126 for letter in key):
            raise ConfigError(
                f"${self.api_key_env} holds no key", why="it has characters that no key has", fix="set it again"
            )
        return key or None

    def sampling(self, protocol: Protocol) -> dict[str, JSON]:
        """Return the fields of a request that decide how is sampled."""
        form: dict[str, JSON] = {
            "temperature": protocol.sampling.temperature if self.temperature is None else self.temperature,
            "top_p": self.top_p,
            "max_tokens": protocol.sampling.max_tokens if self.max_tokens is None else self.max_tokens,
            "seed": self.seed,
            "stop": list(protocol.sampling.stop) or None,
        }
        return {**{name: value for name, value in form.items() if value is not None}, **self.extra}

    @property
    def price(self) -> Price | None:
        """What a token costs: as given, else as the table says of this model at this host; None where nobody knows."""
        if self.price_in is not None and self.price_out is not None:
            return Price(self.price_in, self.price_out, self.price_cached)
        return price_tables.load(self.prices).find(self.model, httpx.URL(self.url).host)

    @property
    def price_table(self) -> str | None:
        """Where the price is from, for a manifest; None where there is none."""
        if self.price_in is not None:
            cached = self.price_in if self.price_cached is None else self.price_cached
            return f"given: {self.price_in} in, {cached} cached, {self.price_out} out"
        return None if self.price is None else price_tables.load(self.prices).id

    def cost(self, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None) -> int | None:
        """Return the cost in millionths of a dollar; None without prices or counts.

        Source: dollars a million tokens are millionths of a dollar a token. Cached tokens are part of the prompt's.
        """
        price = self.price
        return None if price is None else price.cost(tokens_in, tokens_out, tokens_cached)

    def base_url_class(self) -> Literal["public", "private", "loopback"]:
        """Return what kind of address the endpoint has, from its name alone."""
        return address_class(httpx.URL(self.url).host)


def _check_number(name: str, value: Any, *, whole: bool) -> None:
    if value is None:
        return
    if type(value) not in ((int,) if whole else (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{name} {value!r} makes no sense", fix=f"give a {'whole ' if whole else ''}number")
    if name in _LEAST and value < _LEAST[name]:
        raise ConfigError(f"{name} {value!r} makes no sense", fix=f"the least is {_LEAST[name]:g}")


def _check_price(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, Decimal) and value.is_finite() and value >= 0):
        raise ConfigError(f"{name} {value!r} makes no sense", fix="give dollars a million tokens, such as 0.15")


def _check_url(text: str) -> None:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ConfigError("the base URL is no URL", why=str(error), fix="such as http://127.0.0.1:8000/v1") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("the base URL is no http(s) URL", fix="such as http://127.0.0.1:8000/v1")
    if url.userinfo or url.query or url.fragment:
        # Such a URL may hold a secret, so it is not shown.
        raise ConfigError(
            "the base URL holds more than scheme, host, port and path",
            why="secrets in a URL end up in logs",
            fix="put the key into an environment variable",
        )


def _read(name: str, value: Any) -> Any:
    if name in _PRICES and isinstance(value, int | float):
        return Decimal(repr(value))
    if not isinstance(value, str):
        return value
    try:
        if name in _INTEGERS:
            return int(value)
        if name in _NUMBERS:
            return float(value)
        if name in _PRICES:
            return Decimal(value)
        if name in ("examples", "prices"):
            return Path(value)
        if name == "extra":
            return _read_object(value)
    except (ValueError, InvalidOperation, RecursionError) as error:
        raise ConfigError(f"{name} {value!r} makes no sense", why=str(error)) from error
    return value


def _read_object(text: str) -> dict[str, JSON]:
    form = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(form, dict):
        raise ValueError("it is no JSON object")
    return form


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
