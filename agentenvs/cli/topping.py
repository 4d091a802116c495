"""``top``: what a server's workers do at this moment, from what they count."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError, ServiceError

if TYPE_CHECKING:
    from rich.console import RenderableType

Labels: TypeAlias = frozenset[tuple[str, str]]

_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")

_MIB = 2**20


class Sight(NamedTuple):
    """What was counted at a moment."""

    at: float
    values: Mapping[tuple[str, Labels], float]

    def of(self, name: str, worker: str) -> float:
        """Return the sum of a worker's series of a metric."""
        return sum(value for (found, labels), value in self.values.items() if found == name and _is(labels, worker))

    def by(self, name: str, label: str, worker: str | None = None) -> Counter[str]:
        """Return the sums of a metric by a label."""
        sums: Counter[str] = Counter()
        for (found, labels), value in self.values.items():
            if found == name and (worker is None or _is(labels, worker)):
                sums[dict(labels).get(label, "")] += value  # type: ignore[assignment]
        return sums


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples("top http://127.0.0.1:8000", "top http://127.0.0.1:8000 --json")
    app.command("top", epilog=shown)(top)


def top(
    url: Annotated[str, typer.Argument(help="The server; its token is read from AGENTENVS_TOKEN.", metavar="URL")],
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, typer.Option(min=1, help="How often to look; until Ctrl-C otherwise.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show what a server's workers do: requests, turns, their time, sessions, journal, machine."""
    sights = _sights(url, interval)
    before = next(sights)
    if as_json:
        console.result(told(before, next(sights)))
        return
    from rich.live import Live

    with Live(console=console.out(), auto_refresh=False) as live:
        for number, after in enumerate(sights, 1):
            live.update(_shown(told(before, after)), refresh=True)
            before = after
            if number == count:
                return


def _sights(url: str, interval: float) -> Iterator[Sight]:
    """Look again and again.

    Raises:
        ServiceError: The server cannot be reached.
        ConfigError: It does not tell, or the URL is none.
    """
    import httpx

    from agentenvs.client.endpoint import Endpoint

    endpoint = Endpoint(url)
    try:
        with httpx.Client(headers=endpoint.said, timeout=10.0) as http:
            while True:
                answer = http.get(f"{endpoint.key}/metrics")
                if answer.status_code != httpx.codes.OK:
                    raise ConfigError(
                        f"the server does not tell what it counts: {answer.status_code}",
                        why=answer.text[:200],
                        fix="set AGENTENVS_TOKEN to one of its tokens, the one for metrics where it has one",
                    )
                yield Sight(time.monotonic(), parse(answer.text))
                time.sleep(interval)
    except httpx.TransportError as error:
        raise ServiceError(f"the server at {endpoint.host} stays away", why=str(error)) from error


def parse(text: str) -> dict[tuple[str, Labels], float]:
    """Return the series of a text in Prometheus' format."""
    found: dict[tuple[str, Labels], float] = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is not None:
            labels = frozenset((name, _ESCAPED.sub(_plain, value)) for name, value in _LABEL.findall(match[2] or ""))
            found[match[1], labels] = float(match[3])
    return found


def _plain(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def _is(labels: Labels, worker: str) -> bool:
    return ("worker", worker) in labels


def told(before: Sight, after: Sight) -> dict[str, Any]:
    """Return what happened between two looks, and how things stand.

    Args:
        before: The first.
        after: The second.
    """
    workers = {value for _, labels in after.values for name, value in labels if name == "worker"}
    sessions = "agentenvs_journal_sessions" if after.by("agentenvs_journal_sessions", "env") else "agentenvs_sessions"
    seconds = max(after.at - before.at, 1e-9)
    grown = after.by("agentenvs_problems_total", "code")
    grown.subtract(before.by("agentenvs_problems_total", "code"))
    return {
        "workers": [_worker(before, after, worker) for worker in sorted(workers, key=lambda name: (len(name), name))],
        "sessions": dict(after.by(sessions, "env")),
        "tenants": dict(after.by(sessions, "tenant")),
        "problems_per_second": {code: round(more / seconds, 3) for code, more in grown.items() if more > 0},
    }


def _worker(before: Sight, after: Sight, worker: str) -> dict[str, Any]:
    seconds = max(after.at - before.at, 1e-9)

    def rate(name: str) -> float:
        return max(after.of(name, worker) - before.of(name, worker), 0.0) / seconds

    steps = after.by("agentenvs_step_seconds_bucket", "le", worker)
    steps.subtract(before.by("agentenvs_step_seconds_bucket", "le", worker))
    groups = rate("agentenvs_journal_group_count")
    return {
        "worker": worker,
        "processor": round(rate("process_cpu_seconds_total"), 3),
        "memory_mib": round(after.of("process_resident_memory_bytes", worker) / _MIB, 1),
        "files": int(after.of("process_open_fds", worker)),
        "connections": int(after.of("agentenvs_connections", worker)),
        "sockets": int(after.of("agentenvs_sockets", worker)),
        "sessions": int(after.of("agentenvs_sessions", worker)),
        "requests_per_second": round(rate("agentenvs_requests_total"), 1),
        "turns_per_second": round(rate("agentenvs_turns_total"), 1),
        "median_ms": _quantile(steps, 0.5),
        "p99_ms": _quantile(steps, 0.99),
        "group": round(rate("agentenvs_journal_group_sum") / groups, 1) if groups else None,
        "failures": int(after.of("agentenvs_journal_failures_total", worker)),
        "lag_ms": round(after.of("agentenvs_loop_lag_seconds", worker) * 1e3, 1),
    }


def _quantile(buckets: Mapping[str, float], share: float) -> float | None:
    """Return the upper end of the bucket in which a quantile lies, in milliseconds; None where nothing was counted."""
    edges = sorted((float(edge), count) for edge, count in buckets.items())
    total = edges[-1][1] if edges else 0.0
    if total <= 0:
        return None
    edge = next(edge for edge, count in edges if count >= share * total)
    return None if edge == float("inf") else edge * 1e3


_COLUMNS = {
    "worker": "worker",
    "processor": "cpu",
    "memory_mib": "MiB",
    "files": "files",
    "connections": "conns",
    "sockets": "sockets",
    "sessions": "sessions",
    "requests_per_second": "req/s",
    "turns_per_second": "turns/s",
    "median_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "group": "group",
    "failures": "failed",
    "lag_ms": "lag ms",
}


def _shown(form: Mapping[str, Any]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right")
    for worker in form["workers"]:
        table.add_row(*(_cell(worker[name]) for name in _COLUMNS))
    lines = []
    for what in ("sessions", "tenants", "problems_per_second"):
        # A world without sessions tells of none, so that whoever scales by it sees that too; here it is noise.
        counted = {name: count for name, count in form[what].items() if count}
        said = ", ".join(f"{console.safe(name) or '-'} {count:g}" for name, count in counted.items())
        lines.append(f"{what.replace('_', ' ')}: {said or 'none'}")
    return Group(table, "", *lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
