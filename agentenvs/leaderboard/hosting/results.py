"""What came of a ticket, as its host found it by playing every record again: the row of a board, without a secret.

Numbers are whole or fractions: a reward is the fraction that its floating-point number is, to the last bit, so that
whoever adds up gets the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Literal

from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.leaderboard.hosting.panels import OWN, SHARED, Panel

ENDINGS = ("terminated", "truncated", "abandoned", "aborted")


@dataclass(frozen=True, slots=True)
class HostedEpisode:
    """One scenario of a ticket."""

    place: int
    """Of its scenario in its panel; the same scenario has the same place in the shared panel of every contestant."""
    panel: Panel
    ending: Literal["terminated", "truncated", "abandoned", "aborted"] | None
    """None where it was never opened: it counts 0."""
    turns: int
    success: bool
    """As counted: never for one that was abandoned or aborted."""
    reward: float
    """As counted."""
    record: str | None
    """Digest of its whole record; None where there is none."""


@dataclass(frozen=True, slots=True)
class HostedResult:
    """What came of a ticket."""

    ticket: str
    """Its public name."""
    board: str
    contestant: str
    agent: str
    """What played, as the contestant says."""
    attempt: int
    """Which ticket of this contestant for the same scenarios, from 1."""
    env: str
    release: str
    spec: str
    """Digest of the environment's spec."""
    version: str
    """Of agentenvs, which played the records again."""
    options: Mapping[str, JSON]
    split: str
    secret: str
    """Name of the operator's secret, which tells nothing of it."""
    commitment: str
    """What was published of the secret before anybody played."""
    episodes: tuple[HostedEpisode, ...]
    """In the order in which they were given out, those that were never opened too."""

    @property
    def successes(self) -> int:
        """Scenarios that were won."""
        return sum(one.success for one in self.episodes)

    @property
    def reward(self) -> Fraction:
        """Sum of the rewards, exact."""
        return sum((Fraction(one.reward) for one in self.episodes), Fraction(0))

    @property
    def unopened(self) -> int:
        """Scenarios that were never opened."""
        return sum(one.ending is None for one in self.episodes)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form; rewards as fractions."""
        form = {**asdict(self), "options": dict(self.options)}
        form["episodes"] = [{**one, "reward": str(Fraction(one["reward"]))} for one in form["episodes"]]
        return form

    @classmethod
    def from_json(cls, form: Any) -> HostedResult:
        """Read what :meth:`to_json` wrote.

        Raises:
            DataError: It is none.
        """
        try:
            return _read(form)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as error:
            raise DataError("what came of a ticket is told in no form that is known", why=str(error)[:200]) from error


def _read(form: Any) -> HostedResult:
    names = {field.name for field in fields(HostedResult)}
    if set(form) != names:
        raise ValueError(f"fields {sorted(set(form) ^ names)}")
    texts = names - {"attempt", "options", "episodes"}
    if not all(isinstance(form[name], str) and 0 < len(form[name]) <= 200 for name in texts):
        raise ValueError("a name is missing or too long")
    if type(form["attempt"]) is not int or form["attempt"] < 1 or not isinstance(form["options"], dict):
        raise ValueError("attempt or options")
    return HostedResult(**{**form, "episodes": tuple(_episode(one) for one in form["episodes"])})


def _episode(form: Any) -> HostedEpisode:
    names = {field.name for field in fields(HostedEpisode)}
    if set(form) != names:
        raise ValueError(f"fields {sorted(set(form) ^ names)} of an episode")
    place, turns, success, ending = (form[name] for name in ("place", "turns", "success", "ending"))
    if type(place) is not int or type(turns) is not int or min(place, turns) < 0 or type(success) is not bool:
        raise ValueError("place, turns or success of an episode")
    if form["panel"] not in (SHARED, OWN) or ending not in (None, *ENDINGS):
        raise ValueError("panel or ending of an episode")
    exact = Fraction(form["reward"])
    if Fraction(float(exact)) != exact:
        raise ValueError("a reward is no floating-point number")
    record = form["record"]
    if record is not None and (not isinstance(record, str) or len(record) != 64):
        raise ValueError("record of an episode")
    if ending in (None, "abandoned", "aborted") and (success or exact > 0):
        raise ValueError("an episode that was not played to its end is worth something")
    return HostedEpisode(place, form["panel"], ending, turns, success, float(exact), record)
