"""Environments in which language agents are trained and judged.

``import agentenvs`` is light: names are looked up when first used (PEP 562), so that a lower room which imports
``agentenvs.core`` pulls in nothing from above. Importing it makes the environments known to Gymnasium, at once where
Gymnasium is loaded already and otherwise as soon as it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, overload

from agentenvs._version import __version__
from agentenvs.core import gymhook as _gymhook

if TYPE_CHECKING:
    import httpx

    from agentenvs.client import ClientSettings, RemoteEnv
    from agentenvs.core.environment import Environment
    from agentenvs.core.record import Record, Recorded, read_records
    from agentenvs.core.registry import list_envs, register, spec
    from agentenvs.core.replay import replay, rescore
    from agentenvs.core.spec import EnvSpec
    from agentenvs.core.task import TaskRef
    from agentenvs.core.vector import VectorEnv
    from agentenvs.core.verdict import Verdict
    from agentenvs.harness.check import check_env

_WHERE = {
    "EnvSpec": "agentenvs.core.spec",
    "Environment": "agentenvs.core.environment",
    "Record": "agentenvs.core.record",
    "Recorded": "agentenvs.core.record",
    "TaskRef": "agentenvs.core.task",
    "Verdict": "agentenvs.core.verdict",
    "check_env": "agentenvs.harness.check",
    "list_envs": "agentenvs.core.registry",
    "read_records": "agentenvs.core.record",
    "register": "agentenvs.core.registry",
    "replay": "agentenvs.core.replay",
    "rescore": "agentenvs.core.replay",
    "spec": "agentenvs.core.registry",
}

__all__ = [
    "EnvSpec",
    "Environment",
    "Record",
    "Recorded",
    "TaskRef",
    "Verdict",
    "__version__",
    "check_env",
    "list_envs",
    "make",
    "make_vec",
    "read_records",
    "register",
    "replay",
    "rescore",
    "spec",
]

_gymhook.install()


@overload
def make(
    name: str,
    *,
    url: str,
    token: str | None = None,
    trace: bool = False,
    settings: ClientSettings | None = None,
    transport: httpx.BaseTransport | None = None,
    **options: Any,
) -> RemoteEnv: ...


@overload
def make(name: str, **options: Any) -> Environment: ...


def make(name: str, *, url: str | None = None, **options: Any) -> Environment | RemoteEnv:
    """Make an environment: here, or on a server where a URL is given.

    Args:
        name: An id (``agentenvs/Household-v0``), an id without its version, a slug (``household``), a file of your
            own (``./my_world.py``), or a class in one or in a module (``FILE:CLASS``, ``MODULE:CLASS``).
        url: A server; ``token``, ``trace``, ``settings`` and ``transport`` are then those of
            :class:`agentenvs.client.RemoteEnv`.
        **options: As the environment declares them.

    Raises:
        UnknownEnvError: There is none of that name.
        OptionError: An unknown option or a refused value.
        ServiceError: The server stays away, refuses, or is none.
    """
    if url is None:
        from agentenvs.core import targets

        return targets.make(name, **options)
    from agentenvs.client import RemoteEnv

    own = {word: options.pop(word) for word in ("token", "trace", "settings", "transport") if word in options}
    return RemoteEnv(name, url, options=options, **own)


def make_vec(name: str, num_envs: int, *, url: str | None = None, **arguments: Any) -> VectorEnv:
    """Make environments side by side behind Gymnasium's vector API: here, or on a server where a URL is given.

    A step of all of them is one call here and one request there.

    Args:
        name: An id, an id without its version, or a slug.
        num_envs: How many.
        url: A server; ``token``, ``settings`` and ``transport`` are then those of :class:`agentenvs.client.RemoteEnv`.
        **arguments: ``autoreset_mode`` (``NextStep``, ``SameStep`` or ``Disabled``) and ``render_mode`` as for
            :class:`agentenvs.core.vector.VectorEnv`; ``record=True`` to keep records in this process (a server always
            does); and the options of the environment.

    Raises:
        UnknownEnvError: There is none of that name.
        OptionError: An unknown option or a refused value.
        ServiceError: The server stays away, refuses, or is none.
    """
    if url is None:
        from agentenvs.core.vector import make_local

        return make_local(name, num_envs, **arguments)
    from agentenvs.client.fleet import make_remote

    return make_remote(name, num_envs, url, **arguments)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _WHERE:
        raise AttributeError(f"module 'agentenvs' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
