"""What the doors for browsers share: templates and their one stylesheet, headers, forms, and problems as pages.

A page loads nothing: its style and script stand in it, allowed by their digests, and nothing else may run. Everything
that is not a template is escaped. A form is read within the bounds of every body, and only from a page of this server.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson
from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup

from agentenvs_servers import bodies, sockets
from agentenvs_servers.doors.routing import Call, Handler
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.settings import Settings

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall

FORM = b"application/x-www-form-urlencoded"
HTML = "text/html; charset=utf-8"

_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src {script}; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # none at all would have browsers send forms without an Origin
    "X-Content-Type-Options": "nosniff",
}

_SAID = {
    "unauthorized": ("This page needs a key", "The address is not, or no longer, one that opens an episode here."),
    "session_unknown": (
        "There is no such episode here",
        "Either it never was, or its time is long over and it was forgotten. Episodes are kept for a while after they "
        "end; download a record if you want to keep it.",
    ),
    "closed": (
        "This episode is over",
        "It was ended, or another one was begun in its place. Nothing more is played in it.",
    ),
    "expired": (
        "This episode's time is over",
        "Nobody played for so long that the server ended it. What was played counts as it stood.",
    ),
    "version_changed": (
        "This episode cannot be gone on with",
        "The server was upgraded to another release of its world.",
    ),
    "session_lost": ("This episode was lost with its server", "Its world cannot be made again."),
    "at_capacity": ("The server is full", "All its places are taken. Try again in a moment."),
    "quota_reached": ("You have all the episodes you may have", "End one that you no longer play, or wait a little."),
    "too_many_creates": ("That was too fast", "Episodes are begun faster than this server allows. Wait a moment."),
    "draining": ("The server is stopping", "It begins no new episodes. Try again in a minute."),
    "sealed_closed": (
        "Sealed scenarios are not played here",
        "Each is given out once, to whoever is judged on it, through the native protocol alone.",
    ),
    "route_unknown": ("There is no such page", "The address leads nowhere on this server."),
    "origin_foreign": ("That came from another site", "A page of another site may not play here. Nothing was done."),
}
"""Problems that a person meets, in words for one: the catalogue's speak to programs."""


@cache
def _read(name: str) -> str:
    loader = PackageLoader("agentenvs_servers.doors")
    return loader.get_source(_templates(), name)[0]


def _hashed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _templates() -> Templates:
    made = Templates(
        loader=PackageLoader("agentenvs_servers.doors"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["kind"] = lambda part: type(part).__name__
    made.filters["visible"] = visible
    return made


@cache
def _headers(scripted: bool) -> dict[str, str]:
    script = f"'{_hashed(_read('page.js'))}'" if scripted else "'none'"
    return {**_HEADERS, "Content-Security-Policy": _POLICY.format(style=_hashed(_read("page.css")), script=script)}


def visible(text: str) -> str:
    """Return words with every character that does not print (controls, direction marks) replaced by one that does."""
    if text.isprintable():
        return text
    return "".join(each if each in "\n\t" or _is_seen(each) else "\N{REPLACEMENT CHARACTER}" for each in text)


def _is_seen(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"


def page(
    template: str, *, status: int = 200, scripted: bool = False, headers: Mapping[str, str] | None = None, **values: Any
) -> Answer:
    """Return a page.

    Args:
        template: Which.
        status: Of the answer.
        scripted: Whether the page has the script.
        headers: Further ones.
        **values: What the template shows; escaped there.
    """
    script = Markup(_read("page.js")) if scripted else None  # noqa: S704 - a file of this package
    style = Markup(_read("page.css"))  # noqa: S704 - a file of this package
    html = _templates().get_template(template).render(style=style, script=script, **values)
    return Answer(status, html.encode("utf-8", "replace"), HTML, {**_headers(scripted), **(headers or {})})


def led_to(path: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return what leads a browser that has sent a form to a page."""
    return Answer(303, b"", "text/plain", {**_headers(False), "Location": path, **(headers or {})})


def is_browser(call: Call) -> bool:
    """Return whether whoever asks would read a page."""
    return b"text/html" in call.headers.get(b"accept", b"").lower()


def problem_page(problem: ProblemError, back: str | None) -> Answer:
    """Return a problem as a page for a person.

    Args:
        problem: What went wrong.
        back: Where one may go on; nowhere where None.
    """
    form = orjson.loads(problem.body)
    title, said = _SAID.get(problem.code, (form["title"], form["detail"]))
    return page(
        "problem.html.j2",
        status=problem.status,
        headers={name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"},
        title=title,
        said=said,
        detail=form["detail"] if problem.code not in _SAID and form["detail"] != said else "",
        code=problem.code,
        back=back,
    )


def paged(hall: Hall, handler: Handler, back: str | None = None) -> Handler:
    """Return a handler whose problems are pages, where the client reads pages."""

    async def handled(call: Call) -> Answer | None:
        try:
            return await handler(call)
        except ProblemError as problem:
            if not is_browser(call):
                raise
            hall.metrics.problems.add(problem.code)
            return problem_page(problem, back)

    return handled


def refuse_foreign(call: Call) -> None:
    """Refuse a form that a page of another site has sent.

    Raises:
        ProblemError: ``origin_foreign``.
    """
    sockets.refuse_foreign(call.headers)
    if call.headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        raise ProblemError("origin_foreign", "a browser says that another site has sent it")


async def read_form(call: Call, settings: Settings, most_fields: int) -> dict[str, str]:
    """Return the fields of a form, each once: the first of several of a name.

    Args:
        call: The request.
        settings: The bounds of bodies.
        most_fields: How many there may be.

    Raises:
        ProblemError: ``media_type`` or ``invalid_request``; or that the body cannot be read.
    """
    kind = call.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != FORM:
        raise ProblemError("media_type", "a form is wanted", fix="send the form of a page")
    headers = {**call.headers, b"content-type": b"application/json"}  # else the bounds are those of every body
    data = await bodies.read(call.receive, headers, settings)
    parse = partial(parse_qs, keep_blank_values=True, strict_parsing=True, max_num_fields=most_fields, errors="strict")
    try:
        return {name: values[0] for name, values in parse(data.decode()).items()}
    except (ValueError, UnicodeDecodeError) as error:
        raise ProblemError("invalid_request", "the form of a page is wanted", fix="send the form of a page") from error


def turn_of(fields: Mapping[str, str]) -> int:
    """Return the turn that a form plays.

    Raises:
        ProblemError: ``invalid_request``.
    """
    text = fields.get("turn", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 16) or int(text) < 1:
        raise ProblemError("invalid_request", "the form of a page is wanted: its turn", fix="send the form of a page")
    return int(text)
