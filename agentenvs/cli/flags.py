"""A flag for each setting of a server, made from the settings themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from agentenvs_servers.settings import Setting, documented

_METAVARS = {int: "N", float: "SECONDS", str: "TEXT"}


def with_settings(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb with a flag for each setting, in the place of its ``**given``; None for those not given.

    Variables are left to whoever reads the settings: a value tells better there where it came from.
    """
    signature = inspect.signature(verb, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(one))
        for one in documented()
    ]
    verb.__signature__ = signature.replace(parameters=[*own, *made])  # type: ignore[attr-defined]
    return verb


def _annotation(one: Setting) -> Any:
    flag = f"--{one.name.replace('_', '-')}"
    default = "" if one.default in (None, "", False) else f" [default: {one.default}]"
    made = typer.Option(
        f"{flag}/--no-{flag[2:]}" if one.type is bool else flag,
        *one.flags,
        help=one.said.replace("`", "") + default,
        metavar=None if one.type is bool else _metavar(one),
        hidden=not one.shown,
        allow_from_autoenv=False,
        show_default=False,
    )
    kind: Any = bool if one.type is bool else str
    return Annotated[kind | None, made]


def _metavar(one: Setting) -> str:
    if one.bounds.choices:
        return "|".join(one.bounds.choices)
    return "N" if one.type is float and not one.name.endswith("_seconds") else _METAVARS[one.type]
