"""Settings of the model proxy: the model behind it, and what an episode may use of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import httpx

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import ConfigError
from agentenvs.harness.model_settings import OpenAISettings

if TYPE_CHECKING:
    from agentenvs.harness.manifest import ModelEntry

APIS = ("chat", "responses", "messages")
"""What the proxy speaks, and what an endpoint may speak itself."""

_FORCED = ("temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """What the proxy needs to know.

    Raises:
        ConfigError: A value that makes no sense; the message names the setting.
    """

    model: OpenAISettings
    """Model, endpoint, patience and prices; ``max_calls`` bounds the calls of an episode."""
    apis: tuple[str, ...] = ("chat",)
    """What the endpoint speaks itself; the rest is translated to chat completions."""
    tokens: int | None = None
    """Tokens of prompts and replies that an episode may use; a call that was begun is let finish."""
    dollars: Decimal | None = None
    """What an episode may cost, likewise."""
    parallel: int = 8
    """Calls of an episode at a time; more wait."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if unknown := [name for name in self.apis if name not in APIS]:
            raise ConfigError(f"no API is called {unknown[0]!r}", fix=f"known: {', '.join(APIS)}")
        if "chat" not in self.apis:
            raise ConfigError("the endpoint must speak chat", why="it is what the other APIs are translated to")
        for name in ("tokens", "parallel"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(f"{name} {value!r} an episode makes no sense", fix="give a whole number from 1")
        if self.dollars is None:
            return
        if not (self.dollars.is_finite() and self.dollars > 0):
            raise ConfigError(f"{self.dollars} dollars an episode make no sense", fix="give more than 0")
        if self.model.cost(0, 0, None) is None:
            raise ConfigError("a budget of dollars needs prices", fix="give --price-in and --price-out")

    @classmethod
    def parse(
        cls, model: OpenAISettings, *, tokens: Any = None, dollars: Any = None, apis: Any = None
    ) -> ProxySettings:
        """Return settings from words.

        Raises:
            ConfigError: A value that makes no sense.
        """
        given: dict[str, Any] = {}
        try:
            if tokens is not None:
                given["tokens"] = int(tokens)
            if dollars is not None:
                given["dollars"] = Decimal(str(dollars))
        except (ValueError, InvalidOperation) as error:
            raise ConfigError("a budget of an episode is a number", why=str(error)) from error
        if apis is not None:
            given["apis"] = tuple(name.strip() for name in str(apis).split(",") if name.strip())
        return cls(model=model, **given)

    def spelled(self) -> dict[str, JSON]:
        """Return all but the model as :meth:`parse` reads it."""
        return {
            "tokens": self.tokens,
            "dollars": None if self.dollars is None else str(self.dollars),
            "apis": ",".join(self.apis),
        }

    @property
    def retries(self) -> int:
        """Attempts after the first, for a run's manifest."""
        return self.model.retries

    @property
    def price_table(self) -> str | None:
        """Where the price is from, for a manifest; None where there is none."""
        return self.model.price_table

    def forced(self) -> dict[str, JSON]:
        """Return the fields that a program's requests get whatever they say, the bound of tokens aside."""
        model = self.model
        fixed = {name: getattr(model, name) for name in _FORCED if getattr(model, name) is not None}
        return {"model": model.model, **fixed, **model.extra}

    def model_entry(self) -> ModelEntry:
        """Return the model, for a run's manifest."""
        from agentenvs.harness.manifest import ModelEntry

        sampling = {name: value for name, value in self.forced().items() if name != "model"}
        if self.model.max_tokens is not None:
            sampling["max_tokens"] = self.model.max_tokens
        effort = sampling.get("reasoning_effort")
        return ModelEntry(
            provider=httpx.URL(self.model.url).host,
            id=self.model.model,
            revision=None,
            sampling=canonical(sampling),
            reasoning_effort=effort if isinstance(effort, str) else None,
            seed=self.model.seed,
            base_url_class=self.model.base_url_class(),
        )
