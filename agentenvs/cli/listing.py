"""``list`` and ``info``: which environments there are, and what one says of itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console, making

if TYPE_CHECKING:
    from agentenvs.core.playable import Playable
    from agentenvs.core.spec import Capabilities, OptionSpec, SplitSpec


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("list", epilog=arguments.examples("list", "list --json"))(list_envs)
    shown = arguments.examples(
        "info household",
        "info household --data json_2.1.1",
        "info household --json",
        "info searchworld --seed 7 -o people=500",
    )
    app.command("info", epilog=shown)(info)


def list_envs(
    as_json: arguments.Json = False, quiet: arguments.Quiet = False, no_color: arguments.NoColor = False
) -> None:
    """List the environments."""
    from agentenvs.core import registry

    specs = registry.list_envs()
    if as_json:
        console.result([spec.to_json() for spec in specs])
        return
    rows = [
        (spec.id, spec.slug, spec.title, _sizes(spec.splits), ", ".join(_promises(spec.capabilities))) for spec in specs
    ]
    _table("", ("id", "name", "title", "splits", "capabilities"), rows)
    console.message("What one says of itself: agentenvs info NAME")


def info(
    env: arguments.Env,
    data: arguments.Data = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    split: arguments.Split = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Tell one scenario, answer and all: its seed, or index in the split.")
    ] = None,
    url: arguments.Url = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show what an environment says of itself: splits, actions, options, budgets, capabilities, players."""
    made = making.make(env, option, data, url)
    try:
        if seed is not None:
            _tell(made, split or made.spec.default_split, seed, as_json)
            return
        if as_json:
            splits = {name: {"size": split.size, "panel": split.panel} for name, split in made.splits().items()}
            console.result({**made.spec.to_json(), "found_splits": splits})
        else:
            _show(made)
    finally:
        made.close()
    console.message(f"Play it: agentenvs play {made.spec.slug}{f' --url {url}' if url else ''}")


def _tell(env: Playable, split: str, seed: int, as_json: bool) -> None:
    """Print a scenario in words.

    Raises:
        ConfigError: The environment has none for it, or is behind a server.
        SplitError: No such scenario.
    """
    from agentenvs.core.environment import Environment
    from agentenvs.core.errors import ConfigError
    from agentenvs.core.task import TaskRef

    if not isinstance(env, Environment):
        raise ConfigError("a server tells nobody what its scenarios hold", fix="leave out --url")
    text = env.describe(TaskRef(split, seed))
    if not text:
        raise ConfigError(f"{env.spec.id} has no words for its scenarios", fix=f"agentenvs play {env.spec.slug}")
    if as_json:
        console.result({"split": split, "index": seed, "description": text})
    else:
        console.out().print(console.safe(text), markup=False, highlight=False, soft_wrap=True)


def _show(env: Playable) -> None:
    spec = env.spec
    screen = console.out()
    screen.print(f"{spec.id}  release {spec.release}  ({spec.title})", style="bold")
    screen.print(spec.description)
    budgets = ", ".join(f"{name} {amount}" for name, amount in env.declared_budgets().items()) or "none"
    screen.print(f"\ntakes {', '.join(spec.accepts)}; at most {spec.max_calls} call(s) a turn; budgets: {budgets}")
    screen.print(f"capabilities: {', '.join(_promises(spec.capabilities))}")
    screen.print(f"players: {', '.join(spec.players) or 'none'}")
    _table("splits", ("split", "scenarios", "what"), [_split_row(split) for split in env.splits().values()])
    tools = [
        (tool.name, tool.description, "\n".join(json.dumps(dict(example)) for example in tool.examples))
        for tool in spec.tools
    ]
    _table("tools", ("tool", "does", "arguments, for example"), tools)
    _table("options", ("option", "type", "default", "what"), [_option_row(option) for option in spec.options])


def _table(title: str, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    if not rows:
        return
    table = Table(
        title=f"\n{title}" if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    console.out().print(table)


def _promises(capabilities: Capabilities) -> list[str]:
    """Return what an environment declares, in words."""
    promised = [
        name
        for name in ("deterministic", "replayable", "resumable", "forkable", "snapshot")
        if getattr(capabilities, name)
    ]
    limit = "" if capabilities.step_seconds is None else f" ({capabilities.step_seconds:g} s a step)"
    return [*promised, f"rewards {capabilities.rewards}", f"execution {capabilities.execution}{limit}"]


def _split_row(split: SplitSpec) -> tuple[str, ...]:
    panel = f" (panel {split.panel[:16]})" if split.panel else ""
    sealed = " (sealed)" if split.sealed else ""
    return console.safe(split.name), _size(split.size), console.safe(split.description) + panel + sealed


def _option_row(option: OptionSpec) -> tuple[str, ...]:
    choices = f" ({', '.join(option.choices)})" if option.choices else ""
    return option.name, option.type, json.dumps(option.default), option.description + choices


def _sizes(splits: tuple[SplitSpec, ...]) -> str:
    return ", ".join(f"{split.name} ({_size(split.size)})" for split in splits)


def _size(size: int | None) -> str:
    return "endless" if size is None else str(size)
