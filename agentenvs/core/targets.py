"""From what somebody names to an environment: an id of the registry, a file, or a class in a module of their own.

    household   agentenvs/Household-v0   ./my_world.py   my_world.py:MyWorld   my_worlds.garden:Garden

A file is imported under its own name, with its folder on the path, so that a worker process finds the same module; a
name that another module has is refused. Only what the user of this process names comes here: ids that arrive in a
record or from a server go to the registry, which imports nothing for them but what is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ConfigError, ContractError
from agentenvs.core.spec import EnvSpec

SUFFIX = ".py"


def is_source(target: str) -> bool:
    """Whether a target names a file or a class, and not what the registry knows."""
    return ":" in target or target.endswith(SUFFIX)


def spec_of(target: str) -> EnvSpec:
    """Return the spec of a target, and make its environment known to the registry.

    Args:
        target: An id, an id without its version, a slug, a file, ``FILE:CLASS`` or ``MODULE:CLASS``.

    Raises:
        ConfigError: The file or class cannot be imported, or is no environment.
        UnknownEnvError: There is none of that id.
    """
    if not is_source(target):
        return registry.spec(target)
    cls = class_of(target)
    found = checked(cls)
    if registry.load(found.entry_point) is not cls:
        raise ConfigError(
            f"{target!r} cannot be made by its spec",
            why=f"the spec's entry point is {found.entry_point!r}",
            fix=f"write {cls.__module__}:{cls.__qualname__}",
        )
    try:
        registry.register(found)
    except ContractError as error:
        raise ConfigError(f"{target!r} cannot be used here", why=error.what, fix=error.fix) from error
    return found


def make(target: str, **options: Any) -> Environment:
    """Make the environment of a target; see :func:`spec_of`.

    Raises:
        OptionError: An unknown option or a refused value.
        UserError: Some other subclass: the target is none.
    """
    return registry.make_from(spec_of(target), **options)


def class_of(target: str) -> type[Any]:
    """Import the class that a target names; that it is an environment is for :func:`checked` to say.

    Raises:
        ConfigError: It cannot be imported, or there is none, or not exactly one.
    """
    head, _, name = target.rpartition(":")
    if head.endswith(SUFFIX):
        return _named(_module(target, Path(head)), name, target)
    if target.endswith(SUFFIX):
        return _only(_module(target, Path(target)), target)
    _see(Path.cwd())
    try:
        return registry.load(target)  # type: ignore[no-any-return]
    except ContractError as error:
        raise ConfigError(f"{target!r} cannot be found", why=error.what, fix=error.fix) from error
    except AgentEnvsError:
        raise
    except (Exception, SystemExit) as error:
        raise _unimportable(target, error, "run where its module is, or install it") from error


def checked(cls: Any) -> EnvSpec:
    """Return the spec of a class.

    Raises:
        ConfigError: It is no environment, or has no spec.
    """
    if not inspect.isclass(cls) or not issubclass(cls, Environment):
        raise ConfigError(
            f"{cls!r} is no environment",
            why="it is no subclass of Environment",
            fix="give module:Class of one; `agentenvs wrap` makes one of other classes",
        )
    spec: object = getattr(cls, "spec", None)
    if not isinstance(spec, EnvSpec):
        raise ConfigError(f"{cls.__name__} has no spec", fix="set the class attribute spec to an EnvSpec")
    return spec


def _module(target: str, path: Path) -> ModuleType:
    """Import a file under its own name."""
    file = path.absolute()
    if not file.is_file():
        raise ConfigError(f"there is no file {path}", fix="agentenvs init NAME --minimal writes one")
    if not file.stem.isidentifier():
        raise ConfigError(
            f"{path.name} cannot be imported", why="its name is no Python name", fix="use letters, digits and _"
        )
    _see(file.parent)
    _refuse_taken(file)
    try:
        return importlib.import_module(file.stem)
    except AgentEnvsError as error:
        raise ConfigError(f"{target!r} cannot be imported", why=error.what, fix=error.fix) from error
    except (Exception, SystemExit) as error:
        raise _unimportable(target, error, "mend it; python FILE shows the whole error") from error


def _refuse_taken(file: Path) -> None:
    known = sys.modules.get(file.stem)
    if known is not None:
        found = getattr(known, "__file__", None)
    else:
        spec = importlib.util.find_spec(file.stem)
        found = None if spec is None else spec.origin
    if found is None or Path(found).resolve() != file.resolve():
        raise ConfigError(
            f"{file.name} cannot be imported",
            why=f"the module {file.stem!r} is {found or 'built in'}",
            fix="rename the file",
        )


def _see(folder: Path) -> None:
    """Let modules of a folder be imported; what is installed goes first."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()


def _only(module: ModuleType, target: str) -> type[Any]:
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Environment)
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{target}:{cls.__name__}" for cls in found)
    raise ConfigError(
        f"{target} defines {len(found) or 'no'} environment{'s' if found else ''}",
        fix=f"name one: {names}" if found else "write a subclass of Environment, or a class under @world(…)",
    )


def _named(module: ModuleType, name: str, target: str) -> type[Any]:
    if not hasattr(module, name):
        raise ConfigError(f"{target!r} cannot be found", why=f"{module.__name__} has no {name!r}")
    return getattr(module, name)  # type: ignore[no-any-return]


def _unimportable(target: str, error: BaseException, fix: str) -> ConfigError:
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parent)
    own = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith(ours)]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}: " if own else ""
    return ConfigError(f"{target!r} cannot be imported", why=f"{place}{type(error).__name__}: {error}", fix=fix)
