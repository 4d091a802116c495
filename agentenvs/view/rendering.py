"""A page as HTML: as a server sends it, or as one file that holds its style and scripts and loads nothing.

A served page has no script and no style within: its policy allows none. An exported one names the digests of its
scripts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from agentenvs._version import __version__
from agentenvs.harness import report
from agentenvs.view import text

TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
STATIC = (
    "look.css", "view.css", "uPlot.min.css", "theme.js", "htmx.min.js", "uPlot.iife.min.js", "view.js", "icon.svg",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    """What a page holds."""

    template: str
    title: str
    crumbs: list[tuple[str, str]]
    here: str
    """Its own address."""
    context: dict[str, Any] = field(default_factory=dict)
    plots: bool = False
    status: int = 200
    name: str = "page"
    """Of the file it is exported to."""


def served(page: Page) -> str:
    """Return a page as the server sends it."""
    joint = "&" if "?" in page.here else "?"
    export_url = f"{page.here}{joint}export=1" if page.status == 200 else ""
    version = f"?v={_digest()}"
    return _templates().get_template(page.template).render(
        served=True, href=_linked, version=version, export_url=export_url, **_common(page)
    )  # fmt: skip


def exported(page: Page, source: str = "a run") -> str:
    """Return a page as one file.

    Args:
        page: What it holds.
        source: Where that lies, for the foot of the page.
    """
    styles = ["look.css", *(["uPlot.min.css"] if page.plots else []), "view.css"]
    scripts = ["theme.js", *(["uPlot.iife.min.js"] if page.plots else []), "view.js"]
    spelled = [static(name).decode() for name in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in spelled)
    return _templates().get_template(page.template).render(
        served=False,
        href=_unlinked,
        version="",
        export_url="",
        styles=[Markup(static(name).decode()) for name in styles],  # noqa: S704 - of ours
        scripts=[Markup(one) for one in spelled],  # noqa: S704 - of ours
        hashes=Markup(hashes),  # noqa: S704 - of ours
        release=__version__,
        source=source,
        **_common(page),
    )  # fmt: skip


def _common(page: Page) -> dict[str, Any]:
    return {"title": page.title, "crumbs": page.crumbs, "here": page.here, "plots": page.plots, **page.context}


def _linked(path: str | None) -> Markup:
    return Markup('href="{}"').format(path) if path else Markup("")


def _unlinked(path: str | None) -> Markup:
    """Return no address: a file has no other pages. What leads within the page stays."""
    return Markup('href="{}"').format(path) if path and path.startswith("#") else Markup("")


@cache
def static(name: str) -> bytes:
    """Return a file of ours that pages use."""
    room = files("agentenvs.harness") / "templates" if name == "look.css" else files("agentenvs.view") / "static"
    return (room / name).read_bytes()


@cache
def _digest() -> str:
    return hashlib.sha256(b"".join(static(name) for name in STATIC)).hexdigest()[:12]


@cache
def _templates() -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader("agentenvs.view"), PackageLoader("agentenvs.harness")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "marked": text.marked,
        "plain": text.plain,
        "line": text.line,
        "spelled": text.spelled,
        "as_data": text.as_data,
        "num": text.number,
        "head": _head,
        "breaks": _breaks,
        "when": _when,
        "percent": report.percent,
        "number": report.number,
        "signed": report.signed,
        "pvalue": report.p_value,
    }
    return made


def _head(said: str) -> str:
    """Return the beginning of a long text."""
    lines = said[:1000].split("\n")[:14]
    return "\n".join(lines)


def _breaks(said: str) -> Markup:
    """Return a name that may go on in the next line behind an underscore or a slash."""
    return Markup(str(escape(text.plain(said))).replace("_", "_<wbr>").replace("/", "/<wbr>"))  # noqa: S704 - escaped


def _when(moment: str) -> str:
    """Spell a moment for people."""
    try:
        return f"{datetime.fromisoformat(moment):%-d %b %Y, %H:%M}"
    except ValueError:
        return text.plain(moment)[:40]
