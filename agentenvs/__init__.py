"""Environments in which language agents are trained and judged.

``import agentenvs`` is light: names are looked up when first used (PEP 562), so that a lower room which imports
``agentenvs.core`` pulls in nothing from above. Importing it makes the environments known to Gymnasium, at once where
Gymnasium is loaded already and otherwise as soon as it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentenvs._version import __version__
from agentenvs.core import gymhook as _gymhook

if TYPE_CHECKING:
    from agentenvs.core.environment import Environment
    from agentenvs.core.record import Record, Recorded, read_records
    from agentenvs.core.registry import list_envs, make, register, spec
    from agentenvs.core.replay import replay, rescore
    from agentenvs.core.spec import EnvSpec
    from agentenvs.core.task import TaskRef
    from agentenvs.core.verdict import Verdict

_WHERE = {
    "EnvSpec": "agentenvs.core.spec",
    "Environment": "agentenvs.core.environment",
    "Record": "agentenvs.core.record",
    "Recorded": "agentenvs.core.record",
    "TaskRef": "agentenvs.core.task",
    "Verdict": "agentenvs.core.verdict",
    "list_envs": "agentenvs.core.registry",
    "make": "agentenvs.core.registry",
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
    "list_envs",
    "make",
    "read_records",
    "register",
    "replay",
    "rescore",
    "spec",
]

_gymhook.install()


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
