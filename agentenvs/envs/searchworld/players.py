"""Yardsticks: who plays the search worlds so that a model's score means something.

``oracle`` sees the scenario, opens every article its answer rests on, and answers. The others see what every player
sees: ``expert`` searches its way along the question (:mod:`agentenvs.envs.searchworld.expert`); ``one_query`` and
``two_query`` search for the question as it stands (and for what came up), and answer with what they find first;
``frequent`` answers what it reads most often; ``random`` searches for words it has seen and answers one of the titles;
``noop`` searches for nothing in particular for ever, and earns exactly 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from agentenvs.core.anchors import Idle
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import Task
from agentenvs.envs.searchworld import shortcuts
from agentenvs.envs.searchworld.expert import Expert
from agentenvs_scenarios.searchworld.answers import holds
from agentenvs_scenarios.searchworld.model import Scenario
from agentenvs_scenarios.searchworld.vocabulary import known_words

_LISTED: Final = re.compile(r"^\d+\. \[(\w+)\] (.*?): (.*)$", re.MULTILINE)
_WHOLE: Final = re.compile(r"Doc \d+\(Title: (.*?)\) (.*)")
_NAMES: Final = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


class Oracle(Privileged):
    """Opens every article the answer rests on, then answers."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Do nothing."""

    def reveal(self, scenario: Scenario) -> None:
        """Write the plan."""
        asked = scenario.question
        plan = [_call("read", article=name) for name in asked.supports]
        self._plan: Iterator[Any] = iter([*plan, _call("answer", answers=[texts[0] for texts in asked.answers])])

    def act(self, observation: Observation) -> Any:
        """Return the next action of the plan."""
        return next(self._plan, _call("search", query="nothing"))


class Scripted:
    """Plays a script: a generator that yields actions and is sent what came of them.

    Args:
        script: Makes the generator from the question and a stream of the task's own.
    """

    def __init__(self, script: Callable[[str, Stream], Iterator[Any]]) -> None:
        self._script = script

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Begin the script."""
        stream = Stream(scenario_key(spec.slug, task.ref.split, task.ref.index), "player")
        self._seen = ""
        self._running = self._script(task.instruction, stream)
        self._begun = False

    def act(self, observation: Observation) -> Any:
        """Return the next action."""
        running: Any = self._running
        try:
            if self._begun:
                return running.send(observation.text)
            self._begun = True
            return next(running)
        except StopIteration:
            return _call("search", query="nothing")


def _one(sentence: str, _: Stream) -> Iterator[Any]:
    seen: Any = yield f"<search>{_short(sentence)}</search>"
    yield _call("answer", answers=shortcuts.guess(sentence, _WHOLE.findall(seen)))


def _two(sentence: str, _: Stream) -> Iterator[Any]:
    first: Any = yield f"<search>{_short(sentence)}</search>"
    articles = _WHOLE.findall(first)
    wanted = shortcuts.second_query((title for title, _ in articles), sentence) or _short(sentence)
    second: Any = yield f"<search>{wanted}</search>"
    yield _call("answer", answers=shortcuts.guess(sentence, _WHOLE.findall(second)))


def _frequent(sentence: str, _: Stream) -> Iterator[Any]:
    if sentence.startswith("How many"):
        yield _call("answer", answers=[shortcuts.USUAL_COUNT])
        return
    seen: Any = yield _call("search", query=_short(sentence), k=10)
    told = " . ".join(f"{title} . {text}" for _, title, text in _LISTED.findall(seen))
    words = known_words()  # a sentence's first word is no name
    names = Counter(name for name in _NAMES.findall(told) if name.lower() not in words and not holds(sentence, name))
    best = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    yield _call("answer", answers=[name for name, _ in best[:1]])


def _random(sentence: str, stream: Stream) -> Iterator[Any]:
    words, titles = sentence.rstrip("?").split(), [""]
    for _ in range(stream.between(2, 6)):
        seen: Any = yield _call("search", query=" ".join(stream.sample(words, min(3, len(words)))))
        listed = _LISTED.findall(seen)
        titles += [title for _, title, _ in listed]
        if listed and stream.chance(1, 2):
            read: Any = yield _call("read", article=stream.choice(listed)[0])
            words += read.split()
    yield _call("answer", answers=[stream.choice(titles)])


def _short(sentence: str) -> str:
    return sentence.replace("<", " ").replace(">", " ")


def oracle() -> Policy:
    """Return a player that sees the scenario, reads the evidence and answers."""
    return Oracle()


def expert() -> Policy:
    """Return the player that understands the question, searches its way along it and reads."""
    return Expert()


def one_query() -> Policy:
    """Return the player that searches for the question once."""
    return Scripted(_one)


def two_query() -> Policy:
    """Return the player that searches for the question, and for what came up."""
    return Scripted(_two)


def frequent() -> Policy:
    """Return the player that answers what it reads most often."""
    return Scripted(_frequent)


def random() -> Policy:
    """Return the player that searches at random and answers one of the titles."""
    return Scripted(_random)


def noop() -> Policy:
    """Return the player that does nothing."""
    return Idle(_call("search", query="nothing"))
