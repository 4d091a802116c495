"""The options of a model on the command line: of ``openai``, of ``hf:PATH``, or of the proxy that a program gets.

Each is a setting of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import completing

if TYPE_CHECKING:
    from agentenvs.harness.model_settings import OpenAISettings
    from agentenvs.harness.proxy.settings import ProxySettings

_PANEL = "A model (--policy openai or hf:PATH, or of an exec:'COMMAND')"


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=_PANEL)


Protocol: TypeAlias = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="Prompts, history, limit, parser: native, react, verl-agent, agentgym, agentbench or search-r1.",
        autocompletion=completing.protocols,
        rich_help_panel=_PANEL,
    ),
]

_TEXTS = {
    "model": "Name of the model, as the endpoint spells it.",
    "base_url": "Endpoint up to /v1; OPENAI_BASE_URL, or OpenAI's own, otherwise.",
    "api_key_env": "Variable that holds the key (OPENAI_API_KEY); never the key itself.",
    "protocol": "",
    "history": "full or last:K; the protocol's own otherwise.",
    "tools": "auto: tool calls where there are tools. text: never.",
    "temperature": "Sampling temperature.",
    "top_p": "Nucleus sampling.",
    "max_tokens": "Tokens of a reply.",
    "model_seed": "Sampling seed sent to the endpoint.",
    "timeout": "Seconds an attempt may take (120).",
    "retries": "Attempts after the first (4).",
    "max_calls": "Model calls an episode; the protocol's otherwise.",
    "examples": "File of example episodes; ours otherwise.",
    "price_in": "Dollars a million tokens of prompt; the table's otherwise.",
    "price_out": "Dollars a million tokens of reply.",
    "price_cached": "Dollars a million cached tokens of prompt.",
    "prices": "Table of prices (TOML); the one that comes with agentenvs otherwise.",
    "extra": "JSON object of further fields of the request.",
    "constrained": "hf: true or false, whether the model chooses among the legal actions where the world tells them.",
    "device": "hf: cpu, cuda …; a GPU where there is one otherwise.",
    "wrapper": "hf: name of a plug-in that the model acts through.",
    "model_apis": "exec: what the endpoint has itself of chat,responses,messages (chat).",
    "episode_tokens": "exec: tokens that an episode may use.",
    "episode_dollars": "exec: what an episode may cost.",
}
"""Parameter of a verb -> its help."""

_RENAMED = {"model_seed": "seed"}
"""Parameter of a verb -> setting, where they differ."""

_OF_PROXY = {"model_apis": "apis", "episode_tokens": "tokens", "episode_dollars": "dollars"}
"""Parameters for programs alone -> settings of the proxy."""

_OF_FOLDER = ("constrained", "device", "wrapper")
"""Parameters for a model in a folder alone."""

_OF_PROMPTS = ("protocol", "history", "tools", "examples")
"""What only a policy that words the prompts itself can follow."""


def with_model(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb with an option for each setting of a model, in the place of its ``**model``."""
    signature = inspect.signature(verb, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(name), annotation=_annotation(name))
        for name in _TEXTS
    ]
    verb.__signature__ = signature.replace(parameters=[*own, *made])  # type: ignore[attr-defined]
    return verb


def _default(name: str) -> str | None:
    return "native" if name == "protocol" else None


def _annotation(name: str) -> Any:
    if name == "protocol":
        return Protocol
    return Annotated[str | None, _option(f"--{name.replace('_', '-')}", _TEXTS[name])]


def settings(given: Mapping[str, Any]) -> OpenAISettings:
    """Return the settings of the ``openai`` policy from a verb's parameters.

    Raises:
        ConfigError: A value that makes no sense.
    """
    _refuse(given, _OF_PROXY, "it is for the model of an exec:'COMMAND'", "leave it out")
    _refuse(given, _OF_FOLDER, "it is for a model in a folder, hf:PATH", "leave it out")
    return _model(given, [name for name in _TEXTS if name not in (*_OF_PROXY, *_OF_FOLDER)])


def folder_settings(given: Mapping[str, Any], folder: str) -> OpenAISettings:
    """Return the settings of a model in a folder from a verb's parameters.

    Raises:
        ConfigError: A value that makes no sense.
    """
    from agentenvs.core.errors import ConfigError

    kept = ("protocol", "history", "temperature", "top_p", "max_tokens", "model_seed", "max_calls", "examples")
    others = [name for name in _TEXTS if name not in (*kept, *_OF_FOLDER, "extra")]
    _refuse(given, others, "the model is in a folder, and no endpoint is asked", "leave it out")
    more: dict[str, Any] = {name: given[name] for name in ("device", "wrapper") if given[name] is not None}
    if given["constrained"] is not None:
        if given["constrained"] not in ("true", "false"):
            raise ConfigError(f"--constrained {given['constrained']} makes no sense", fix="true or false")
        more["constrained"] = given["constrained"] == "true"
    said = _model(given, [*kept, "extra"], model=folder, base_url="http://localhost", tools="text")
    return replace(said, extra={**said.extra, **more}) if more else said


def proxy_settings(given: Mapping[str, Any]) -> ProxySettings | None:
    """Return the settings of the proxy that gives a program its model; None where no model is named.

    Raises:
        ConfigError: A value that makes no sense.
    """
    from agentenvs.harness.proxy.settings import ProxySettings

    if given["model"] is None:
        refuse(given)
        return None
    _refuse(given, _OF_FOLDER, "it is for a model in a folder, hf:PATH", "leave it out")
    _refuse(given, _OF_PROMPTS, "a program words its prompts itself", "leave it out")
    model = _model(given, [name for name in _TEXTS if name not in (*_OF_PROXY, *_OF_PROMPTS, *_OF_FOLDER)])
    return ProxySettings.parse(model, **{setting: given[name] for name, setting in _OF_PROXY.items()})


def refuse(given: Mapping[str, Any]) -> None:
    """Refuse settings of a model where none plays.

    Raises:
        ConfigError: One was given.
    """
    _refuse(
        given,
        _TEXTS,
        "no model is asked",
        "add --policy openai or hf:PATH, or --model to an exec:'COMMAND', or leave it out",
    )


def _model(given: Mapping[str, Any], names: Iterable[str], **more: Any) -> OpenAISettings:
    from agentenvs.harness.model_settings import OpenAISettings

    return OpenAISettings.parse(**{_RENAMED.get(name, name): given[name] for name in names}, **more)


def _refuse(given: Mapping[str, Any], names: Iterable[str], why: str, fix: str) -> None:
    from agentenvs.core.errors import ConfigError

    for name in names:
        if given[name] is not None and (name, given[name]) != ("protocol", "native"):
            raise ConfigError(f"--{name.replace('_', '-')} has no effect here", why=why, fix=fix)
