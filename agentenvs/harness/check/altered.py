"""The entry point of an environment in a worker process that has altered scenarios, or another clock."""

from __future__ import annotations

from typing import Any

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.harness.check import altering
from agentenvs.harness.check.clocks import set_ahead


def make(check_alteration: str, **options: Any) -> Environment:
    """Make an altered environment.

    Args:
        check_alteration: What :func:`agentenvs.harness.check.altering.told` wrote.
        **options: Its own options.
    """
    entry_point, alteration = altering.read(check_alteration)
    set_ahead(alteration.get("clock", 0))
    made: Environment = registry.load(entry_point)(**options)
    if "clock" not in alteration:
        altering.alter(made, alteration)
    return made
