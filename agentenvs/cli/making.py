"""From words on a command line to an environment with options, here or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenvs.core.errors import OptionError

if TYPE_CHECKING:
    from agentenvs.core.playable import Playable
    from agentenvs.core.spec import EnvSpec

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_options(pairs: list[str], spec: EnvSpec) -> dict[str, Any]:
    """Read ``name=value`` options by the types the environment declares.

    Raises:
        OptionError: No ``=``, or a value of another type.
    """
    types = {option.name: option.type for option in spec.options}
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"{pair!r} is no option", fix="write name=value")
        options[name] = _typed(name, value, types.get(name, "str"))
    return options


def with_data(spec: EnvSpec, options: dict[str, Any], data: str | None) -> dict[str, Any]:
    """Add ``--data`` to options.

    Raises:
        OptionError: The environment reads no data.
    """
    if data is None:
        return options
    if all(option.name != "data" for option in spec.options):
        raise OptionError(f"{spec.id} reads no data", fix="leave out --data")
    return {**options, "data": data}


def make(env: str, pairs: list[str], data: str | None, url: str | None = None) -> Playable:
    """Make an environment from what a command line says.

    Raises:
        UserError: Some subclass: no such environment, option or data, or no such server.
    """
    from agentenvs.harness.stage import Stage

    stage = Stage(env, url)
    options = with_data(stage.spec, parse_options(pairs, stage.spec), data)
    if url is not None and data is not None:
        raise OptionError("--data has no effect here", why="the server plays its own", fix="leave it out")
    return stage.make(options)


def _typed(name: str, value: str, kind: str) -> Any:
    try:
        if kind == "bool":
            return _WORDS[value.lower()]
        return int(value) if kind == "int" else float(value) if kind == "float" else value
    except (KeyError, ValueError) as error:
        raise OptionError(f"option {name!r} does not take {value!r}", why=f"it is a {kind}") from error
