"""Opens the doors that the settings name, in front of an application that was made."""

from __future__ import annotations

from typing import cast

from fastapi import FastAPI

from agentenvs_servers.doors.openenv import OpenEnv
from agentenvs_servers.doors.ors import OpenRewardStandard
from agentenvs_servers.doors.retrieval import Retrieval
from agentenvs_servers.doors.routing import Door, Doors
from agentenvs_servers.doors.web import Web
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


def _door(name: str, hall: Hall) -> Door:
    if name == "openenv":
        return OpenEnv(hall)
    if name == "ors":
        return OpenRewardStandard(hall)
    if name == "retrieval":
        return Retrieval(hall)
    if name == "web":
        return Web(hall)
    from agentenvs_servers.doors.mcp import Mcp  # needs an extra

    return Mcp(hall)
