"""What a person, or an agent with a browser, sees of an episode: a page as data, without a word of HTML.

An environment describes the page that stands for its last observation (:meth:`Environment.webpage`); a server makes
HTML of it. Whatever can be done on the page is an action in text, so that an episode played by clicks and the same one
played by text have equal records. A page tells no more than observations do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec

MOST_LISTED = 200
"""Legal actions that a plain page lists."""


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph; ``level`` 2 or 3 makes it a heading."""

    text: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class Press:
    """A button that plays an action."""

    label: str
    action: str
    pressed: bool | None = None
    """Whether it is chosen, where it is one of several to choose from."""
    note: str = ""
    """What stands beside it."""
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A field to write in; the action is what is written, between ``before`` and ``after``."""

    label: str
    button: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Buttons that belong together, under a name."""

    name: str
    buttons: tuple[Press, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """One of a list of things: a button to open it, and what is told of it."""

    button: Press
    words: tuple[str, ...]


Part: TypeAlias = Words | Press | Entry | Group | Card


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page."""

    title: str
    parts: tuple[Part, ...] = field(default=())
    notice: str = ""
    """What went wrong in the last turn, in a sentence."""


def plain_page(spec: EnvSpec, observation: Observation, legal: Sequence[str] | None) -> WebPage:
    """Return the page of an environment that describes none: its words, the legal actions, and a field.

    Args:
        spec: What the environment says of itself.
        observation: The last one.
        legal: The legal text actions, where they can be told.
    """
    parts: list[Part] = [Words(text) for text in observation.text.split("\n") if text.strip()]
    if legal:
        parts.append(Group("Actions", tuple(Press(action, action) for action in legal[:MOST_LISTED])))
    if "text" in spec.accepts:
        parts.append(Entry("An action", "Do it"))
    return WebPage(spec.title, tuple(parts))
