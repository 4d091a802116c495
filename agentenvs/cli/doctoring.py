"""``doctor``: is everything there that this machine needs?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple

import typer

from agentenvs.cli import arguments, console

State = Literal["ok", "warn", "fail"]

_LEAST_PYTHON = (3, 11)
_REQUIREMENT = re.compile(r"^([\w.-]+)\s*(?:>=\s*([\d.]+))?")


class Finding(NamedTuple):
    """One line."""

    state: State
    what: str
    fix: str = ""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor", epilog=arguments.examples("doctor", "doctor --data json_2.1.1"))(doctor)


def doctor(
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Look at Python, packages, environments, data, Docker and disk. Exit code 1 where something needed is missing."""
    findings = [_python(), *_packages(), _machine(), *_environments(), _games(data), _prepared(), _docker()]
    if as_json:
        console.result([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.state:5} {console.safe(finding.what)}")
            if finding.fix:
                typer.echo(f"      fix: {console.safe(finding.fix)}")
    failed = sum(finding.state == "fail" for finding in findings)
    console.message(f"{failed} to mend" if failed else "All that is needed is there.")
    raise typer.Exit(console.FAILED if failed else console.OK)


def _python() -> Finding:
    said = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < _LEAST_PYTHON:
        return Finding("fail", said, f"install Python {'.'.join(map(str, _LEAST_PYTHON))} or newer")
    return Finding("ok", said)


def _packages() -> Iterator[Finding]:
    """Compare what the base install asks for with what is there."""
    import importlib.metadata as metadata

    try:
        requirements = metadata.requires("agentenvs") or []
    except metadata.PackageNotFoundError:
        yield Finding("warn", "agentenvs runs from a folder and is not installed", "pip install .")
        return
    for requirement in sorted(requirements):
        wanted, _, marker = requirement.partition(";")
        match = _REQUIREMENT.match(wanted)
        if match is None or "extra" in marker or ("win32" in marker and sys.platform == "win32"):
            continue
        name, least = match[1], match[2] or "0"
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding("fail", f"{name} is not installed", f"pip install '{wanted.strip()}'")
            continue
        if _numbers(found) < _numbers(least):
            yield Finding("fail", f"{name} {found} is older than {least}", f"pip install '{wanted.strip()}'")
        else:
            yield Finding("ok", f"{name} {found}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in (*re.findall(r"\d+", version), "0", "0", "0")[:3]]


def _machine() -> Finding:
    free = shutil.disk_usage(".").free / 2**30
    said = f"{os.cpu_count()} cores, {free:.1f} GiB free here"
    return Finding("ok", said) if free > 1 else Finding("warn", said, "make room: run folders need some")


def _environments() -> Iterator[Finding]:
    from agentenvs.core import registry
    from agentenvs.core.errors import UserError

    for spec in registry.list_envs():
        try:
            registry.make_from(spec).close()
        except UserError as error:
            yield Finding("fail", f"{spec.id} does not load: {error.what}", error.fix)
        except Exception as error:  # noqa: BLE001 - boundary: a broken environment of anybody's is a finding
            yield Finding("fail", f"{spec.id} does not load: {error!r}", f"reinstall what brings {spec.id}")
        else:
            yield Finding("ok", f"{spec.id} loads")


def _games(data: str | None) -> Finding:
    from agentenvs.core import registry
    from agentenvs.core.errors import UserError

    folder, source = (data, "--data") if data else (os.environ.get("ALFWORLD_DATA"), "$ALFWORLD_DATA")
    if not folder:
        return Finding("ok", "no game files handed over (--data, $ALFWORLD_DATA): household plays its built-in rooms")
    try:
        env = registry.make("household", data=folder)
        found = [f"{name} {split.size}" for name, split in env.splits().items() if split.panel]
        env.close()
    except UserError as error:
        # A stale variable does no harm: the household plays its built-in rooms then.
        return Finding("fail" if data else "warn", f"{source} is {folder}: {error.what}", error.fix)
    return Finding("ok", f"games in {folder}: {', '.join(found)}")


def _prepared() -> Finding:
    """Look at where worlds find, or keep, what they stand on."""
    from agentenvs.core import prepared

    if folder := os.environ.get(prepared.VARIABLE):
        said = f"${prepared.VARIABLE} is {folder}"
        return Finding("ok", said) if os.path.isdir(folder) else Finding("fail", f"{said}, no folder", "unset it")
    try:
        place = prepared.cache_folder()
    except RuntimeError:
        return Finding("warn", "no home folder, so no cache", f"set {prepared.CACHE_VARIABLE} to a folder")
    nearest = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        said = f"the cache {place} cannot be written"
        return Finding("warn", said, f"set {prepared.CACHE_VARIABLE} to a folder that can, or prepare worlds ahead")
    return Finding("ok", f"cache of what worlds prepare: {place}")


def _docker() -> Finding:
    """Ask the engine; no part of the suite that is there needs one, so its absence is a warning."""
    try:
        import docker

        client = docker.from_env(timeout=3)
        version = client.version()["Version"]
        client.close()
    except Exception as error:  # noqa: BLE001 - boundary: the SDK raises whatever its transport does
        client_there = "docker is on the path" if shutil.which("docker") else "there is no docker on the path"
        said = f"no Docker engine answers ({type(error).__name__}); {client_there}"
        return Finding("warn", said, "start or install one, if you mean to run containers")
    return Finding("ok", f"Docker engine {version}")
