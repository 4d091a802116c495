"""Opens the doors that the settings name, in front of an application that was made."""

from __future__ import annotations

import importlib
from typing import cast

from fastapi import FastAPI

from agentenvs_servers.doors.routing import Door, Doors
from agentenvs_servers.hall import Hall
from agentenvs_servers.hot import Front
from agentenvs_servers.settings import V1


def open_doors(front: Front) -> None:
    """Let an application speak what its settings say, beside the native protocol or in its place.

    Raises:
        MissingExtraError: A door needs a package that is not installed.
    """
    hall, app = front.handlers.hall, cast("FastAPI", front.app)
    doors = Doors(app, front.handlers, [_door(name, hall) for name in hall.settings.open_doors if name != V1])
    front.app = doors
    document = app.openapi

    def documented() -> dict[str, object]:
        made = document()
        for path, method, entry in doors.documented():
            made["paths"].setdefault(path, {}).setdefault(method, entry)
        return made

    app.openapi = documented  # type: ignore[method-assign]


_WHERE = {
    "openenv": "openenv:OpenEnv",
    "ors": "ors:OpenRewardStandard",
    "mcp": "mcp:Mcp",
    "retrieval": "retrieval:Retrieval",
    "web": "web:Web",
    "play": "play:Play",
}


def _door(name: str, hall: Hall) -> Door:
    """Return a door; its module, which may need an extra or be slow to import, is imported for whom opens it."""
    module, _, cls = _WHERE[name].partition(":")
    door: Door = getattr(importlib.import_module(f"agentenvs_servers.doors.{module}"), cls)(hall)
    return door
