"""The comparison itself: each pair of runs, as a whole and by groups, with intervals, tests and what could be seen.

Paired by scenario. The unit is the scenario with all its attempts, or a family of them where asked. Seeded by the
digests of the runs' episodes, so that the same runs give the same numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness import statistics
from agentenvs.harness.compare.grounds import Row, manifest_rows, reasons
from agentenvs.harness.compare.pairing import Column, Paired, pair
from agentenvs.harness.measures import Infrastructure, infrastructure
from agentenvs.harness.statistics import ranks

if TYPE_CHECKING:
    from agentenvs.harness.report import Run

LEVEL = 0.05

LARGEST_REWARD = 1e100
"""What is larger has no variance that a float holds; such rewards are not compared."""

MOST_RUNS = 12
"""More pairs than these make are no table any more."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs on the same scenarios; differences are second minus first."""

    name: str
    scenarios: int
    clusters: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    interval: str
    """How the interval was made."""
    p_value: float
    test: str
    adjusted: float
    """The p-value, adjusted for being one of several (Holm)."""
    smallest: float
    """The difference that so many scenarios show four times of five."""
    smallest_unpaired: float
    """The same if the runs had played different scenarios."""
    correlation: float | None
    outcomes: dict[str, int] | None
    """Scenarios won by both, by one only, by neither, where each was played once."""

    @property
    def real(self) -> bool:
        """Whether the difference is more than chance, at 5 %."""
        return self.adjusted <= LEVEL


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs against each other."""

    first: int
    second: int
    whole: Difference
    reward: Difference | None
    """Of the mean rewards, where they say more than success does."""
    groups: dict[str, list[Difference]]


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a comparison."""

    name: str
    folder: str
    episodes: int
    scenarios: int
    won: int
    rate: float
    low: float
    high: float
    interval: str
    reward: float
    left_out: int
    infrastructure: Infrastructure
    repeats: list[statistics.Repeated] = field(default_factory=list)
    rank: statistics.RankInterval | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of it."""

    env: str
    split: str
    cluster: str
    scenarios: int
    across: tuple[str, ...]
    runs: list[Played]
    pairs: list[Pair]
    differs: list[Row]
    """What is not the same in the manifests."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        form = _listed(asdict(self))
        for said, found in zip(form["pairs"], self.pairs, strict=True):
            said["whole"]["real"] = found.whole.real
        form["conventions"] = {"pass@k": statistics.PASS_AT, "pass^k": statistics.PASS_ALL, "ranks": ranks.METHOD}
        return form  # type: ignore[no-any-return]


def compare(
    runs: Sequence[Run],
    *,
    only_common: bool = False,
    across: Collection[str] = (),
    cluster: str = "scenario",
    resamples: int = statistics.RESAMPLES,
) -> Comparison:
    """Compare runs, paired by scenario.

    Args:
        runs: Two or more, each once.
        only_common: Leave out what not all of them played.
        across: Options of the environment that may differ: part of what is compared.
        cluster: ``scenario``, or the label whose groups are what was sampled: ``kind``, ``difficulty``.
        resamples: Of each bootstrap.

    Raises:
        ConfigError: Fewer than two runs, one of them twice, too many, or no such label.
        DataError: They cannot be compared; the message says why and what can be done.
    """
    _check(runs, across)
    if found := reasons(runs, across):
        raise DataError(
            "these runs cannot be compared",
            why="; ".join(reason.what for reason in found),
            fix="; ".join(dict.fromkeys(reason.fix for reason in found)),
        )
    paired = pair(runs, only_common=only_common)
    if cluster != "scenario" and cluster not in paired.groups:
        raise ConfigError(
            f"scenarios cannot be clustered by {cluster!r}",
            why="that label tells none of them apart here",
            fix=f"choose one of: {', '.join(['scenario', *paired.groups])}",
        )
    pairs = [
        _Judge(paired, cluster, one, other, _key(runs[one], runs[other]), resamples).pair()
        for one, other in combinations(range(len(runs)), 2)
    ]
    pairs = _adjusted_pairs(pairs)
    entry = runs[0].manifest.envs[0]
    names = _names(runs)
    played = [_played(run, names[place], paired.columns[place], paired, resamples) for place, run in enumerate(runs)]
    return Comparison(
        entry.env_id,
        entry.split,
        cluster,
        len(paired.scenarios),
        tuple(across),
        _ranked(played, pairs),
        pairs,
        manifest_rows(runs),
    )


