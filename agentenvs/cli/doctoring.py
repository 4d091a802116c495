"""``doctor``: is everything there that this machine needs?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from typing import Literal, NamedTuple

import typer

from agentenvs.cli import arguments, console

State = Literal["ok", "warn", "fail"]

_PACKAGES = (
    "docker",
    "fastapi",
    "gymnasium",
    "httptools",
    "httpx",
    "jinja2",
    "orjson",
    "pydantic",
    "rich",
    "sqlalchemy",
    "typer",
    "uvicorn",
)


class Finding(NamedTuple):
    """One line."""

    state: State
    what: str
    fix: str = ""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor", epilog="Example: agentenvs doctor --data json_2.1.1")(doctor)


def doctor(data: arguments.Data = None, as_json: arguments.Json = False) -> None:
    """Look at Python, packages, environments, data, Docker and disk; exit code 1 where something needed is missing."""
    findings = [_python(), *_packages(), _machine(), *_environments(), *_games(data), _docker()]
    if as_json:
        console.result([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.state:5} {console.safe(finding.what)}")
            if finding.fix:
                typer.echo(f"      fix: {finding.fix}")
    raise typer.Exit(console.FAILED if any(finding.state == "fail" for finding in findings) else console.OK)


def _python() -> Finding:
    return Finding("ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> list[Finding]:
    findings = []
    for name in _PACKAGES:
        try:
            findings.append(Finding("ok", f"{name} {importlib.metadata.version(name)}"))
        except importlib.metadata.PackageNotFoundError:
            findings.append(Finding("fail", f"{name} is not installed", "pip install agentenvs"))
    return findings


def _machine() -> Finding:
    free = shutil.disk_usage(".").free / 2**30
    said = f"{os.cpu_count()} cores, {free:.1f} GiB free here"
    return Finding("ok", said) if free > 1 else Finding("warn", said, "make room: run folders need some")


def _environments() -> list[Finding]:
    from agentenvs.core import registry

    findings = []
    for spec in registry.list_envs():
        try:
            registry.make_from(spec).close()
            findings.append(Finding("ok", f"{spec.id} loads"))
        except Exception as error:  # noqa: BLE001 - boundary: a broken environment of anybody's is a finding
            findings.append(Finding("fail", f"{spec.id} does not load: {error}", f"reinstall what brings {spec.id}"))
    return findings


def _games(data: str | None) -> list[Finding]:
    from agentenvs.core import registry
    from agentenvs.core.errors import UserError

    folder = data or os.environ.get("ALFWORLD_DATA")
    if not folder:
        return [Finding("ok", "no game files handed over (--data, ALFWORLD_DATA): household plays its built-in rooms")]
    try:
        env = registry.make("household", data=folder)
        found = [f"{name} {split.size}" for name, split in env.splits().items() if split.panel]
        env.close()
    except UserError as error:
        return [Finding("fail" if data else "warn", f"{folder}: {error.what}", error.fix)]
    return [Finding("ok", f"games in {folder}: {', '.join(found)}")]


def _docker() -> Finding:
    import docker

    try:
        client = docker.from_env(timeout=3)
        version = client.version()["Version"]
        client.close()
    except Exception as error:  # noqa: BLE001 - boundary: the SDK raises whatever its transport does
        return Finding("warn", f"no Docker engine answers ({type(error).__name__})", "only containers need one")
    return Finding("ok", f"Docker engine {version}")
