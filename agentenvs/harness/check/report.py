"""What came of all checks, and what the environment may be used for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentenvs.core.canon import JSON
from agentenvs.core.spec import Capabilities, EnvSpec
from agentenvs.harness.check.findings import LOST, Finding, Promise

if TYPE_CHECKING:
    from rich.table import Table


UNSEEN = "not to be seen from here"
"""How the reason of a check begins that could not be made for want of sight."""


@dataclass(frozen=True, slots=True)
class _Purpose:
    name: str
    promises: tuple[Promise, ...]
    themes: tuple[str, ...]
    """Themes of which no check may fail."""


_SOUND = ("interface", "views", "junk", "secrets", "rewards", "endings", "gymnasium_face", "hosting")
_PURPOSES = (
    _Purpose("evaluation", (), _SOUND),
    _Purpose("ranked boards", ("deterministic", "replayable"), (*_SOUND, "determinism", "elsewhere", "records")),
    _Purpose("credit audit by branching", ("forkable",), (*_SOUND, "branching")),
    _Purpose("crash-safe training", ("replayable", "resumable"), (*_SOUND, "records", "determinism", "elsewhere")),
    _Purpose("moving episodes between machines", ("snapshot",), (*_SOUND, "branching")),
)


@dataclass(frozen=True, slots=True)
class Use:
    """Whether an environment may be used for a purpose."""

    purpose: str
    answer: Literal["yes", "no", "not declared", "as far as seen"]
    why: str
    """What stands in the way, or was not seen; empty where nothing is."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"purpose": self.purpose, "answer": self.answer, "why": self.why}


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a check of an environment."""

    target: str
    spec: EnvSpec
    quick: bool
    tasks: tuple[str, ...]
    """Addresses of the tasks that were tried."""
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> list[Finding]:
        """The checks that failed."""
        return [finding for finding in self.findings if finding.status == "failed"]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of checks by status."""
        found = Counter(finding.status for finding in self.findings)
        return {status: found[status] for status in ("passed", "failed", "skipped")}

    def finding(self, name: str) -> Finding:
        """Return what came of the check of a name, ``theme.check`` or its last part where that is the only one.

        Raises:
            KeyError: There is none.
        """
        found = [item for item in self.findings if name in (item.check, f"{item.theme}.{item.check}")]
        if len(found) != 1:
            raise KeyError(name)
        return found[0]

    @property
    def uses(self) -> list[Use]:
        """What the environment may be used for."""
        return [_use(purpose, self.spec.capabilities, self.findings) for purpose in _PURPOSES]

    @property
    def lost(self) -> list[str]:
        """What users go without because the environment does not declare it."""
        return [f"{name}: false: {lost}" for name, lost in LOST.items() if not getattr(self.spec.capabilities, name)]

    @property
    def untested(self) -> list[str]:
        """What stays unknown because it could not be tested, beyond what is not declared."""
        found = [item for item in self.findings if item.status == "skipped" and item.lost]
        return [
            f"{names}: {lost}"
            for lost in dict.fromkeys(item.lost for item in found if item.lost != LOST.get(item.promise))
            for names in (", ".join(f"{item.theme}.{item.check}" for item in found if item.lost == lost),)
        ]

    @property
    def unseen(self) -> dict[str, list[str]]:
        """What could not be seen from here, and the checks that went without it."""
        found: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.why.startswith(UNSEEN):
                found.setdefault(finding.why.removeprefix(f"{UNSEEN}: "), []).append(finding.check)
        return found

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "target": self.target,
            "env": self.spec.id,
            "release": self.spec.release,
            "passed": self.passed,
            "quick": self.quick,
            "tasks": list(self.tasks),
            "counts": dict(self.counts),
            "findings": [finding.to_json() for finding in self.findings],
            "uses": [use.to_json() for use in self.uses],
            "lost": self.lost,
            "untested": self.untested,
            "unseen": self.unseen,
        }

    def details(self) -> list[str]:
        """Return what is wrong, where and how to mend it, and what was skipped and why; nothing of what passed."""
        failed = [line for finding in self.failures for line in _lines([finding])]
        skipped: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            if finding.status == "skipped" and not finding.why.startswith(UNSEEN):
                skipped.setdefault((finding.why, finding.lost), []).append(finding)
        return failed + [line for alike in skipped.values() for line in _lines(alike)]

    def words(self) -> list[str]:
        """Return, in plain words, what the environment may be used for and what that costs."""
        lines = [f"{self.spec.id} may be used for:"]
        for use in self.uses:
            lines.append(f"  {use.purpose:34} {use.answer}" + (f" ({use.why})" if use.why else ""))
        if self.lost:
            lines += ["What it does not declare costs its users:", *(f"  {item}" for item in self.lost)]
        if self.untested:
            lines += ["What could not be tested costs them:", *(f"  {item}" for item in self.untested)]
        if self.unseen:
            lines.append("What could not be seen from here; check it where the environment is installed:")
            lines += [f"  {what}: {', '.join(checks)}" for what, checks in self.unseen.items()]
        return lines

    def __str__(self) -> str:
        """Return all in plain text: failures with their faults, what was skipped, what it may be used for."""
        counts = self.counts
        lines = [
            f"{self.spec.id}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped",
            *self.details(),
        ]
        return "\n".join([*lines, *self.words()])


