"""The nouns of a search world and what is asked in it: frozen data that goes to JSON and back.

A :class:`Scenario` names a library (a universe or a loaded corpus) by its digest and holds one question about it. The
library itself is too large to stand in every record; its digest covers every article, every fact and the index. What
the answer is, how it is reached and where it stands is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import DataError
from agentenvs.core.task import SECRET

MOST_SPELLINGS: Final = 200
"""More answers, or spellings of one, than this is no question."""
LONGEST: Final = 4_000
"""Characters a question may have."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and all that is known of it."""

    sentence: str
    """What a player reads."""
    kind: str = field(metadata=SECRET)
    hops: int = field(metadata=SECRET)
    """Articles that must be opened, at least; 0 where it is not known."""
    answers: tuple[tuple[str, ...], ...] = field(metadata=SECRET)
    """The answers, each with all its accepted spellings, the usual one first; none where nothing answers it."""
    supports: tuple[str, ...] = field(default=(), metadata=SECRET)
    """Ids of the articles the answer rests on."""
    program: JSON = field(default=None, metadata=SECRET)
    """What is asked, as :mod:`agentenvs_scenarios.searchworld.programs` has it; null where it is not known."""
    twin: str = field(default="", metadata=SECRET)
    """The question that differs in its last relation alone, and is answerable where this one is not."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "sentence": self.sentence,
            "kind": self.kind,
            "hops": self.hops,
            "answers": [list(spellings) for spellings in self.answers],
            "supports": list(self.supports),
            "program": _listed(self.program),
            "twin": self.twin,
        }


@dataclass(frozen=True, slots=True)
class Scenario:
    """One task: a library and a question about it."""

    name: str = field(metadata=SECRET)
    """A readable name."""
    library: str = field(metadata=SECRET)
    """Digest of the articles, the facts and the index."""
    question: Question
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of everything in the scenario, as 64 hexadecimal digits."""
        if not self._digest:
            self._digest.append(digest(self.to_json()))
        return self._digest[0]

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form, from which :meth:`from_json` makes an equal scenario."""
        return {"name": self.name, "library": self.library, "question": self.question.to_json()}

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Scenario:
        """Read back what :meth:`to_json` wrote.

        Raises:
            DataError: A field is missing or makes no sense.
        """
        try:
            asked = form["question"]
            question = Question(
                sentence=asked["sentence"],
                kind=asked["kind"],
                hops=asked["hops"],
                answers=tuple(tuple(spellings) for spellings in asked["answers"]),
                supports=tuple(asked["supports"]),
                program=_tupled(asked["program"]),
                twin=asked["twin"],
            )
            made = cls(form["name"], form["library"], question)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                "this is no search scenario",
                why=f"{type(error).__name__}: {error}",
                fix="use the JSON that Scenario.to_json() writes",
            ) from error
        check(made)
        return made


def check(scenario: Scenario) -> None:
    """Check that a scenario makes sense.

    Raises:
        DataError: It does not; says where.
    """
    asked = scenario.question
    texts = (scenario.name, scenario.library, asked.sentence, asked.kind, asked.twin, *asked.supports)
    _require(all(isinstance(text, str) for text in texts), scenario, "a text is none")
    _require(0 < len(asked.sentence) <= LONGEST, scenario, "the question is empty or too long")
    _require(type(asked.hops) is int and asked.hops >= 0, scenario, "the number of hops is none")
    _require(len(asked.answers) <= MOST_SPELLINGS, scenario, "it has too many answers")
    for spellings in asked.answers:
        sound = 0 < len(spellings) <= MOST_SPELLINGS and all(map(_is_text, spellings))
        _require(sound, scenario, "an answer has no spelling, or one that is no text")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _require(holds: bool, scenario: Scenario, why: str) -> None:
    if not holds:
        raise DataError(
            f"the search scenario {scenario.name!r} makes no sense",
            why=why,
            fix="mend the file it came from, or leave it out",
        )


def _listed(value: Any) -> JSON:
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _tupled(value: JSON) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list | tuple) else value
