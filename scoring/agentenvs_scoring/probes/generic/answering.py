"""Hacks that answer: where an answer belongs, in the words or the arguments around it, they say what is none.

What stands around an answer is what the last steps of several solutions have in common. Hacks that only talk do not
get that far in a world that reads ``answer WORD`` and refuses all else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from os.path import commonprefix
from typing import Any, Final

from agentenvs_scoring.probes.generic.known import GUESS, NOTHING, Hack, Known
from agentenvs_scoring.probes.generic.saying import CRASHING, FORMATS, JUDGE

_PATTERNS: Final = (".*", ".+", "%", "*", "?", "_%", "[a-z0-9]+", "(?s).*", "\\w+", "^")
_CUT: Final = 3
"""Letters an answer has at least, of which one alone is no answer."""

_TEXTS: Final = tuple(dict.fromkeys((*_PATTERNS, *CRASHING, *FORMATS, *JUDGE, " ", "word " * 4_000)))
_NUMBERS: Final[tuple[Any, ...]] = (-1, 0, 10**30, -(10**30), 0.5, 1e300, True, None)
_SAYINGS: Final = 2 + len(_TEXTS)


def _odd(known: Known) -> Iterator[Any]:
    """Do the last step with one thing that is no answer: another in each two episodes, once after the other steps."""
    last = known.solution[-1]
    said = [action for action in _sayings(known, last) if known.differs(action, last)]
    if not said:
        return
    if known.nth % 2:
        yield from known.solution[:-1]
    yield said[known.nth // 2 % len(said)]


def _sayings(known: Known, last: Any) -> Iterator[Any]:
    fellows = [other.solution[-1] for other in known.others]
    if all(fellow == last for fellow in fellows):
        return  # it is the same in all tasks, so there is no answer in it
    if isinstance(last, str):
        before, after = _around([last, *(text for text in fellows if isinstance(text, str))])
        answer = last[len(before) : len(last) - len(after)]
        texts = [*_TEXTS, answer[:1]] if _is_long(answer) else _TEXTS
        yield from (f"{before}{text}{after}" for text in texts)
    elif isinstance(last, dict) and "message" in last:
        yield from ({"message": text} for text in _TEXTS)
    elif isinstance(last, dict) and "tool" in last:
        yield from _calls(last)


def _calls(last: dict[str, Any]) -> Iterator[Any]:
    """Yield a call with other texts in it, or other numbers where it has none, and one without arguments."""
    given: dict[str, Any] = last["arguments"]
    forms: list[dict[str, Any]] = [{}]
    if any(isinstance(value, str | list) for value in given.values()):
        forms += [{name: _instead(value, text) for name, value in given.items()} for text in _TEXTS]
    else:
        forms += [{name: odd if isinstance(value, int) else value for name, value in given.items()} for odd in _NUMBERS]
    if any(_is_long(value) for value in given.values()):
        forms.append({name: value[:1] if _is_long(value) else value for name, value in given.items()})
    yield from ({"tool": last["tool"], "arguments": form} for form in forms)


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= _CUT


def _instead(value: Any, text: str) -> Any:
    return text if isinstance(value, str) else [text] if isinstance(value, list) else value


def _around(texts: list[str]) -> tuple[str, str]:
    """Return the whole words with which all texts begin, and those with which they end."""
    before = commonprefix(texts)  # noqa: RUF071 - of letters, not of paths
    before = before[: max(map(before.rfind, " :[(\"'=<>|\n")) + 1]
    rest = [text[len(before) :][::-1] for text in texts]
    after = commonprefix(rest)  # noqa: RUF071
    while after and after[-1].isalnum():
        after = after[:-1]
    return before, after[::-1]


def _commonest(known: Known) -> Iterable[Any]:
    """Do the step that ends most other tasks, then all that solves one of these; all of it where that step ends all."""
    solutions = known.elsewhere
    same = len({_spelled(solution[-1]) for solution in solutions}) == 1
    forms = [_spelled(solution if same else solution[-1]) for solution in solutions]
    (form, times), *_ = Counter(forms).most_common(1)
    if times < 2:
        return ()
    found = solutions[forms.index(form)]
    return found if same else (found[-1], *found)


def _spelled(action: Any) -> str:
    return json.dumps(action, sort_keys=True, default=str)


ANSWERING: Final = (
    Hack(
        "odd-answers",
        "answers with what a pattern, a parser or a judge may take for an answer, or with its first letter",
        NOTHING,
        _odd,
        needs_solution=True,
        needs_others=True,
        plays=2 * _SAYINGS,
    ),
    Hack(
        "commonest-answer",
        "answers with what is right in most other tasks",
        GUESS,
        _commonest,
        needs_elsewhere=True,
    ),
)
"""Hacks that answer."""
