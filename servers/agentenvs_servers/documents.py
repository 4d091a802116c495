"""The OpenAPI document: what the framework says of the routes, with the models of the wire put in.

Bodies are read and answers written without the framework, for strictness and speed; so the document takes their forms
from the models themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from agentenvs_servers import wire
from agentenvs_servers.problems import CATALOGUE, MEDIA_TYPE, phrase

DESCRIPTION = """Episodes of text environments over HTTP.

A session plays one episode after another; its name is the right to control it, an agent key the right to play one
episode. Every request may be repeated: a turn is played once, a `key` is used once. Errors are problems (RFC 9457)
with a `code` and a `fix`."""

_KEYED = ("/v1/agent", "/v1/tickets")
"""Beginnings of the routes that an agent key or a ticket is needed for, whether or not the server asks for tokens."""

_REFERENCE = "#/components/schemas/{model}"


def takes(model: type[wire.Wire]) -> dict[str, Any]:
    """Return the arguments of a route that takes a message."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}}


def answers(
    models: type[wire.Wire] | Sequence[type[wire.Wire]] | str, *codes: str, status: int = 200
) -> dict[str, Any]:
    """Return the arguments of a route that answers a message, or one of several, or problems.

    Args:
        models: The message; the media type of what is no JSON.
        *codes: Codes of the problems.
        status: Where all is well.
    """
    found: dict[int | str, dict[str, Any]] = {status: {"description": phrase(status), "content": _content(models)}}
    for code in (*codes, "internal"):
        kind = CATALOGUE[code]
        entry = found.setdefault(
            kind.status,
            {
                "description": "",
                "content": {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
            },
        )
        if code not in entry["description"].split(", "):
            entry["description"] += f", {code}" if entry["description"] else code
    return {"responses": found, "response_class": Response}


def _content(models: type[wire.Wire] | Sequence[type[wire.Wire]] | str) -> dict[str, Any]:
    if isinstance(models, str):
        return {models: {"schema": {"type": "string"}}}
    if isinstance(models, type):
        return {"application/json": {"schema": {"$ref": _REFERENCE.format(model=models.__name__)}}}
    options = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return {"application/json": {"schema": {"anyOf": options}}}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application; made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        models = [getattr(wire, name) for name in wire.__all__ if name != "Wire"]
        _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REFERENCE)
        made.setdefault("components", {})["schemas"] = schemas["$defs"]
        made["components"]["securitySchemes"] = {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of this server, an agent key, or a ticket.",
            }
        }
        for path, methods in made["paths"].items():
            for method in methods.values():
                _without_default_errors(method)
                if path.startswith("/v1/"):
                    method["security"] = [{"token": []}] if path.startswith(_KEYED) else [{}, {"token": []}]
        app.openapi_schema = made
    return app.openapi_schema


def _without_default_errors(method: dict[str, Any]) -> None:
    """Take out the framework's own form of a validation error, which is never answered."""
    default = method["responses"].get("422", {}).get("content", {}).get("application/json")
    if default is not None:
        del method["responses"]["422"]