def _check(runs: Sequence[Run], across: Collection[str]) -> None:
    if len(runs) < 2:
        raise ConfigError("one run cannot be compared", fix="name two or more; `agentenvs report RUN` shows one")
    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{len(runs)} runs make {math.comb(len(runs), 2)} pairs", fix=f"name at most {MOST_RUNS}")
    seen: dict[str, str] = {}
    known = sorted({name for run in runs for name in json.loads(run.manifest.envs[0].options)})
    if unknown := [name for name in across if name not in known]:
        what = f"no environment of these runs has the option {unknown[0]!r}"
        raise ConfigError(what, fix=f"leave out --across, or name one of: {', '.join(known)}")
    for run in runs:
        if run.manifest.run_id in seen:
            what = f"{run.folder} and {seen[run.manifest.run_id]} are the same run"
            raise ConfigError(what, why="a run does not differ from itself", fix="name each run once")
        seen[run.manifest.run_id] = str(run.folder)


def _key(*runs: Run) -> bytes:
    return "".join(run.manifest.episode_table_digest for run in runs).encode()


def _names(runs: Sequence[Run]) -> list[str]:
    """Return the players' names, with their folders where two have one name."""
    names = [f"{run.name} ({run.sees})" if run.sees else run.name for run in runs]
    return [
        f"{name} [{run.folder.name}]" if names.count(name) > 1 else name for name, run in zip(names, runs, strict=True)
    ]


class _Judge:
    """Two columns of a paired table."""

    def __init__(self, paired: Paired, cluster: str, one: int, other: int, key: bytes, resamples: int) -> None:
        self._paired = paired
        self._places = (one, other)
        self._columns = (paired.columns[one], paired.columns[other])
        self._labels = paired.groups.get(cluster)
        self._key = key
        self._resamples = resamples

    def pair(self) -> Pair:
        """Return the whole and its groups."""
        every = range(len(self._paired.scenarios))
        groups = {name: self._groups(labels) for name, labels in self._paired.groups.items()}
        return Pair(*self._places, self._success("all", every), self._reward(every), groups)

    def _groups(self, labels: Sequence[str | None]) -> list[Difference]:
        members: dict[str, list[int]] = {}
        for place, label in enumerate(labels):
            members.setdefault("(unknown)" if label is None else label, []).append(place)
        return adjust([self._success(name, members[name]) for name in sorted(members, key=_natural)])

    def _success(self, name: str, places: Sequence[int]) -> Difference:
        first, second = ([column.rates[place] for place in places] for column in self._columns)
        outcomes = None
        if self._paired.single and self._labels is None:
            outcomes = _outcomes(first, second)
        return self._difference(name, places, first, second, 1.0, outcomes)

    def _reward(self, places: Sequence[int]) -> Difference | None:
        first, second = (column.rewards for column in self._columns)
        if all(column.rewards == column.rates for column in self._columns):
            return None
        largest = max(map(abs, [*first, *second])) or 1.0
        if largest > LARGEST_REWARD:
            return None
        spread = max(max(first), max(second)) - min(min(first), min(second)) or largest
        return self._difference("mean reward", places, first, second, spread, None)

    def _difference(
        self,
        name: str,
        places: Sequence[int],
        first: Sequence[float],
        second: Sequence[float],
        largest: float,
        outcomes: dict[str, int] | None,
    ) -> Difference:
        gaps = [b - a for a, b in zip(first, second, strict=True)]
        totals, weights = self._clusters(places, gaps)
        interval, method = self._interval(totals, weights, largest, outcomes, name)
        if outcomes is not None:
            test = statistics.mcnemar(outcomes["first"], outcomes["second"])
        else:
            test = statistics.paired_permutation(totals, self._key)
        rate_first, rate_second = math.fsum(first) / len(first), math.fsum(second) / len(second)
        return Difference(
            name=name,
            scenarios=len(places),
            clusters=len(totals),
            first=rate_first,
            second=rate_second,
            difference=math.fsum(gaps) / len(gaps),
            low=interval.low,
            high=interval.high,
            interval=method,
            p_value=test.p_value,
            test=test.method,
            adjusted=test.p_value,
            smallest=statistics.smallest_paired_difference(totals, weights, largest),
            smallest_unpaired=statistics.smallest_unpaired_difference(first, second, largest),
            correlation=statistics.correlation(first, second),
            outcomes=outcomes,
        )

    def _clusters(self, places: Sequence[int], gaps: Sequence[float]) -> tuple[list[float], list[float]]:
        if self._labels is None:
            return list(gaps), [1.0] * len(gaps)
        found: dict[str | None, list[float]] = {}
        for place, gap in zip(places, gaps, strict=True):
            found.setdefault(self._labels[place], []).append(gap)
        return [math.fsum(values) for values in found.values()], [float(len(values)) for values in found.values()]

    def _interval(
        self,
        totals: Sequence[float],
        weights: Sequence[float],
        largest: float,
        outcomes: dict[str, int] | None,
        name: str,
    ) -> tuple[statistics.Interval, str]:
        if outcomes is not None:
            few, many = outcomes["first"], outcomes["second"]
            return statistics.paired_rate_interval(few, many, len(totals)), "Bonett and Price, paired"
        return statistics.difference_interval(totals, weights, largest, self._key, self._resamples, purpose=name)


