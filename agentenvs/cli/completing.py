"""Shell completion of names; asks the registry only when the shell asks.

A shell shows whatever is printed as a word to choose, so nothing here may fail: what cannot be told completes to
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer


def envs(incomplete: str) -> list[str]:
    """Return the environments that begin so."""
    from agentenvs.core import registry

    return _matching(incomplete, lambda: [spec.slug for spec in registry.list_envs()])


def policies(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the policies of the environment on the command line that begin so."""
    from agentenvs.core import targets
    from agentenvs.harness.policies import policy_names

    return _matching(incomplete, lambda: policy_names(targets.spec_of(_env(ctx))))


def splits(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the splits of the environment on the command line that begin so, those of its data folder too."""
    from agentenvs.cli import making

    def names() -> Iterable[str]:
        env = making.make(_env(ctx), [], ctx.params.get("data"))
        try:
            return list(env.splits())
        finally:
            env.close()

    return _matching(incomplete, names)


def options(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the options of the environment on the command line that begin so, up to the ``=``."""
    from agentenvs.core import targets

    return _matching(incomplete, lambda: [f"{option.name}=" for option in targets.spec_of(_env(ctx)).options])


def protocols(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the protocols of the environment on the command line that begin so."""
    from agentenvs.core import targets
    from agentenvs.harness import protocol

    def names() -> Iterable[str]:
        slug = targets.spec_of(_env(ctx)).slug
        return [name for name in protocol.names() if slug in protocol.load(name).envs or not protocol.load(name).envs]

    return _matching(incomplete, names)


def _env(ctx: typer.Context) -> str:
    # The value that is being completed is missing from its option, so that the parser gives up before it has given
    # the words that are left their names.
    return ctx.params.get("env") or next(iter(ctx.args), "")


def _matching(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return [name for name in names() if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001 - boundary: a shell that asks for names has no use for errors
        return []
