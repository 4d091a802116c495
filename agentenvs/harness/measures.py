"""What the lines of a run say beside its rates: failures outside the worlds, difficulty, attempts, confidence.

Nothing is dropped: an episode whose environment or endpoint failed is a loss in every rate, and is counted here
beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentenvs.core.canon import JSON
from agentenvs.harness import statistics

CONFIDENCE = "confidence"
"""Name of the metric by which a policy reports, in [0, 1], how sure it is to have won."""


class Infrastructure(NamedTuple):
    """Episodes that ended by somebody's failure and not by play; all are counted as lost."""

    episodes: int
    environment: int
    """The environment failed."""
    service: int
    """A model endpoint or another service stayed away."""
    policy: int
    """The policy failed, or left."""
    won_at_most: float
    """The success rate if every episode that environment or service cost had been won."""

    @property
    def total(self) -> int:
        """Episodes that cannot be blamed on the policy."""
        return self.environment + self.service


def infrastructure(episodes: Sequence[dict[str, JSON]]) -> Infrastructure:
    """Count the failures of a run.

    Lines that do not say whose an error was: an aborted episode is the environment's, another the policy's.
    """
    counts = {"environment": 0, "service": 0, "policy": 0}
    for episode in episodes:
        blamed = "environment" if episode["ending"] == "aborted" else "policy"
        fault = episode.get("fault") or (blamed if episode["error"] is not None or blamed == "environment" else None)
        if fault is not None:
            counts[fault if fault in counts else "policy"] += 1
    won = sum(bool(episode["success"]) for episode in episodes)
    count = len(episodes)
    most = (won + counts["environment"] + counts["service"]) / count if count else 0.0
    return Infrastructure(count, counts["environment"], counts["service"], counts["policy"], most)


def attempts(episodes: Iterable[dict[str, JSON]]) -> list[tuple[int, int]]:
    """Return successes and attempts of each scenario, in order of first appearance."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for episode in episodes:
        address = (episode["split"], episode["index"])
        won, count = found.get(address, (0, 0))
        found[address] = (won + bool(episode["success"]), count + 1)
    return list(found.values())


def confidence(episodes: Iterable[dict[str, JSON]]) -> statistics.Calibration | None:
    """Return how well the confidence of a policy is calibrated; None where it reports none in [0, 1].

    Only episodes with a confidence can be judged; the result says how many they are.
    """
    said = [(episode["metrics"].get(CONFIDENCE), bool(episode["success"])) for episode in episodes]
    known = [(value, won) for value, won in said if type(value) in (int, float) and 0 <= value <= 1]
    if not known:
        return None
    return statistics.calibration([value for value, _ in known], [int(won) for _, won in known])
