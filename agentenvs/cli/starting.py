"""``init``: an environment to begin with, in one file or as a package, that is green from the first minute."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX = ".in"
_MODULE, _CLASS, _WORDS = "my_world", "MyWorld", "My world"
"""What the templates call it."""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("init", epilog=arguments.examples("init my_world --minimal", "init my_world"))(init)


def init(
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and _.", metavar="NAME")],
    minimal: Annotated[bool, typer.Option("--minimal", help="One file, not a package.")] = False,
    folder: Annotated[Path, typer.Option("--folder", help="Where to put it.")] = Path(),
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write an environment to begin with: one file, or a package with scenarios, score, players, probes and tests."""
    _check(name)
    templates = files("agentenvs.cli") / "templates"
    with console.files():
        if minimal:
            made = folder / f"{name}.py"
            _write(made, (templates / f"minimal.py{_SUFFIX}").read_text(encoding="utf-8"), name)
        else:
            made = folder / name
            _refuse(made)
            _copy(templates / "package", made, name)
    steps = _file_steps(made) if minimal else _package_steps(made, name)
    if as_json:
        console.result({"made": str(made), "next": steps})
        return
    typer.echo(str(made))
    for step in steps:
        console.message(step)


def _file_steps(made: Path) -> list[str]:
    shown = str(made) if made.is_absolute() else f"./{made}"
    evaluated = f"agentenvs eval {shown} --policy oracle --episodes 10"
    return [f"agentenvs check {shown}", evaluated, f"agentenvs serve {shown}"]


def _package_steps(made: Path, name: str) -> list[str]:
    install = f"cd {made} && pip install -e '.[dev]'"
    return [install, "pytest", f"agentenvs check {name}", f"agentenvs serve {name}"]


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f"{name!r} cannot be the name of an environment", fix="use lower-case letters, digits and _")


def _copy(source: Traversable, to: Path, name: str) -> None:
    for item in sorted(source.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            if item.name != "__pycache__":
                _copy(item, to / _named(item.name, name), name)
        elif item.name.endswith(_SUFFIX):
            _write(to / _named(item.name.removesuffix(_SUFFIX), name), item.read_text(encoding="utf-8"), name)


def _write(path: Path, text: str, name: str) -> None:
    _refuse(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_named(text, name), encoding="utf-8")


def _refuse(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already", fix="choose another name, or another --folder")


def _named(text: str, name: str) -> str:
    words = name.strip("_").split("_")
    camel = "".join(word.capitalize() for word in words)
    spoken = " ".join(words).capitalize()
    return text.replace(_MODULE, name).replace(_CLASS, camel).replace(_WORDS, spoken)
