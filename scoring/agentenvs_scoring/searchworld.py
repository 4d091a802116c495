"""What an answer in a search world is worth: 1 for exactly the right set, else 0; or F1 where that is asked for.

The outcome facts say what was answered, which articles were opened, and by which rule the answer is paid (``exact`` or
``f1``, with or without the gate on evidence); a question that asks for one thing, a count or the earlier of two, is
paid exactly in any case, since several guesses would earn a good share. Running into a limit or walking away earns
nothing. Whether an answer rests on anything stands in components that pay nothing: how much of the evidence was opened,
how much of what was opened was evidence, and whether what was answered had been seen at all. Facts of any form get a
verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from agentenvs.core.canon import JSON
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_scenarios.searchworld.answers import key, normalised
from agentenvs_scenarios.searchworld.model import Scenario

RULES: Final = ("exact", "f1")
MOST_PAID: Final = 10
"""By F1, a list that is longer, and more than twice as long as the right one, is worth nothing, whatever is in it."""
SINGLE: Final = frozenset(("attribute", "comparison", "count"))
"""Kinds of questions that ask for one thing: naming several pays nothing, by F1 neither."""


class _Match(NamedTuple):
    """How an answer compares with the right one."""

    given: int
    wanted: int
    right: int

    @property
    def exact(self) -> bool:
        """Whether the two sets are equal."""
        return self.given == self.wanted == self.right

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall of the set; too long a list is worth nothing."""
        if not self.given and not self.wanted:
            return 1.0
        if self.given > max(MOST_PAID, 2 * self.wanted) or not self.right:
            return 0.0
        return 2.0 * self.right / (self.given + self.wanted)


def judge(scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
    """Return the verdict on an outcome.

    Args:
        scenario: The scenario that was played.
        facts: ``turns``, ``answer`` (a list, or null where none was given), ``opened`` (ids of articles), ``seen`` (for
            each answer, whether it stood in what was shown), ``rule`` and ``gate``; see the module.
        ending: How the episode ended; only one that terminated can earn anything.
    """
    answer = facts.get("answer")
    answered = isinstance(answer, list | tuple) and ending == "terminated" and _positive(facts.get("turns"))
    match = _compared(scenario, normalised(answer))
    evidence, precision = _evidence(scenario, facts.get("opened"))
    exact = answered and match.exact
    by_share = facts.get("rule") == "f1" and not (scenario.question.kind in SINGLE and match.wanted == 1)
    earned = (match.f1 if answered else 0.0) if by_share else float(exact)
    held_back = facts.get("gate") is True and evidence < 1.0
    seen = _share(facts.get("seen"))
    components = {
        "answered": float(answered),
        "exact": float(exact),
        "f1": match.f1 if answered else 0.0,
        "evidence": evidence,
        "evidence_precision": precision,
        "seen": seen,
        "grounded": float(exact and evidence >= 1.0),
    }
    return Verdict(
        reward=0.0 if held_back else earned,
        success=exact and not held_back,
        components=components,
        reasons=tuple(_reasons(match, answered, evidence, held_back, ending)),
        facts=dict(facts),
    )


def _compared(scenario: Scenario, given: Sequence[str]) -> _Match:
    wanted = [{key(text) for text in spellings} for spellings in scenario.question.answers]
    said = [key(text) for text in given]
    right = sum(any(text in spellings for text in said) for spellings in wanted)
    return _Match(len(given), len(wanted), right)


def _evidence(scenario: Scenario, opened: JSON) -> tuple[float, float]:
    """Return how much of the evidence was opened, and how much of what was opened was evidence."""
    listed = opened if isinstance(opened, list | tuple) else ()
    known = {name for name in listed if isinstance(name, str)}
    wanted = set(scenario.question.supports)
    found = len(known & wanted)
    return (found / len(wanted) if wanted else 1.0), (found / len(known) if known else 0.0)


def _share(flags: JSON) -> float:
    listed = flags if isinstance(flags, list | tuple) else ()
    return sum(flag is True for flag in listed) / len(listed) if listed else 0.0


def _positive(value: JSON) -> bool:
    return type(value) is int and value > 0


def _reasons(match: _Match, answered: bool, evidence: float, held_back: bool, ending: Ending) -> list[str]:
    if not answered:
        return [f"no answer was given; the episode was {ending}"]
    said = f"{match.right} of {match.wanted} answers are right, {match.given - match.right} given are not among them"
    if not match.wanted:
        said = "nothing answers the question, and that was said" if match.exact else "nothing answers the question"
    told = [said, f"{evidence:.0%} of the evidence was opened"]
    return [*told, "without all of the evidence an answer earns nothing"] if held_back else told
