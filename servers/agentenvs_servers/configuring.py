"""Where the settings of a server come from: a flag, else a variable, else the file of settings, else the default.

The settings themselves stand in :mod:`~agentenvs_servers.settings`. A value that cannot be is told with its name, its
origin and what is allowed; a name that is no setting is an error wherever it stands.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ValidationError, create_model
from pydantic_settings import BaseSettings, InitSettingsSource, SettingsConfigDict
from pydantic_settings.sources import PydanticBaseSettingsSource

from agentenvs.core.errors import ConfigError
from agentenvs_servers.settings import Place, Setting, Settings, documented

PREFIX = "AGENTENVS_SERVE_"
"""Of the variables: ``max_sessions`` is ``AGENTENVS_SERVE_MAX_SESSIONS``."""

_KNOWN: Mapping[str, Setting] = {one.name: one for one in documented()}


class Configured(NamedTuple):
    """All that a file, variables and flags say of a server."""

    place: Place
    settings: Settings
    envs: tuple[str, ...]
    """Environments that the file names."""
    options: Mapping[str, Any]
    """Their options, as the file says."""


class _Sources(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid")
    file: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the strongest first."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, dict(cls.file))


def read(
    flags: Mapping[str, Any],
    file: Path | None = None,
    *,
    tokens: tuple[str, ...] = (),
    others: Collection[str] = (),
) -> Configured:
    """Return the settings of a server.

    Args:
        flags: What the command line says, by name of the setting.
        file: A TOML file: settings by name, ``envs``, and a table ``[options]``.
        tokens: Those that hold where there is no file of tokens.
        others: What else may be set by variables of the same beginning.

    Raises:
        ConfigError: The file cannot be read, there is no such setting, or a value cannot be.
    """
    form = {} if file is None else _form(file)
    envs, options = form.pop("envs", []), form.pop("options", {})
    if not isinstance(envs, list) or not all(isinstance(env, str) for env in envs) or not isinstance(options, dict):
        raise ConfigError(
            f"the file {file} makes no sense", why="envs is a list of names, and [options] a table of their options"
        )
    _refuse_unknown_variables(others)
    fields: dict[str, Any] = {name: _field(one) for name, one in _KNOWN.items()}
    model = create_model("Values", __base__=_Sources, **fields)
    model.file = form
    try:
        values = model(**flags).model_dump()
    except ValidationError as error:
        raise _told(error, flags, file) from error
    place = {name: values.pop(name) for name in Place.__dataclass_fields__}
    held = tokens if values["token_file"] is None else ()
    return Configured(Place(**place), Settings(**values, tokens=held), tuple(envs), options)


def _form(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the file {file} is no TOML", why=str(error)) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file {file} cannot be read", why=str(error)) from error


def _field(one: Setting) -> tuple[Any, Any]:
    kind: Any = one.type | None if one.optional else one.type
    return Annotated[kind, BeforeValidator(_refuse_mixtures(one)), AfterValidator(_fits(one))], one.default


def _refuse_mixtures(one: Setting) -> Callable[[Any], Any]:
    """Return what refuses what would be made a number, or a truth, of something else than its text."""

    def refuse(value: Any) -> Any:
        wrong = type(value) is not bool if one.type is bool else isinstance(value, bool)
        if wrong and not isinstance(value, str):
            raise ValueError
        return value

    return refuse


def _fits(one: Setting) -> Callable[[Any], Any]:
    def fits(value: Any) -> Any:
        if not one.takes(value):
            raise ValueError
        return value

    return fits


def _refuse_unknown_variables(others: Collection[str]) -> None:
    for variable in sorted(os.environ):
        name = variable.upper().removeprefix(PREFIX).lower()
        if variable.upper().startswith(PREFIX) and name not in _KNOWN and name not in others:
            raise _unknown(name, f"the variable {variable}")


def _unknown(name: str, origin: str) -> ConfigError:
    near = difflib.get_close_matches(name, _KNOWN, 1)
    fix = f"did you mean {near[0]}?" if near else "docs/serving.md lists them"
    return ConfigError(f"there is no setting {name!r}", why=f"it comes from {origin}", fix=fix)


def _told(error: ValidationError, flags: Mapping[str, Any], file: Path | None) -> ConfigError:
    """Return the first fault of the settings in words."""
    fault = error.errors(include_url=False)[0]
    name = str(fault["loc"][0])
    if name not in _KNOWN:
        return _unknown(name, f"the file {file}")
    one = _KNOWN[name]
    variable = next((known for known in os.environ if known.upper() == f"{PREFIX}{name.upper()}"), None)
    if name in flags:
        origin = f"the flag --{name.replace('_', '-')}"
    else:
        origin = f"the file {file}" if variable is None else f"the variable {variable}"
    return ConfigError(
        f"the setting {name} is {fault['input']!r}",
        why=f"it comes from {origin}; allowed is {one.allowed}",
        fix="mend it there, or leave it out",
    )
