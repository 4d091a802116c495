"""Which environments there are: ids, specs, and how one is made.

Built-in environments stand in a table of strings, so that listing them imports none. Packages of others announce
theirs in the entry-point group ``agentenvs.envs`` (each entry point is an :class:`EnvSpec`, a list of them, or a
function that returns either); the group is read only when a look-up misses or a full list is wanted, and one that
cannot be loaded is a warning that names it, never a crash.
"""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError, UnknownEnvError
from agentenvs.core.spec import EnvSpec, parse_id

GROUP = "agentenvs.envs"

_BUILT_IN = {
    "agentenvs/Household-v0": "agentenvs.envs.household.spec:SPEC",
    "agentenvs/SearchWorld-v0": "agentenvs.envs.searchworld.spec:SPEC",
    "agentenvs/WebShop-v0": "agentenvs.envs.webshop.spec:SPEC",
}

_registered: dict[str, EnvSpec] = {}
_plugins_read = False


def register(spec: EnvSpec) -> None:
    """Add an environment.

    Raises:
        ContractError: The id or the slug is taken by a different spec.
    """
    taken = _registered.get(spec.id)
    if taken == spec:
        return
    if taken is not None or spec.id in _BUILT_IN:
        raise ContractError(f"the id {spec.id} is taken", fix="raise the version or choose another namespace")
    others = [env_id for env_id in _ids() if _slug(env_id) == spec.slug and _stem(env_id) != _stem(spec.id)]
    if others:  # or a package could slip its own environment under the short name of another
        raise ContractError(f"{spec.id}: the slug {spec.slug!r} is taken by {others[0]}", fix="choose another slug")
    _registered[spec.id] = spec


def spec(name: str) -> EnvSpec:
    """Return the spec of an environment.

    Args:
        name: An id (``agentenvs/Household-v0``), an id without its version, or a slug (``household``).

    Raises:
        UnknownEnvError: There is none; the message suggests near names.
    """
    found = _find(name)
    if found is None:
        _read_plugins()
        found = _find(name)
    if found is None:
        raise _unknown(name)
    return found


def list_envs() -> list[EnvSpec]:
    """Return the specs of all environments, sorted by id, those of other packages too."""
    _read_plugins()
    return [_get(env_id) for env_id in sorted(_ids())]


def built_in_ids() -> list[str]:
    """Return the ids that come with the suite, without importing anything."""
    return list(_BUILT_IN)


def load(entry_point: str) -> Any:
    """Import what a ``module:attribute`` string names.

    Raises:
        ContractError: The string is malformed, or the module lacks the attribute.
    """
    module, _, attribute = entry_point.partition(":")
    if not module or not attribute:
        raise ContractError(f"{entry_point!r} is no entry point", fix="write module:attribute")
    value: Any = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise ContractError(f"{module} has no {attribute!r}", fix="check the spelling of the entry point")
        value = getattr(value, part)
    return value


def make(name: str, **options: Any) -> Environment:
    """Make an environment.

    Args:
        name: As for :func:`spec`.
        **options: As its spec declares.

    Raises:
        UnknownEnvError: There is none of that name.
        OptionError: An unknown option or a refused value.
    """
    return make_from(spec(name), **options)


def make_from(chosen: EnvSpec, **options: Any) -> Environment:
    """Make the environment of a spec; one that may hang is put in a worker process of its own."""
    if chosen.capabilities.execution == "process":
        from agentenvs.core.hosting import Hosted

        return Hosted(chosen, **options)
    made: Any = load(chosen.entry_point)(**options)
    if not isinstance(made, Environment):
        raise ContractError(f"{chosen.entry_point} made a {type(made).__name__}", why="an Environment was expected")
    return made


def _ids() -> list[str]:
    # A built-in spec that was looked up is in both.
    return list(dict.fromkeys([*_BUILT_IN, *_registered]))


def _get(env_id: str) -> EnvSpec:
    if env_id not in _registered:
        _registered[env_id] = load(_BUILT_IN[env_id])
    return _registered[env_id]


def _find(name: str) -> EnvSpec | None:
    ids = _ids()
    if name in ids:
        return _get(name)
    stems = [env_id for env_id in ids if _stem(env_id) == name or env_id.rpartition("/")[2] == name]
    slugs = stems or [env_id for env_id in ids if _slug(env_id) == name]
    return _get(max(slugs, key=lambda env_id: parse_id(env_id)[2])) if slugs else None


def _stem(env_id: str) -> str:
    return env_id.rpartition("-v")[0]


def _slug(env_id: str) -> str:
    # Built-in slugs are the lower-cased names, so a look-up by slug imports no spec it does not return.
    return parse_id(env_id)[1].lower() if env_id in _BUILT_IN else _registered[env_id].slug


def _unknown(name: str) -> UnknownEnvError:
    ids = _ids()
    slugs = [_slug(env_id) for env_id in ids]
    stem, _, version = name.rpartition("-v")
    known = [env_id for env_id in ids if stem and _stem(env_id) == stem]
    known.sort(key=lambda env_id: parse_id(env_id)[2])
    if known and version.isdigit():
        return UnknownEnvError(f"there is no {name}", why=f"known versions: {', '.join(known)}", fix=f"use {known[-1]}")
    near = difflib.get_close_matches(name.lower(), [*slugs, *(env_id.lower() for env_id in ids)], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UnknownEnvError(f"there is no environment {name!r}", fix=f"{hint}known: {', '.join(slugs)}")


def _read_plugins() -> None:
    global _plugins_read
    if _plugins_read:
        return
    _plugins_read = True
    for point in entry_points(group=GROUP):
        try:
            for found in _specs_of(point):
                register(found)
        except Exception as error:  # noqa: BLE001 - boundary: a plug-in may fail in any way and must harm nobody else
            said = error.what if isinstance(error, AgentEnvsError) else repr(error)
            warnings.warn(f"the environments of {point.value!r} cannot be loaded: {said}", stacklevel=3)


def _specs_of(point: EntryPoint) -> Iterable[EnvSpec]:
    value = point.load()
    if callable(value) and not isinstance(value, EnvSpec):
        value = value()
    return [value] if isinstance(value, EnvSpec) else list(value)
