"""``list`` and ``info``: which environments there are, and what one says of itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from agentenvs.cli import arguments, console

if TYPE_CHECKING:
    from agentenvs.core.environment import Environment


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("list", epilog="Example: agentenvs list --json")(list_envs)
    app.command("info", epilog="Example: agentenvs info household --data json_2.1.1")(info)


def list_envs(as_json: arguments.Json = False) -> None:
    """List the environments."""
    from rich.table import Table

    from agentenvs.core import registry

    specs = registry.list_envs()
    if as_json:
        console.result([spec.to_json() for spec in specs])
        return
    table = Table()
    for heading in ("id", "name", "what", "splits", "takes"):
        table.add_column(heading)
    for spec in specs:
        splits = ", ".join(f"{split.name} ({_size(split.size)})" for split in spec.splits)
        table.add_row(spec.id, spec.slug, spec.title, splits, ", ".join(spec.accepts))
    console.out().print(table)


def info(
    env: arguments.Env,
    data: arguments.Data = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    as_json: arguments.Json = False,
) -> None:
    """Show what an environment says of itself: splits, actions, options, budgets, promises, players."""
    made = console.make_env(env, option, data)
    try:
        if as_json:
            splits = {name: {"size": split.size, "panel": split.panel} for name, split in made.splits().items()}
            console.result({**made.spec.to_json(), "found_splits": splits})
        else:
            _show(made)
    finally:
        made.close()


def _show(env: Environment) -> None:
    spec = env.spec
    screen = console.out()
    screen.print(f"{spec.id}  release {spec.release}  ({spec.title})", style="bold")
    screen.print(spec.description)
    budgets = ", ".join(f"{name} {amount}" for name, amount in env.declared_budgets().items()) or "none"
    screen.print(f"\ntakes {', '.join(spec.accepts)}; at most {spec.max_calls} call(s) a turn; budgets: {budgets}")
    screen.print(f"players: {', '.join(spec.players) or 'none'}")
    _table("splits", ("split", "scenarios", "what"), [_split_row(split) for split in env.splits().values()])
    _table(
        "tools",
        ("tool", "does", "arguments, for example"),
        [
            (tool.name, tool.description, json.dumps(dict(tool.examples[0])) if tool.examples else "")
            for tool in spec.tools
        ],
    )
    _table(
        "options",
        ("option", "type", "default", "what"),
        [(option.name, option.type, json.dumps(option.default), option.description) for option in spec.options],
    )
    promises = spec.to_json()["capabilities"]
    _table("promises", ("promise", "value"), [(name, json.dumps(value)) for name, value in promises.items()])


def _table(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    if not rows:
        return
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    console.out().print(table)


def _split_row(split: Any) -> tuple[str, ...]:
    panel = f" (panel {split.panel[:16]})" if split.panel else ""
    return split.name, _size(split.size), split.description + panel


def _size(size: int | None) -> str:
    return "endless" if size is None else str(size)
