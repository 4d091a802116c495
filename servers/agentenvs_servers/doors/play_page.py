"""The page of an episode: what is seen, what can be done, and what has been done, twenty turns at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from agentenvs.core.canon import JSON
from agentenvs.core.observation import Observation
from agentenvs.core.webpage import MOST_LISTED
from agentenvs_servers.doors import pages, play_actions, play_shown, play_story
from agentenvs_servers.doors.play_actions import Draft, Tool
from agentenvs_servers.doors.play_choosing import OPTION, new_key, number_of
from agentenvs_servers.doors.play_shown import Shown
from agentenvs_servers.doors.play_story import Story
from agentenvs_servers.doors.routing import Call
from agentenvs_servers.handlers import Answer

TURNS = 20
"""Turns on a page."""

MOST_HISTORY = 100
"""Texts that the arrow key brings back."""

_MOST_ASKED = 200
"""Fields of an address."""

_FEW_TOOLS = 3
"""Tools whose forms stand open."""

_SAID = {
    "closed": "That page was older than the episode: nothing was played.",
    "diverged": "The world did not go the same way again; it stands where it parted.",
    "environment_failed": "The world failed in that turn. The episode counts as aborted.",
    "episode_conflict": "That page was of an earlier episode: nothing was played.",
    "episode_ended": "The episode has ended: nothing was played.",
    "expired": "That page was older than the episode: nothing was played.",
    "not_forkable": "No turn can be taken back here: this world need not go the same way twice.",
    "split_exhausted": "That was the last scenario of its split.",
    "turn_ahead": "That page is not of this episode: nothing was played.",
    "turn_conflict": "That page was a turn old: what it sent was not played.",
    "turn_past": "That page was older than the episode: nothing was played.",
    "key_conflict": "That page was sent before: nothing was done twice.",
}
"""What a page says when a form has led back to it."""

_ENDINGS = {
    "terminated": "The world came to its end.",
    "truncated": "A limit was reached.",
    "abandoned": "It was given up.",
    "aborted": "The world failed.",
}


class Past(NamedTuple):
    """A turn that was played."""

    number: int
    said: str
    """What was done, in a line."""
    speaker: str
    """Who answered."""
    valid: bool
    reward: float
    blocks: list[Shown] | None
    """What was seen, the beginning of it where that is long; None where it is not known any more."""
    short: str
    """What was seen, in a line."""
    cut: bool
    """Whether there was more to see."""


class View(NamedTuple):
    """What of an episode a page shows."""

    at: int
    """The turn that is shown whole."""
    turns: range
    """Those that are listed, the last first."""
    said: str
    """Why a form has led back to it, as a code."""


def query(call: Call) -> dict[str, str]:
    """Return what stands behind the question mark of an address; nothing where that makes no sense."""
    text = call.scope.get("query_string", b"").decode("latin-1")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_ASKED, errors="replace"))
    except ValueError:
        return {}


def view_of(story: Story, asked: Mapping[str, str]) -> View:
    """Return what of an episode an address asks to see."""
    upto, at = number_of(asked.get("upto", "")), number_of(asked.get("at", ""))
    last = story.turn if upto is None else min(upto, story.turn)
    turns = range(last, max(last - TURNS, -1), -1)
    return View(story.turn if at is None else min(at, story.turn), turns, asked.get("said", ""))


def page(
    story: Story,
    draft: Draft,
    seen: Mapping[int, Observation],
    view: View,
    *,
    path: str,
    home: str,
) -> Answer:
    """Return the page.

    Args:
        story: The episode.
        draft: What stands in its forms.
        seen: What was seen, by turn.
        view: What of it is shown.
        path: Its address.
        home: That of the playground.
    """
    spec, now, turns = story.world.spec, seen.get(view.at), view.turns
    last = story.turns[view.at - 1] if view.at else None
    tools = play_actions.tools_of(spec)
    used = draft.tool or _tool_of(story.turns[-1] if story.turns else None)
    verdict = story.verdict or {}
    values: dict[str, Any] = {
        "story": story,
        "spec": spec,
        "draft": draft,
        "calls": [play_story.spoken(call) for call in draft.calls],
        "focus": _focus(story, draft, tools, used),
        "path": path,
        "home": home,
        "key": new_key(),
        "notice": _SAID.get(view.said, ""),
        "at": view.at,
        "blocks": None if now is None else play_shown.shown(now),
        "speaker": "The world" if last is None else play_story.speaker_of(last["action"]),
        "last": None if last is None else play_story.spoken(last["action"]),
        "valid": last is None or last["valid"],
        "budgets": {} if now is None else now.budgets,
        "legal": (story.legal or ())[:MOST_LISTED],
        "legal_left": max(len(story.legal or ()) - MOST_LISTED, 0),
        "tools": tools,
        "opened": {tool.spec.name for tool in tools if len(tools) <= _FEW_TOOLS or tool.spec.name == used},
        "history": _history(story),
        "turns": [_past(story, turn, seen.get(turn)) for turn in turns],
        "older": turns[-1] - 1 if turns and turns[-1] > 0 else None,
        "newer": min(turns[0] + TURNS, story.turn) if turns and turns[0] < story.turn else None,
        "verdict": verdict,
        "ending": _ENDINGS.get(story.ending or "", ""),
        "facts": json.dumps(verdict.get("facts") or {}, ensure_ascii=False, indent=2, sort_keys=True),
        "again": _again(story, home),
        "has_next": _has_next(story),
    }
    return pages.page("play_episode.html.j2", status=422 if draft.wrong else 200, scripted=True, **values)


def _past(story: Story, turn: int, observation: Observation | None) -> Past:
    blocks = None if observation is None else play_shown.shown(observation)
    short = "" if observation is None else play_shown.short(observation.text)
    cut = False
    if blocks is not None:
        blocks, cut = play_shown.beginning(blocks)
    if turn == 0:
        return Past(0, "The beginning", "The world", True, 0.0, blocks, short, cut)
    line = story.turns[turn - 1]
    action = line["action"]
    who = play_story.speaker_of(action)
    return Past(turn, play_story.spoken(action), who, line["valid"], line["reward"], blocks, short, cut)


def _history(story: Story) -> str:
    """Return the texts that were played, for the arrow key."""
    texts = [line["action"] for line in story.turns[-MOST_HISTORY:] if isinstance(line["action"], str)]
    return json.dumps(texts, ensure_ascii=False)


def _focus(story: Story, draft: Draft, tools: Sequence[Tool], used: str) -> str:
    """Return the field that is written in next: the one with a slip, else the first of what one does most."""
    if draft.sheet.slips:
        return f"t-{draft.tool}-{next(iter(draft.sheet.slips))}"
    accepts = story.world.spec.accepts
    if "text" in accepts and not draft.tool:
        return "text"
    if "message" in accepts and not draft.tool:
        return "message"
    for tool in sorted(tools, key=lambda tool: tool.spec.name != used):
        if tool.fields:
            return f"t-{tool.spec.name}-{tool.fields[0].name}"
    return ""


def _tool_of(line: Mapping[str, JSON] | None) -> str:
    action = None if line is None else line["action"]
    return str(action["tool"]) if isinstance(action, Mapping) and "tool" in action else ""


def _again(story: Story, home: str) -> str:
    """Return the address at which the same scenario with the same options can be chosen."""
    ref, options = story.task["ref"], story.task["options"]
    fields = {"split": ref["split"], "index": ref["index"]}
    written: Sequence[tuple[str, str]] = [
        (OPTION + name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value))
        for name, value in options.items()
        if value is not None
    ]
    return f"{home}/worlds/{story.world.spec.slug}?{urlencode([*fields.items(), *written])}"


def _has_next(story: Story) -> bool:
    ref = story.task["ref"]
    split = story.world.splits.get(ref["split"])
    return split is not None and (split.size is None or ref["index"] + 1 < split.size)
