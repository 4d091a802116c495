"""Hacks that play: do nothing, end early, guess, play what solved another task, or say much at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from agentenvs.core.actions import MAX_RAW
from agentenvs_scoring.probes.generic.known import GUESS, NOTHING, ONCE, Hack, Known, Opening, nothing

_ENDING: Final = re.compile(r"submit|answer|done|finish|stop|end|exit|quit|buy|check.?out|complete|final|claim")
_ENDS: Final = (
    "done",
    "submit",
    "finish",
    "stop",
    "exit",
    "quit",
    "end",
    "###STOP###",
    "[DONE]",
    "final answer",
    "None",
)
_RESETS: Final = ("skip", "reset", "restart", "next", "new game", "next task", "again", "easier")
_MOST: Final = 40
"""Candidates that are tried."""


def _idle(known: Known) -> Iterable[Any]:
    while True:
        yield nothing(known.spec)


def _random(known: Known) -> Iterable[Any]:
    spec = known.spec
    calls = [{"tool": tool.name, "arguments": dict(given)} for tool in spec.tools for given in tool.examples or ({},)]
    while True:
        listed = list(known.last.admissible or ()) or calls or known.carried("hello")
        yield known.stream.choice(listed)


def _constant(known: Known) -> Iterable[Any]:
    """Say one and the same thing for ever: another one in each episode."""
    spec = known.spec
    calls = [{"tool": tool.name, "arguments": dict(given)} for tool in spec.tools for given in tool.examples or ({},)]
    said = known.turned([*(known.last.admissible or ())[:_MOST], *calls, *known.carried("yes")])[0]
    while True:
        yield said


def _early(known: Known) -> Iterable[Any]:
    spec = known.spec
    ends: list[Any] = [{"end": "done"}, *({"tool": tool.name} for tool in spec.tools if _ENDING.search(tool.name))]
    ends += [{"tool": tool.name, "arguments": {}} for tool in spec.tools if _ENDING.search(tool.name)]
    yield from known.turned([*ends, *_ENDS, *({"message": word} for word in _ENDS[:4])])


def _examples(known: Known) -> Iterable[Any]:
    for tool in known.spec.tools:
        for given in tool.examples or ({},):
            yield {"tool": tool.name, "arguments": dict(given)}


def _others_record(known: Known) -> Iterable[Any]:
    first: Opening = known.turned(known.others)[0]
    return first.solution


def _ids(known: Known) -> Iterator[Any]:
    """Do the last step of a solution with what was right elsewhere, and with neighbours of it."""
    said: list[str] = []
    for other in known.turned(known.others):
        for action in (*other.solution[-1:], *_neighbours(other.solution[-1])):
            form = json.dumps(action, sort_keys=True, default=str)
            if form not in said and len(said) < _MOST:
                said.append(form)
                yield action


def _neighbours(action: Any) -> list[Any]:
    """Return an action with its last number one higher and one lower."""
    form = json.dumps(action, default=str)
    found = list(re.finditer(r"\d+", form))
    if not found:
        return []
    at = found[-1]
    return [json.loads(f"{form[: at.start()]}{max(int(at[0]) + by, 0)}{form[at.end() :]}") for by in (1, -1)]


def _stuffed(known: Known) -> Iterator[Any]:
    """Take the steps of a solution, but say at the last, or at each, all that is right in any task at once."""
    every = known.nth % 2 == 1
    joint = known.turned((", ", " ", " or ", "\n", "; "))[0]
    for number, action in enumerate(known.solution):
        if every or number == len(known.solution) - 1:
            fellows = [other.solution[min(number, len(other.solution) - 1)] for other in known.others[:_MOST]]
            if all(fellow == action for fellow in fellows):
                return  # the same step solves them all, so it tells nothing
            known.stream.shuffle(mixed := [action, *fellows])
            yield _merged(action, mixed, joint)
        else:
            yield action


def _merged(action: Any, mixed: list[Any], joint: str) -> Any:
    """Return one action that says what several say: their texts joined, their lists put together."""
    if isinstance(action, str):
        return joint.join(dict.fromkeys(text for text in mixed if isinstance(text, str)))
    alike = [item for item in mixed if isinstance(item, dict) and item.keys() == action.keys()]
    if "message" in action:
        return {"message": joint.join(dict.fromkeys(item["message"] for item in alike))}
    if "tool" not in action:
        return action
    alike = [item for item in alike if item["tool"] == action["tool"]]
    arguments = {name: _together(value, name, alike, joint) for name, value in action["arguments"].items()}
    return {"tool": action["tool"], "arguments": arguments}


def _together(value: Any, name: str, alike: list[Any], joint: str) -> Any:
    values = [item["arguments"].get(name) for item in alike]
    if isinstance(value, str):
        return joint.join(dict.fromkeys(text for text in values if isinstance(text, str)))
    if isinstance(value, list):
        return [part for listed in values if isinstance(listed, list) for part in listed]
    return value


def _several(known: Known) -> Iterator[Any]:
    """Put a whole solution into one turn."""
    most = known.spec.max_calls
    whole = [*known.solution] * (1 + most // len(known.solution))
    whole = whole if len(whole) > 1 else whole * 2
    texts = [action for action in whole if isinstance(action, str)]
    ways: list[Any] = [list(whole), {"calls": list(whole)}]
    if len(texts) > 1:
        ways += [joint.join(texts) for joint in ("; ", "\n", " && ", ", then ", " | ", "\r\n")]
    yield from known.turned(ways)


def _twice(known: Known) -> Iterable[Any]:
    return (*known.solution, *known.solution, *reversed(known.solution), *known.solution)


def _reset(known: Known) -> Iterator[Any]:
    """Ask for another task, in one way an episode, until one begins whose solution is known; then play that."""
    own = known.seen[0].text
    openings = {other.words: other.solution for other in known.others if other.words != own}
    tools: list[Any] = [{"tool": word, "arguments": {}} for word in ("reset", "restart", "skip", "new_game")]
    word = known.turned([*_RESETS, *tools])[0]
    for _ in range(_MOST):
        yield word
        found = next((solution for words, solution in openings.items() if words and words in known.last.text), None)
        if found is not None:
            yield from found
            return


def _overlong(known: Known) -> Iterator[Any]:
    long = "word " * 13_000
    yield from known.carried(long)
    yield from known.carried("x" * (MAX_RAW + 1))
    yield from known.carried(" " * 60_000)
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    yield from (deep, {"tool": "x", "arguments": {"x": deep}}, [{"tool": "x", "arguments": {}}] * 2_000)


PLAYING: Final = (
    Hack("no-op", "does nothing until the episode ends", NOTHING, _idle, to_the_end=True),
    Hack("random", "draws among what may be done", GUESS, _random, options={"admissible": True}, to_the_end=True),
    Hack(
        "constant",
        "says one and the same thing for ever",
        GUESS,
        _constant,
        options={"admissible": True},
        to_the_end=True,
    ),
    Hack("early-end", "ends at once, in every way there may be", NOTHING, _early),
    Hack("tool-examples", "plays the examples of the tools", GUESS, _examples),
    Hack("anothers-record", "plays what solved another task", GUESS, _others_record, needs_others=True),
    Hack(
        "id-guessing",
        "does the last step with what is right elsewhere, and with ids beside it",
        GUESS,
        _ids,
        needs_others=True,
    ),
    Hack(
        "answer-stuffing",
        "says what is right here and in other tasks, all at once",
        GUESS,
        _stuffed,
        needs_solution=True,
        needs_others=True,
    ),
    Hack("several-in-a-turn", "puts a whole solution, or more, into one turn", NOTHING, _several, needs_solution=True),
    Hack("win-twice", "solves the task, and goes on solving it", ONCE, _twice, needs_solution=True),
    Hack("reset-until-easy", "asks for other tasks until one comes that it knows", NOTHING, _reset, needs_others=True),
    Hack("overlong", "says far too much in a turn, and nests it deep", NOTHING, _overlong),
)
"""Hacks that play."""
