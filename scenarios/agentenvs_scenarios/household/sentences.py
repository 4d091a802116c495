"""Task sentences: two templates a task type, as the field's goal library words them (ALFWorld, gen/goal_library.py).

Classes stand in lower case, without number; the article is "a" always. A sentence written by a person matches none.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from agentenvs_scenarios.household.model import TaskType

TEMPLATES: Final[dict[TaskType, tuple[str, str]]] = {
    "pick_and_place_simple": ("put a {thing} in {target}.", "put some {thing} on {target}."),
    "look_at_obj_in_light": ("look at {thing} under the {target}.", "examine the {thing} with the {target}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {thing} in {target}.",
        "clean some {thing} and put it in {target}.",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {thing} in {target}.", "heat some {thing} and put it in {target}."),
    "pick_cool_then_place_in_recep": ("put a cool {thing} in {target}.", "cool some {thing} and put it in {target}."),
    "pick_two_obj_and_place": ("put two {thing} in {target}.", "find two {thing} and put them in {target}."),
}


class Meaning(NamedTuple):
    """What a templated sentence asks."""

    task: TaskType
    thing: str
    target: str


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template).replace(r"\{thing\}", r"(?P<thing>\w+)").replace(r"\{target\}", r"(?P<target>\w+)")
    return re.compile(escaped, re.ASCII)


_PATTERNS: Final = tuple((task, _pattern(template)) for task, templates in TEMPLATES.items() for template in templates)


def write(task: TaskType, thing: str, target: str, variant: int = 0) -> str:
    """Return the sentence of a task; ``variant`` 0 or 1 chooses the template."""
    return TEMPLATES[task][variant].format(thing=thing, target=target)


def read(sentence: str) -> Meaning | None:
    """Return what a templated sentence asks, or None for one that follows no template."""
    for task, pattern in _PATTERNS:
        if match := pattern.fullmatch(sentence):
            return Meaning(task, match["thing"], match["target"])
    return None
