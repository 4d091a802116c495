"""``wrap``: an environment of another maker becomes one of this suite, in a file of a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.core.spec import EnvSpec


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "wrap gymnasium:CartPole-v1 --out cartpole.py",
        "wrap my_module:MyEnv",
        "wrap openenv+http://127.0.0.1:8000 --out echo.py",
        "wrap mcp+http://127.0.0.1:8000/mcp --out tools.py",
    )
    app.command("wrap", epilog=shown)(wrap)


def wrap(
    target: Annotated[
        str, typer.Argument(help="gymnasium:ID, MODULE:CLASS, openenv+URL, or mcp+URL.", metavar="TARGET")
    ],
    out: Annotated[Path | None, typer.Option(help="The file to write; named after the target otherwise.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Look at an environment of another maker, and write a file that serves, evaluates and records it."""
    from agentenvs.adapters import wrapping
    from agentenvs.adapters.foreign import ANY_REWARD
    from agentenvs.core import targets

    with console.own_output():
        found = wrapping.look(target)
    file = out or Path(f"{wrapping.module_name(found)}.py")
    if file.exists():
        raise ConfigError(f"{file} is there already", fix="give another --out")
    with console.files():
        file.write_text(wrapping.written(found, file.stem), encoding="utf-8")
    shown = str(file) if file.is_absolute() else f"./{file}"
    spec = targets.spec_of(shown)
    steps = [f"agentenvs check {shown}", f"agentenvs eval {shown} --policy random --episodes 5"]
    if as_json:
        console.result({"made": str(file), "spec": spec.to_json(), "next": steps})
        return
    typer.echo(str(file))
    for line in _declared(spec):
        console.message(line)
    if not found.pays:
        console.message(f"write score() in {file}: until then every episode is worth 0")
    elif found.reward_range == ANY_REWARD:
        console.message(f"write the least and most that an episode pays into reward_range in {file}, if you know them")
    if found.success_at is None and found.pays:
        console.message(f"success is an end with more than 0; write success_at into {file} where it is another return")
    for step in steps:
        console.message(step)


def _declared(spec: EnvSpec) -> list[str]:
    """Return what the environment cannot do, and what that costs."""
    from agentenvs.harness.check.findings import LOST

    missing = [name for name in LOST if name and not getattr(spec.capabilities, name)]
    return [f"{name}: false: {LOST[name]}" for name in missing]
