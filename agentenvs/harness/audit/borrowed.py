"""What the check looks at and an audit must not go without: secrets, records, what is paid after the end."""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.harness.audit.rows import Row, opened
from agentenvs.harness.audit.theatre import Theatre
from agentenvs.harness.check import records, rewards, secrets
from agentenvs.harness.check.findings import Check, Finding
from agentenvs.harness.check.run import made

CHECKS: tuple[Check, ...] = (
    *secrets.CHECKS,
    records.replay,
    records.rescore,
    rewards.after_the_end,
    rewards.reward_range,
    rewards.verdicts,
)
"""The checks that are made here too, as they stand."""

_THEMES = {"secrets": "secret", "records": "record", "rewards": "reward"}


def rows(theatre: Theatre) -> Iterator[Row]:
    """Yield a row a check."""
    for check in CHECKS:
        row = _row(made(check, theatre.subject))
        theatre.subject.tidy()
        yield opened(row, theatre.said.open[row.name]) if row.name in theatre.said.open else row


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return len(CHECKS)


def _row(finding: Finding) -> Row:
    name = f"{_THEMES[finding.theme]}.{finding.check.replace('_', '-')}"
    if finding.status == "failed":
        fault = finding.faults[0]
        return Row(name, finding.title, "breach", f"{fault.what}, at {fault.where}" if fault.where else fault.what)
    if finding.status == "skipped":
        return Row(name, finding.title, "skipped", finding.why, lost=finding.lost)
    return Row(name, finding.title, "held", f"as `agentenvs check` tells: {finding.theme}.{finding.check}")
