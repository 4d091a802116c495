"""The options of the ``openai`` policy on the command line; each is a setting of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import completing

if TYPE_CHECKING:
    from agentenvs.harness.model_settings import OpenAISettings

_PANEL = "A model (--policy openai)"


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=_PANEL)


Model: TypeAlias = Annotated[str | None, _option("--model", "Name of the model, as the endpoint spells it.")]
BaseUrl: TypeAlias = Annotated[
    str | None, _option("--base-url", "Endpoint up to /v1; OPENAI_BASE_URL, or OpenAI's own, otherwise.")
]
KeyEnv: TypeAlias = Annotated[
    str | None, _option("--api-key-env", "Variable that holds the key (OPENAI_API_KEY); never the key itself.")
]
Protocol: TypeAlias = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="Prompts, history, limit, parser: native, react, verl-agent, agentgym, agentbench or search-r1.",
        autocompletion=completing.protocols,
        rich_help_panel=_PANEL,
    ),
]
History: TypeAlias = Annotated[str | None, _option("--history", "full or last:K; the protocol's own otherwise.")]
Tools: TypeAlias = Annotated[str | None, _option("--tools", "auto: tool calls where there are tools. text: never.")]
Temperature: TypeAlias = Annotated[str | None, _option("--temperature", "Sampling temperature.")]
TopP: TypeAlias = Annotated[str | None, _option("--top-p", "Nucleus sampling.")]
MaxTokens: TypeAlias = Annotated[str | None, _option("--max-tokens", "Tokens of a reply.")]
Seed: TypeAlias = Annotated[str | None, _option("--model-seed", "Sampling seed sent to the endpoint.")]
Timeout: TypeAlias = Annotated[str | None, _option("--timeout", "Seconds an attempt may take (120).")]
Retries: TypeAlias = Annotated[str | None, _option("--retries", "Attempts after the first (4).")]
MaxCalls: TypeAlias = Annotated[str | None, _option("--max-calls", "Model calls an episode; the protocol's otherwise.")]
Examples: TypeAlias = Annotated[str | None, _option("--examples", "File of example episodes; ours otherwise.")]
PriceIn: TypeAlias = Annotated[str | None, _option("--price-in", "Dollars a million tokens of prompt.")]
PriceOut: TypeAlias = Annotated[str | None, _option("--price-out", "Dollars a million tokens of reply.")]
PriceCached: TypeAlias = Annotated[str | None, _option("--price-cached", "Dollars a million cached tokens of prompt.")]
Extra: TypeAlias = Annotated[str | None, _option("--extra", "JSON object of further fields of the request.")]

_FLAGS = {
    "model": "model",
    "base_url": "base_url",
    "api_key_env": "api_key_env",
    "protocol": "protocol",
    "history": "history",
    "tools": "tools",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "model_seed": "seed",
    "timeout": "timeout",
    "retries": "retries",
    "max_calls": "max_calls",
    "examples": "examples",
    "price_in": "price_in",
    "price_out": "price_out",
    "price_cached": "price_cached",
    "extra": "extra",
}
"""Parameter of the verb -> setting."""


def settings(given: dict[str, Any]) -> OpenAISettings:
    """Return the settings from a verb's parameters.

    Raises:
        ConfigError: A value that makes no sense.
    """
    from agentenvs.harness.model_settings import OpenAISettings

    return OpenAISettings.parse(**{setting: given[flag] for flag, setting in _FLAGS.items()})


def refuse(given: dict[str, Any]) -> None:
    """Refuse settings of a model where none plays.

    Raises:
        ConfigError: One was given.
    """
    from agentenvs.core.errors import ConfigError

    for flag in _FLAGS:
        if given[flag] is not None and (flag, given[flag]) != ("protocol", "native"):
            raise ConfigError(
                f"--{flag.replace('_', '-')} has no effect here",
                why="only the openai policy asks a model",
                fix="add --policy openai, or leave it out",
            )
