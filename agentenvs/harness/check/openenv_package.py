"""The folder that OpenEnv's tools take an environment from: ``openenv.yaml``, a plan to try it by, an image.

The manifest says what was measured, not what is hoped for: the floor's margin is that of :mod:`openenv`'s checks. The
plan is data: a seed and some actions of players that wander about, in OpenEnv's form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentenvs._version import __version__
from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.harness.check.openenv import margin_of
from agentenvs.harness.check.plays import ORACLE, plays
from agentenvs.harness.check.subject import Subject

MANIFEST = "openenv.yaml"
PLAN = "validation/runtime.json"
ORACLES = "validation/oracle.sh"
IMAGE = "Dockerfile"

PORT = 8000
SHOWN = 1_000
"""Tasks that a server lists of an endless split."""

MOST_ACTIONS = 12

_MEMORY_MB = 1024
_DISK_MB = 1024
_SECONDS = 600.0


def write(subject: Subject, folder: Path) -> list[Path]:
    """Write the files of an environment and return which; an image that is there already is left as it is.

    Raises:
        OSError: They cannot be written.
    """
    files = {
        MANIFEST: yaml_of(manifest(subject)),
        PLAN: json.dumps(plan(subject), indent=2) + "\n",
        IMAGE: image(subject.spec),
    }
    if ORACLE in subject.spec.players:
        files[ORACLES] = f"#!/bin/sh\nagentenvs eval {subject.spec.slug} --policy oracle --episodes 20\n"
    written = []
    for name, text in files.items():
        file = folder / name
        if name == IMAGE and file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def manifest(subject: Subject) -> dict[str, Any]:
    """Return the manifest."""
    spec = subject.spec
    low, high = spec.reward_range
    shown = [split for split in subject.splits().values() if not split.sealed]
    oracle = {"oracle": {"form": "script", "location": ORACLES}} if ORACLE in spec.players else {}
    return {
        "spec_version": 1,
        "name": spec.slug,
        "version": spec.release,
        "type": "space",
        "runtime": "fastapi",
        "port": PORT,
        "validation": {
            "reward": {"range": [low, high], "oracle_tolerance": 0.0, "floor_margin": margin_of(subject)},
            "resources": {
                "cpu": 1.0,
                "memory_mb": spec.capabilities.memory_mb or _MEMORY_MB,
                "disk_mb": _DISK_MB,
                "episode_timeout_s": _SECONDS,
            },
            "capabilities": {
                **oracle,
                "verifier": {"kind": "reward_channel"},
                "task_api": True,
                "declared_tools": [tool.name for tool in spec.tools],
                "declared_task_count": {split.name: _shown(split) for split in shown},
            },
            "types": {"tags": ["text", spec.slug]},
            "network": {"mode": "no-network"},
            "task_distribution": {"dataset_version": f"{spec.id}+{spec.digest[:12]}"},
            "execution": {"kind": "openenv_ws", "probe_path": PLAN, "dockerfile": IMAGE, "context": "."},
        },
    }


def _shown(split: SplitSpec) -> int:
    return SHOWN if split.size is None else split.size


def plan(subject: Subject) -> dict[str, Any]:
    """Return the plan: the first task, and actions of a player that wanders about."""
    wandered = next((play for play in plays(subject) if play.who != ORACLE), None)
    said = [] if wandered is None else [_action(subject.spec, action) for action in wandered.actions]
    kept = [action for action in said if action is not None][:MOST_ACTIONS]
    ref = subject.ref
    reset = {"seed": 0, "episode_id": "probe", "options": {"split": ref.split, "index": ref.index}}
    return {"plan_schema_version": "1", "reset": reset, "actions": kept or [{"text": "look"}]}


def _action(spec: EnvSpec, action: JSON) -> dict[str, JSON] | None:
    """Return an action in OpenEnv's form; None for one that has none there."""
    form = to_json(parse_action(action))
    if isinstance(form, str):
        return {"text": form} if "text" in spec.accepts else None
    if "tool" in form:
        return {"type": "call_tool", "tool_name": form["tool"], "arguments": form["arguments"]}
    return {"text": form["message"]} if "message" in form else None


def image(spec: EnvSpec) -> str:
    """Return an image of the environment that serves OpenEnv's protocol alone."""
    return (
        "# Built on the image of servers/Dockerfile; without a token it serves OpenEnv's protocol alone.\n"
        f"ARG BASE=agentenvs:{__version__}\n"
        "FROM ${BASE}\n"
        "# OpenEnv's validator runs it as any user, with nothing to write to but /tmp: sessions live in memory.\n"
        f"ENV AGENTENVS_SERVE_ENVS={spec.slug} AGENTENVS_SERVE_WITHOUT_TOKEN=openenv AGENTENVS_SERVE_JOURNAL=none\n"
    )


def yaml_of(form: Mapping[str, Any], indent: str = "") -> str:
    """Return YAML of an object: of objects in objects, and of what JSON is enough for."""
    return "".join(_lines(form, indent))


def _lines(form: Mapping[str, Any], indent: str) -> Iterable[str]:
    for name, value in form.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:\n"
            yield yaml_of(value, indent + "  ")
        else:
            yield f"{indent}{name}: {json.dumps(value)}\n"
