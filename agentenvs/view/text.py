"""Words of agents and worlds on a page: escaped, bounded, and with every character that does not print made visible.

A control character, a direction mark or a character without width becomes its code point in a box, so that a page shows
what a terminal or a browser would have acted on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from agentenvs.core.canon import JSON

MOST = 20_000
"""Characters of one text on a page; the files have the whole."""

_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
_NAMES: Mapping[str, str] = {
    "\x00": "NUL", "\x07": "BEL", "\x08": "BS", "\r": "CR", "\x1b": "ESC", "\x7f": "DEL",
    "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO",
    "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\u200b": "ZWSP",
    "\u200c": "ZWNJ", "\u200d": "ZWJ", "\ufeff": "BOM",
}  # fmt: skip


def marked(text: object) -> Markup:
    """Return text as HTML: escaped, bounded, unseen characters as marks."""
    said = text if isinstance(text, str) else str(text)
    cut = len(said) - MOST
    if cut > 0:
        said = said[:MOST]
    said = said.replace("\r\n", "\n")
    parts: list[str] = []
    last = 0
    for found in _UNSEEN.finditer(said):
        parts += [escape(said[last : found.start()]), _mark(found.group())]
        last = found.end()
    parts.append(escape(said[last:]))
    if cut > 0:
        parts.append(f'<span class="cut"> [… {cut:,} characters more, in the files of the run]</span>')
    return Markup("".join(parts))  # noqa: S704 - every part was escaped above


def _mark(char: str) -> str:
    code = f"U+{ord(char):04X}"
    return f'<span class="unseen" title="{code}">{_NAMES.get(char, code)}</span>'


def plain(text: object) -> str:
    """Return text for where no markup goes (titles, attributes): unseen characters as their code points."""
    return _UNSEEN.sub(lambda found: f"[{_NAMES.get(found.group(), f'U+{ord(found.group()):04X}')}]", str(text))


def line(text: object, most: int = 160) -> str:
    """Return the beginning of a text on one line."""
    said = " ".join(str(text)[: 4 * most].split())
    return said if len(said) <= most else said[: most - 1] + "…"


def spelled(value: JSON) -> str:
    """Return a JSON value as people read it: text as it is, everything else indented."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def brief(value: JSON) -> str:
    """Return a JSON value on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def as_data(text: str) -> str:
    """Return text indented where it is a JSON object or list, else as it is."""
    head = text.lstrip()[:1]
    if head not in ("{", "[") or len(text) > MOST:
        return text
    try:
        return spelled(json.loads(text))
    except (ValueError, RecursionError):
        return text


def number(value: Any) -> str:
    """Spell a number: whole ones with separators, others with at most four digits behind the point."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "-"
    if value == int(value) if abs(value) < 1e15 else False:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"
