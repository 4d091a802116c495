"""From episode summaries to the numbers of a run: rates with intervals, per task type, against par."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType

from agentenvs.core.canon import JSON, digest
from agentenvs.core.portable import total
from agentenvs.harness import statistics
from agentenvs.harness.rollout import EpisodeSummary
from agentenvs_scoring.stats import smallest_difference


def summarize(episodes: Sequence[EpisodeSummary]) -> dict[str, JSON]:
    """Return the summary of a run; every started episode counts.

    Intervals are Wilson's at 95 %; where a scenario was played more than once, scenarios are what was sampled. Steps
    against par are sums of turns over sums of par, of won episodes and of all,
    where par is known.
    """
    kinds = sorted({episode.kind for episode in episodes if episode.kind is not None})
    return {
        **_row(episodes),
        "endings": dict(sorted(Counter(episode.ending for episode in episodes).items())),
        "stopped": sum(episode.stopped is not None for episode in episodes),
        "undone": sum(episode.undone for episode in episodes),
        "errors": sum(episode.error is not None for episode in episodes),
        "infrastructure": sum(map(infrastructure, episodes)),
        "usage": _usage(episodes),
        "metrics": _means(episode.metrics for episode in episodes),
        "kinds": {kind: _row([episode for episode in episodes if episode.kind == kind]) for kind in kinds},
    }


_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("number", "index", "turns", "invalid", "undone", "attempt"), (int,)),
    **dict.fromkeys(("split", "scenario", "record", "ending"), (str,)),
    **dict.fromkeys(("stopped", "error", "fault", "scenario_digest"), (str, NoneType)),
    **dict.fromkeys(("reward", "episode_return"), (int, float)),
    **dict.fromkeys(("usage", "metrics"), (dict,)),
    "success": (bool,),
    **dict.fromkeys(("kind", "difficulty"), (str, int, float, bool, NoneType)),
    "par": (int, float, NoneType),
}


def summary_of(line: Mapping[str, JSON]) -> EpisodeSummary:
    """Read a line of a table of episodes.

    Raises:
        ValueError: It is none; the message names the field.
    """
    try:
        found = EpisodeSummary(**line)
    except TypeError as error:
        raise ValueError(str(error)) from error
    for name, kinds in _KINDS.items():
        if type(getattr(found, name)) not in kinds:
            raise ValueError(f"{name} is {getattr(found, name)!r:.60}")
    if any(type(count) not in (int, float, NoneType) for count in found.usage.values()):
        raise ValueError(f"usage is {found.usage!r:.60}")
    return found


def infrastructure(episode: EpisodeSummary) -> bool:
    """Return whether an episode failed by what it was played with: its world, its server, the model's endpoint."""
    if episode.error is not None and episode.fault is None:  # of a run from before faults were noted
        return episode.ending == "aborted"
    return episode.fault in ("environment", "service")


def _row(episodes: Sequence[EpisodeSummary]) -> dict[str, JSON]:
    count = len(episodes)
    won = [episode for episode in episodes if episode.success]
    rate = len(won) / count if count else 0.0
    attempts = _attempts(episodes)
    (low, high), method = statistics.success_interval(attempts, digest([list(one) for one in attempts]).encode())
    turns = sum(episode.turns for episode in episodes)
    return {
        "episodes": count,
        "scenarios": len(attempts),
        "successes": len(won),
        "success_rate": rate,
        "success_low": low,
        "success_high": high,
        "interval": f"{method}, 95 %",
        "smallest_difference": smallest_difference(rate, len(attempts)),
        "mean_return": total(episode.reward for episode in episodes) / count if count else 0.0,
        "mean_shaped_return": total(episode.episode_return for episode in episodes) / count if count else 0.0,
        "mean_turns": turns / count if count else 0.0,
        "mean_turns_won": sum(episode.turns for episode in won) / len(won) if won else None,
        "turns_over_par": _over_par(won),
        "turns_over_par_all": _over_par(episodes),
        "invalid_rate": sum(episode.invalid for episode in episodes) / turns if turns else 0.0,
    }


def _attempts(episodes: Iterable[EpisodeSummary]) -> list[tuple[int, int]]:
    """Return successes and attempts of each scenario, whatever order episodes came in."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for episode in episodes:
        won, times = found.get((episode.split, episode.index), (0, 0))
        found[episode.split, episode.index] = (won + episode.success, times + 1)
    return [found[address] for address in sorted(found)]


def _over_par(episodes: Iterable[EpisodeSummary]) -> float | None:
    known = [(episode.turns, episode.par) for episode in episodes if episode.par]
    return sum(turns for turns, _ in known) / sum(par for _, par in known) if known else None


def _usage(episodes: Iterable[EpisodeSummary]) -> dict[str, int | None]:
    """Return the sums of what policies counted; None where an episode could not tell."""
    totals: dict[str, int | None] = {}
    for episode in episodes:
        for name, value in episode.usage.items():
            total = totals.get(name, 0)
            totals[name] = None if value is None or total is None else total + value
    return dict(sorted(totals.items()))


def _means(metrics: Iterable[dict[str, JSON]]) -> dict[str, float]:
    """Return the mean of each numeric metric over the episodes that have it."""
    values: dict[str, list[float]] = {}
    for item in metrics:
        for name, value in item.items():
            if isinstance(value, int | float):
                values.setdefault(name, []).append(float(value))
    return {name: sum(found) / len(found) for name, found in sorted(values.items())}