def table(report: Report) -> Table:
    """Return the checks as a table; nothing in it is markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    made.add_column("theme", no_wrap=True)
    made.add_column("result", no_wrap=True)
    made.add_column("check", overflow="fold")
    colors = {"passed": "green", "failed": "bold red", "skipped": "yellow"}
    last = ""
    for finding in report.findings:
        theme = "" if finding.theme == last else finding.theme.replace("_", " ")
        last = finding.theme
        made.add_row(Text(theme), Text(finding.status, style=colors[finding.status]), Text(finding.title))
    return made


def _lines(alike: Sequence[Finding]) -> list[str]:
    """Return a finding in words, or several that were skipped for one reason."""
    first = alike[0]
    title = f": {first.title}" if len(alike) == 1 else ""
    return [f"{first.status}: {_named(alike)}{title}", *(f"  {line}" for line in _details(first))]


def _details(finding: Finding) -> list[str]:
    """Return what is wrong, where and how to mend it; or why it was skipped and what is lost."""
    lines = []
    for fault in finding.faults:
        lines.append(fault.what)
        lines += [f"where: {fault.where}"] if fault.where else []
        lines += [f"fix: {fault.fix}"] if fault.fix else []
    if finding.why and not finding.why.startswith(UNSEEN):
        lines.append(f"why: {finding.why}")
    if finding.lost:
        lines.append(f"lost: {finding.lost}")
    return lines


def _use(purpose: _Purpose, capabilities: Capabilities, findings: Sequence[Finding]) -> Use:
    concerned = [finding for finding in findings if finding.theme in purpose.themes]
    if failed := [finding for finding in concerned if finding.status == "failed"]:
        return Use(purpose.name, "no", f"failed: {_named(failed)}")
    if absent := [name for name in purpose.promises if not getattr(capabilities, name)]:
        return Use(purpose.name, "not declared", ", ".join(f"{name}: false" for name in absent))
    unseen = [finding for finding in concerned if finding.status == "skipped" and finding.why.startswith(UNSEEN)]
    if unseen:
        themes = ", ".join(dict.fromkeys(finding.theme for finding in unseen))
        return Use(purpose.name, "as far as seen", f"not all is to be seen from here of: {themes}")
    untested = [
        finding for finding in concerned if finding.status == "skipped" and finding.lost and not finding.promise
    ]
    return Use(purpose.name, "yes", f"not tested: {_named(untested)}" if untested else "")


def _named(findings: Iterable[Finding]) -> str:
    return ", ".join(dict.fromkeys(f"{finding.theme}.{finding.check}" for finding in findings))
