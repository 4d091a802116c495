"""What pages ask of a run's index: the rows a filter leaves, a page of them, and rates by family with intervals."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from agentenvs.harness.statistics import PASS_ALL, PASS_AT, one_trial_each
from agentenvs.view.finding import Found
from agentenvs.view.index import Index
from agentenvs_scoring.stats import Interval, smallest_difference, wilson

ROWS = 50
"""Episodes on a page."""

NONE = "(none)"
_MOST_OTHERS = 60
ORDERS: Mapping[str, tuple[str, str]] = {
    "number": ("by number", "number"),
    "reward": ("lowest reward first", "reward, number"),
    "-reward": ("highest reward first", "reward DESC, number"),
    "-turns": ("most turns first", "turns DESC, number"),
    "-invalid": ("most invalid turns first", "invalid DESC, number"),
    "cost": ("most tokens first", "coalesce(tokens_in, 0) + coalesce(tokens_out, 0) DESC, number"),
}

__all__ = ["PASS_ALL", "PASS_AT"]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which episodes; empty words ask nothing."""

    family: str = ""
    difficulty: str = ""
    outcome: str = ""
    ending: str = ""
    invalid: str = ""
    text: str = ""
    order: str = "number"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Filter:
        """Read one from the query of an address; what makes no sense asks nothing."""
        found = {one.name: str(given.get(one.name, "")).strip()[:200] for one in fields(cls)}
        if found["outcome"] not in ("won", "lost", "failed"):
            found["outcome"] = ""
        if found["invalid"] not in ("some", "none"):
            found["invalid"] = ""
        if found["order"] not in ORDERS:
            found["order"] = "number"
        return cls(**found)

    @property
    def query(self) -> str:
        """It as the query of an address."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return urlencode(
            {name: value for name, value in given.items() if value and (name, value) != ("order", "number")}
        )

    @property
    def asks(self) -> bool:
        """Whether it leaves anything out."""
        return replace(self, order="number") != Filter()

    def where(self) -> tuple[str, list[Any]]:
        """Return it as a condition in SQL, of words that are ours, and what stands for its question marks."""
        parts: list[str] = ["1"]
        given: list[Any] = []
        for column, value in (("kind", self.family), ("difficulty", self.difficulty), ("ending", self.ending)):
            if value == NONE:
                parts.append(f"{column} IS NULL")
            elif value:
                parts.append(f"{column} = ?")
                given.append(value)
        parts += {"won": ["success = 1"], "lost": ["success = 0"], "failed": ["error IS NOT NULL"]}.get(
            self.outcome, []
        )
        parts += {"some": ["invalid > 0"], "none": ["invalid = 0"]}.get(self.invalid, [])
        if self.text:
            parts.append(
                "(scenario LIKE ? ESCAPE '!' OR error LIKE ? ESCAPE '!' OR (split || '/' || \"index\") = ? "
                "OR number IN (SELECT number FROM texts WHERE text LIKE ? ESCAPE '!'))"
            )
            like = "%" + self.text.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
            given += [like, like, self.text, like]
        return " AND ".join(parts), given


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something was won."""

    name: str
    episodes: int
    successes: int
    reward: float = 0.0
    scenarios: int | None = None
    """That were played; each episode has its own where None."""

    @property
    def rate(self) -> float:
        """The share that was won; 0 of none."""
        return self.successes / self.episodes if self.episodes else 0.0

    @property
    def interval(self) -> Interval:
        """At 95 %, by :attr:`method`."""
        if self.scenarios is None:
            return wilson(self.successes, self.episodes)
        return one_trial_each(self.successes, self.episodes, self.scenarios)

    @property
    def method(self) -> str:
        """Name of the interval: trials of one scenario are no trials of their own."""
        return "Wilson" if self.scenarios is None else "Wilson, a scenario as one trial"

    @property
    def smallest(self) -> float:
        """The difference that so many scenarios an arm can tell apart."""
        return smallest_difference(self.rate, self.episodes if self.scenarios is None else self.scenarios)


@dataclass(frozen=True, slots=True)
class Whole:
    """A run in numbers."""

    rate: Rate
    turns: float
    turns_won: float | None
    invalid: float
    """Share of the turns."""
    over_par: float | None
    failed: int
    """Episodes that a world or a service cost."""
    policy_failed: int
    undone: int
    tokens: tuple[int | None, int | None]
    cost: int | None


def scenarios(trials: int) -> str:
    """Return what counts scenarios in SQL, in words of ours; NULL where each is played once, so that all count."""
    return "count(DISTINCT split || '/' || \"index\")" if trials > 1 else "NULL"


def whole(index: Index, trials: int = 1) -> Whole:
    """Return the numbers of a run that plays each scenario so many times."""
    return index.remembered("whole", lambda: _whole(index, trials))  # type: ignore[no-any-return]