def _outcomes(first: Sequence[float], second: Sequence[float]) -> dict[str, int]:
    found = {"both": 0, "first": 0, "second": 0, "neither": 0}
    names = {(True, True): "both", (True, False): "first", (False, True): "second", (False, False): "neither"}
    for a, b in zip(first, second, strict=True):
        found[names[a > 0, b > 0]] += 1
    return found


def adjust(found: Sequence[Difference]) -> list[Difference]:
    """Return differences with their p-values adjusted for being so many."""
    adjusted = statistics.holm([one.p_value for one in found])
    return [replace(one, adjusted=p_value) for one, p_value in zip(found, adjusted, strict=True)]


def _adjusted_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    wholes = adjust([one.whole for one in pairs])
    return [replace(one, whole=whole) for one, whole in zip(pairs, wholes, strict=True)]


def _played(run: Run, name: str, column: Column, paired: Paired, resamples: int) -> Played:
    rates = column.rates
    once = all(count == 1 for count in column.attempts)
    if once:
        interval, method = statistics.wilson(sum(column.won), len(rates)), "Wilson"
    else:
        interval, method = statistics.rate_interval(rates, _key(run), resamples)
    attempts = list(zip(column.won, column.attempts, strict=True))
    return Played(
        name=name,
        folder=str(run.folder),
        episodes=sum(column.attempts),
        scenarios=len(rates),
        won=sum(column.won),
        rate=math.fsum(rates) / len(rates),
        low=interval.low,
        high=interval.high,
        interval=method,
        reward=math.fsum(column.rewards) / len(rates),
        left_out=column.left_out,
        infrastructure=infrastructure(run.episodes),
        repeats=[] if min(column.attempts) < 2 else statistics.repeated(attempts, _key(run), resamples),
    )


def _ranked(played: Sequence[Played], pairs: Sequence[Pair]) -> list[Played]:
    if len(played) < 3:
        return list(played)
    square = [[1.0] * len(played) for _ in played]
    for one in pairs:
        square[one.first][one.second] = square[one.second][one.first] = one.whole.adjusted
    found = statistics.rank_intervals([one.rate for one in played], square)
    return [replace(one, rank=rank) for one, rank in zip(played, found, strict=True)]


def _natural(name: str) -> tuple[bool, tuple[str, int]]:
    """Sort ``par 6-10`` behind ``par 1-5``, and what is unknown last."""
    head, _, tail = name.partition(" ")
    digits = tail.split("-")[0].rstrip("+")
    return name == "(unknown)", (head, int(digits)) if head == "par" and digits.isdigit() else (name, 0)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _listed(value._asdict())
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return value
