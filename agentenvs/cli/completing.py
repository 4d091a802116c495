"""Shell completion of names; asks the registry only when the shell asks."""

from __future__ import annotations

import typer


def envs(incomplete: str) -> list[str]:
    """Return the environments that begin so."""
    from agentenvs.core import registry

    return [spec.slug for spec in registry.list_envs() if spec.slug.startswith(incomplete)]


def policies(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the policies of the environment on the command line that begin so."""
    from agentenvs.core import registry
    from agentenvs.core.errors import UserError
    from agentenvs.harness.policies import policy_names

    try:
        return [name for name in policy_names(registry.spec(ctx.params["env"])) if name.startswith(incomplete)]
    except (UserError, KeyError):
        return []


def splits(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the splits of the environment on the command line that begin so."""
    from agentenvs.core import registry
    from agentenvs.core.errors import UserError

    try:
        return [split.name for split in registry.spec(ctx.params["env"]).splits if split.name.startswith(incomplete)]
    except (UserError, KeyError):
        return []