def _whole(index: Index, trials: int) -> Whole:
    row = index.ask(
        f"SELECT {scenarios(trials)} scenarios, count(*) n,"  # noqa: S608 - see scenarios()
        " coalesce(sum(success), 0) won, coalesce(sum(turns), 0) turns, avg(reward) reward,"
        " coalesce(sum(invalid), 0) invalid, coalesce(sum(undone), 0) undone,"
        " avg(CASE WHEN success THEN turns END) turns_won,"
        " sum(CASE WHEN success AND par > 0 THEN turns END) * 1.0"
        " / sum(CASE WHEN success AND par > 0 THEN par END) over,"
        " coalesce(sum(fault IN ('environment', 'service')), 0) failed, coalesce(sum(fault = 'policy'), 0) policy,"
        " CASE WHEN count(tokens_in) = count(*) THEN sum(tokens_in) END tokens_in,"
        " CASE WHEN count(tokens_out) = count(*) THEN sum(tokens_out) END tokens_out,"
        " CASE WHEN count(cost_microusd) = count(*) THEN sum(cost_microusd) END cost FROM episodes"
    )[0]
    count = row["n"]
    return Whole(
        Rate("all", count, row["won"], row["reward"] or 0.0, row["scenarios"]),
        row["turns"] / count if count else 0.0,
        row["turns_won"],
        row["invalid"] / row["turns"] if row["turns"] else 0.0,
        row["over"],
        row["failed"],
        row["policy"],
        row["undone"],
        (row["tokens_in"], row["tokens_out"]),
        row["cost"],
    )


def by(index: Index, column: str, trials: int = 1) -> list[Rate]:
    """Return rates by family (``kind``), ``difficulty`` or ``ending``, in order of name; unknown last."""

    def made() -> list[Rate]:
        asked = f"SELECT {column}, count(*), sum(success), avg(reward), {scenarios(trials)} FROM episodes"  # noqa: S608 - a column of ours
        found = index.ask(f"{asked} GROUP BY 1 ORDER BY {column} IS NULL, 1")
        return [Rate(NONE if name is None else str(name), *rest) for name, *rest in found]

    return index.remembered(("by", column), made)  # type: ignore[no-any-return]


def course(index: Index, parts: int = 40) -> list[Rate]:
    """Return the rates of up to so many equal parts of a run, in order of number: how it went as it went."""

    def made() -> list[Rate]:
        count = index.count()
        size = max(-(-count // parts), 5)
        found = index.ask(
            "SELECT min(number), max(number), count(*), sum(success) FROM episodes GROUP BY number / ? ORDER BY 1", size
        )
        return [Rate(f"{first}-{last}", n, won) for first, last, n, won in found][: 4 * parts]

    return index.remembered(("course", parts), made)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the episodes that a filter leaves."""

    rows: list[dict[str, Any]]
    count: int
    won: int
    number: int
    pages: int
    scenarios: int | None = None

    @property
    def rate(self) -> Rate:
        """Of all that the filter leaves."""
        return Rate("filtered", self.count, self.won, scenarios=self.scenarios)


def page(index: Index, asked: Filter, number: int, size: int = ROWS, trials: int = 1) -> Page:
    """Return a page of episodes, from 1."""
    where, given = asked.where()
    counts = f"SELECT count(*), coalesce(sum(success), 0), {scenarios(trials)} FROM episodes WHERE {where}"  # noqa: S608 - see where()
    count, won, played = index.remembered(("count", where, *given), lambda: tuple(index.ask(counts, *given)[0]))
    pages = max(-(-count // size), 1)
    number = min(max(number, 1), pages)
    order = ORDERS[asked.order][1]
    rows = f"SELECT * FROM episodes WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608 - see where()
    found = index.ask(rows, *given, size, (number - 1) * size)
    return Page([dict(row) for row in found], count, won, number, pages, played)


def beside(index: Index, asked: Filter, number: int) -> tuple[int | None, int | None]:
    """Return the numbers of the episodes before and after one, among those that a filter leaves, by number."""
    where, given = asked.where()
    before = index.ask(f"SELECT max(number) FROM episodes WHERE {where} AND number < ?", *given, number)  # noqa: S608
    after = index.ask(f"SELECT min(number) FROM episodes WHERE {where} AND number > ?", *given, number)  # noqa: S608
    return before[0][0], after[0][0]


def episode(index: Index, number: int) -> dict[str, Any] | None:
    """Return the line of an episode."""
    found = index.ask("SELECT * FROM episodes WHERE number = ?", number)
    return dict(found[0]) if found else None


def of_time(runs: Iterable[Found], seconds: float = 0.3) -> Iterator[Found]:
    """Yield the runs whose index is, or comes, up to date; those that would take longer in all are left out."""
    until = time.monotonic() + seconds
    for run in runs:
        left = until - time.monotonic()
        if run.index.fresh or (left > 0 and run.index.follow(min(left, 0.05))):
            yield run


def _alike(run: Found, other: Found, split: str) -> bool:
    same = other.kind == "run" and other.facts.env == run.facts.env
    return same and other is not run and other.facts.split == split


def elsewhere(run: Found, others: list[Found], split: str, index: int, most: int = 30) -> list[tuple[Found, int, bool]]:
    """Return who else played a scenario: runs that are indexed, with episode and outcome."""
    found = []
    ready = of_time([other for other in others if _alike(run, other, split)][:_MOST_OTHERS])
    for other in ready:
        rows = other.index.ask(
            'SELECT number, success FROM episodes WHERE split = ? AND "index" = ? ORDER BY number LIMIT 1', split, index
        )
        found += [(other, int(number), bool(success)) for number, success in rows]
        if len(found) >= most:
            break
    return found
