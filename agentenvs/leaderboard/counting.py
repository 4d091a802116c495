"""From verified episodes to the line of a board: rates with intervals, by family, and what each ended by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.canon import JSON
from agentenvs.core.portable import total
from agentenvs.harness import statistics
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.copies import prints
from agentenvs.leaderboard.verifying import Played
from agentenvs_scoring.stats import Interval, smallest_difference, wilson


@dataclass(frozen=True, slots=True)
class Counted:
    """What is kept of the episodes of an entry."""

    columns: Mapping[str, Any]
    """Of the table of entries."""
    detail: dict[str, JSON]
    wins: bytes
    actions: bytes
    moves: bytes
    records: bytes


def count(episodes: Sequence[Played], board: Board, key: bytes) -> Counted:
    """Count an entry's episodes.

    Args:
        episodes: All of them; every one counts.
        board: The board.
        key: Seed of intervals that are drawn.
    """
    wins = bytearray(board.scenarios)
    tries = [0] * board.scenarios
    for one in episodes:
        tries[one.place] += 1
        wins[one.place] += one.success
    attempts = list(zip(wins, tries, strict=True))
    interval, method = _interval(attempts, board, key)
    number = len(episodes)
    won = sum(one.success for one in episodes)
    turns = sum(one.turns for one in episodes)
    columns = {
        "episodes": number,
        "successes": won,
        "rate": won / number,
        "low": interval.low,
        "high": interval.high,
        "reward": total(one.reward for one in episodes) / number,
        "turns": turns / number,
        "failed": sum(one.failed for one in episodes),
    }
    detail: dict[str, JSON] = {
        "interval": method,
        "endings": dict(sorted(Counter(one.ending for one in episodes).items())),
        "invalid_rate": sum(one.invalid for one in episodes) / turns if turns else 0.0,
        "families": _groups(episodes, lambda one: one.kind),
        "difficulties": _groups(episodes, lambda one: one.difficulty),
        "smallest": smallest_difference(won / number, number),
        "passes": _passes(attempts, board, key),
        "before": _before(episodes),
    }
    actions, moves, records = (prints(episodes, name) for name in ("actions", "moves", "record"))
    return Counted(columns, detail, bytes(wins), actions, moves, records)


def _interval(attempts: Sequence[tuple[int, int]], board: Board, key: bytes) -> tuple[Interval, str]:
    if board.trials == 1:
        return wilson(sum(won for won, _ in attempts), len(attempts)), "Wilson"
    found = statistics.rate_interval([won / tried for won, tried in attempts], key, purpose="board")
    return found.interval, f"{found.method}, by scenario"


def _groups(episodes: Sequence[Played], label: Callable[[Played], str | None]) -> list[JSON]:
    found: dict[str, list[Played]] = {}
    for one in episodes:
        if (name := label(one)) is not None:
            found.setdefault(name, []).append(one)
    rows = []
    for name in sorted(found, key=_ladder):
        mine = found[name]
        won = sum(one.success for one in mine)
        low, high = wilson(won, len(mine))
        mean = sum(one.turns for one in mine) / len(mine)
        rows.append({"name": name, "episodes": len(mine), "won": won, "low": low, "high": high, "turns": mean})
    return rows


def _ladder(name: str) -> tuple[int, str]:
    """Sort the rungs of a ladder of difficulty as they climb, and all else by name."""
    rungs = ("easiest", "easy", "medium", "hard", "hardest")
    return (rungs.index(name), "") if name in rungs else (len(rungs), name)


def _passes(attempts: Sequence[tuple[int, int]], board: Board, key: bytes) -> list[JSON]:
    if board.trials == 1:
        return []
    return [
        {"k": row.k, "all": row.all, "low": row.all_interval.low, "high": row.all_interval.high, "at": row.at}
        for row in statistics.repeated(attempts, key)
    ]


def _before(episodes: Sequence[Played]) -> JSON:
    """Return what the episodes were worth under the scoring they were played with, where that is another."""
    if not any(one.scored for one in episodes):
        return None
    won = sum((one.scored or (one.success, 0.0))[0] for one in episodes)
    reward = total((one.scored or (False, one.reward))[1] for one in episodes)
    moved = sum(one.scored is not None and one.scored[0] != one.success for one in episodes)
    return {"successes": won, "rate": won / len(episodes), "reward": reward / len(episodes), "moved": moved}
