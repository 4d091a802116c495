"""What a worker counts, and how it tells: plain numbers on the way, text in Prometheus' format only when asked.

An increment is one look-up in a dictionary and one addition, from the event loop alone; the journal's writer has
counters of its own, in its thread. Every series has a label ``worker``, its number in the server: a worker that is
asked tells what its siblings wrote down last as well (see :mod:`~agentenvs_servers.siblings`). No label is a secret or
names an episode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

STEP_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
COMMIT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
GROUP_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]


class Family(NamedTuple):
    """One metric with its series; JSON can carry it from one worker to another."""

    name: str
    kind: Kind
    said: str
    samples: Sequence[tuple[str, Labels, float]]
    """Suffix of the name, labels, value."""


class Histogram:
    """Counts values by size.

    Args:
        edges: Upper ends, ascending; what is beyond the last is counted too.
    """

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def samples(self, labels: Labels) -> Iterator[tuple[str, Labels, float]]:
        """Return the series of it."""
        so_far = 0
        for edge, count in zip((*self.edges, float("inf")), self.counts, strict=True):
            so_far += count
            yield "_bucket", {**labels, "le": "+Inf" if edge == float("inf") else f"{edge:g}"}, so_far
        yield "_sum", labels, self.total
        yield "_count", labels, so_far


class Counter:
    """Counts by labels.

    Args:
        name: Of the metric.
        said: What it counts.
        labels: Names of the labels.
    """

    __slots__ = ("labels", "name", "said", "values")

    def __init__(self, name: str, said: str, *labels: str) -> None:
        self.name = name
        self.said = said
        self.labels = labels
        self.values: dict[tuple[str, ...], float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count."""
        values = self.values
        values[labels] = values.get(labels, 0) + by

    def family(self) -> Family:
        """Return the metric."""
        samples = [("", dict(zip(self.labels, key, strict=True)), value) for key, value in sorted(self.values.items())]
        return Family(self.name, "counter", self.said, samples)


class Route:
    """The counters of one route, looked up once.

    Args:
        name: Method and template, such as ``POST /v1/sessions/{session}/step``.
        seconds: Where its requests are timed, if they are.
    """

    __slots__ = ("name", "seconds", "statuses")

    def __init__(self, name: str, seconds: Histogram | None = None) -> None:
        self.name = name
        self.seconds = seconds
        self.statuses: dict[int, int] = {}

    def answered(self, status: int, seconds: float) -> None:
        """Count a request."""
        statuses = self.statuses
        statuses[status] = statuses.get(status, 0) + 1
        if self.seconds is not None:
            self.seconds.observe(seconds)


class Metrics:
    """All that a worker counts."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.steps = {door: Histogram(STEP_SECONDS) for door in ("http", "agent", "batch", "socket")}
        self.problems = Counter("agentenvs_problems_total", "Problems that were answered, by code.", "code")
        self.made = Counter("agentenvs_sessions_made_total", "Sessions that were made.", "env", "tenant")
        self.over = Counter("agentenvs_sessions_over_total", "Sessions that are over, and how.", "env", "how")
        self.episodes = Counter("agentenvs_episodes_total", "Episodes that are over, by ending.", "env", "ending")
        self.aside = Counter("agentenvs_worlds_put_aside_total", "Idle worlds that were given up for now.")
        self.lost = Counter("agentenvs_worlds_lost_total", "Worlds that could not be made again, and why.", "code")
        self.rebuilds = Histogram(STEP_SECONDS)
        """Seconds in which worlds were made again from the journal."""
        self.sockets = 0
        """Open sockets."""
        self.loop_lag = 0.0
        """By how many seconds the last look at expiry was late: how long the event loop was held up."""
        self.aside.add(by=0)

    def route(self, name: str, door: str | None = None) -> Route:
        """Return the counters of a route.

        Args:
            name: Method and template.
            door: Which histogram of steps its requests go to, if any.
        """
        found = self.routes.get(name)
        if found is None:
            found = self.routes[name] = Route(name, None if door is None else self.steps[door])
        return found

    def families(self) -> Iterator[Family]:
        """Return all that was counted."""
        requests = [
            ("", {"route": route.name, "status": str(status)}, float(count))
            for route in self.routes.values()
            for status, count in sorted(route.statuses.items())
        ]
        yield Family("agentenvs_requests_total", "counter", "Requests that were answered.", requests)
        yield Family(
            "agentenvs_step_seconds",
            "histogram",
            "Seconds from the head of a request for a step, or for a batch of steps, to its answer.",
            [sample for door, steps in self.steps.items() for sample in steps.samples({"door": door})],
        )
        for counter in (self.problems, self.made, self.over, self.episodes, self.aside, self.lost):
            yield counter.family()
        yield Family(
            "agentenvs_world_rebuild_seconds",
            "histogram",
            "Seconds in which worlds were made again from the journal.",
            list(self.rebuilds.samples({})),
        )
        yield gauge("agentenvs_sockets", "Open sockets.", self.sockets)
        yield gauge("agentenvs_loop_lag_seconds", "How late the loop of events was last.", self.loop_lag)


def gauge(name: str, said: str, value: float, **labels: str) -> Family:
    """Return a metric of one number."""
    return Family(name, "gauge", said, [("", labels, float(value))])


def total(name: str, said: str, value: float, **labels: str) -> Family:
    """Return a metric of one number that only grows."""
    return Family(name, "counter", said, [("", labels, float(value))])


def render(workers: Mapping[str, Iterable[Family]], common: Iterable[Family] = ()) -> bytes:
    """Return the metrics of a server's workers as text.

    Args:
        workers: The metrics of each, by the value of the label ``worker``.
        common: Those that are the same whichever worker is asked, and have no such label.
    """
    heads: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    told_by = [({"worker": worker}, families) for worker, families in workers.items()]
    for own, families in [*told_by, ({}, common)]:
        for name, kind, said, samples in families:
            heads.setdefault(name, f"# HELP {name} {said}\n# TYPE {name} {kind}\n")
            told = lines.setdefault(name, [])
            for suffix, labels, value in samples:
                shown = _labels({**labels, **own})
                told.append(f"{name}{suffix}{shown and f'{{{shown}}}'} {_number(value)}\n")
    return "".join(heads[name] + "".join(lines[name]) for name in sorted(heads)).encode()


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def to_json(families: Iterable[Family]) -> list[list[Any]]:
    """Return metrics in a form that JSON can carry."""
    return [[name, kind, said, [list(sample) for sample in samples]] for name, kind, said, samples in families]


def from_json(form: Iterable[Any]) -> list[Family]:
    """Return what :func:`to_json` was given.

    Raises:
        ValueError: It is something else.
    """
    return [
        Family(name, kind, said, [(suffix, labels, value) for suffix, labels, value in samples])
        for name, kind, said, samples in form
    ]
