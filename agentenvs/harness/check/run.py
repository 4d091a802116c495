"""Runs all checks over a target, one after another; none can stop the others."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentenvs.core import targets
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ConfigError, UserError
from agentenvs.core.process import WorkerFailure
from agentenvs.core.spec import EnvSpec
from agentenvs.harness.check import (
    branching,
    determinism,
    elsewhere,
    endings,
    gymnasium_face,
    hosting,
    interface,
    junk,
    records,
    rewards,
    secrets,
    views,
)
from agentenvs.harness.check.ahead import harm
from agentenvs.harness.check.episodes import Raised
from agentenvs.harness.check.findings import MOST_FAULTS, Check, Fault, Finding, Skip, raised
from agentenvs.harness.check.local import Local, of_class, of_id
from agentenvs.harness.check.plays import worn
from agentenvs.harness.check.report import UNSEEN, Report
from agentenvs.harness.check.subject import FULL, QUICK, Effort, Subject

if TYPE_CHECKING:
    import httpx

THEMES = (
    interface,
    views,
    determinism,
    elsewhere,
    branching,
    records,
    junk,
    secrets,
    rewards,
    endings,
    gymnasium_face,
    hosting,
)

CHECKS: tuple[Check, ...] = tuple(check for theme in THEMES for check in theme.CHECKS)
"""Every check, in the order it is run."""

Progress = Callable[[int, int, int], None]
"""Called with checks done, checks in all, and checks failed."""


def check_env(
    target: str | type[Environment],
    *,
    quick: bool = False,
    options: Mapping[str, Any] | None = None,
    split: str | None = None,
    env: str | None = None,
    token: str | None = None,
    transport: httpx.BaseTransport | None = None,
    ahead: bool = False,
    progress: Progress = lambda done, total, failed: None,
) -> Report:
    """Check an environment against the contract: what its spec declares is tested, and what it does not is told.

    Args:
        target: An environment class, ``"module:Class"``, a file (``"./my_world.py"``), an id or slug of the
            registry, or the URL of a server.
        quick: Try less of everything: seconds in place of a minute.
        options: Options the environment is made with.
        split: The one split to look at; all of them otherwise.
        env: Which environment of a server; its only one otherwise.
        token: What a server asks of its clients; the environment variable ``AGENTENVS_TOKEN`` otherwise.
        transport: What carries the requests to a server instead of a connection.
        ahead: Play it in a worker process first: one that hangs, or takes its process down, and does not declare so,
            would take the check with it.
        progress: Called after each check.

    Raises:
        ConfigError: The target is no environment, or cannot be imported.
        UserError: Some subclass: there is none of that id, it refuses its options, it has no such split.
    """
    subject = subject_of(target, options, quick=quick, split=split, env=env, token=token, transport=transport)
    try:
        fault = harm(subject) if ahead else None
        never = _begun(subject) if fault is None else None
        findings: list[Finding] = []
        for number, check in enumerate(CHECKS, start=1):
            if fault is not None:
                findings.append(_harmed(check, fault))
            else:
                findings.append(_unbegun(check, subject, never) if never is not None else made(check, subject))
            subject.tidy()
            progress(number, len(CHECKS), sum(finding.status == "failed" for finding in findings))
        tasks = () if fault is not None else tuple(f"{ref.split}/{ref.index}" for ref in subject.refs)
        return Report(subject.name, subject.spec, quick, tasks, tuple(findings))
    finally:
        subject.end()


def subject_of(
    target: str | type[Environment],
    options: Mapping[str, Any] | None = None,
    *,
    quick: bool = False,
    split: str | None = None,
    env: str | None = None,
    token: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Subject:
    """Return what is checked, here or behind a wire; see :func:`check_env`."""
    effort = QUICK if quick else FULL
    if not is_url(target):
        return find(target, options or {}, effort, split)
    from agentenvs.harness.check.remote import Remote

    return Remote(env, str(target), options or {}, effort, split, token=token, transport=transport)


def is_url(target: Any) -> bool:
    """Whether a target is the URL of a server."""
    return isinstance(target, str) and target.startswith(("http://", "https://"))


def spec_of(target: Any, env: str | None = None) -> EnvSpec:
    """Return the spec of a target.

    Raises:
        UserError: Some subclass: the target is none, or its server stays away.
    """
    if is_url(target):
        from agentenvs.harness.check.remote import Remote

        return Remote(env, target, {}, QUICK).spec
    return find(target, {}).spec


def find(target: Any, options: Mapping[str, Any], effort: Effort = FULL, split: str | None = None) -> Local:
    """Return the subject in this process that a target names.

    Raises:
        ConfigError: It is none.
        UnknownEnvError: There is none of that id.
    """
    if inspect.isclass(target):
        return of_class(target, options, effort, split)
    if not isinstance(target, str):
        raise ConfigError(
            f"a {type(target).__name__} cannot be checked", fix="give a class, module:Class, a file, an id, or a URL"
        )
    if targets.is_source(target):
        return of_class(targets.class_of(target), options, effort, split)
    return of_id(target, options, effort, split)


def made(check: Check, subject: Subject) -> Finding:
    """Make one check; whatever an environment raises in it is a fault of the environment."""
    started = time.monotonic()
    status, faults, why, lost = _outcome(check, subject)
    seconds = time.monotonic() - started
    return Finding(check.name, check.theme, check.title, status, faults, why, lost, check.promise, seconds)  # type: ignore[arg-type]


def _harmed(check: Check, fault: Fault) -> Finding:
    """Return what comes of a check where the environment would take this process with it."""
    if check is hosting.undone:
        return Finding(check.name, check.theme, check.title, "failed", (fault,))
    return Finding(check.name, check.theme, check.title, "skipped", why="it would take the check with it")


def _unbegun(check: Check, subject: Subject, never: Raised) -> Finding:
    """Return what comes of a check where no episode begins: all but a few would say so once more."""
    if check is views.plays_on:
        faults = (replace(_fault_of(never.error), where=_at(never)),)
        return Finding(check.name, check.theme, check.title, "failed", faults)
    if check in _WITHOUT_EPISODE and not _is_silent(never):
        return made(check, subject)
    return Finding(check.name, check.theme, check.title, "skipped", why="no task can be begun")


_WITHOUT_EPISODE = (interface.spec, interface.reserved_names, interface.entry_points, interface.options)
"""What can be said of an environment of which no task can be begun."""


def _is_silent(never: Raised) -> bool:
    cause = never.error.__cause__
    return isinstance(cause, WorkerFailure) and cause.code == "step_timeout"


def _outcome(check: Check, subject: Subject) -> tuple[str, tuple[Fault, ...], str, str]:
    if check.promise and not getattr(subject.spec.capabilities, check.promise):
        return "skipped", (), f"the spec says {check.promise}: false", check.lost
    if blind := [sight for sight in check.needs if sight not in subject.sights]:
        why = subject.unseen.get(blind[0], "")
        return "skipped", (), f"{UNSEEN}: {blind[0].value}" + (f" ({why})" if why else ""), ""
    if check in _COSTLY and worn(subject):
        return "skipped", (), "its turns have to be undone again and again: mend that first", ""
    try:
        faults = tuple(islice(check.run(subject), MOST_FAULTS))
    except Skip as skip:
        return "skipped", (), skip.why, check.lost if skip.lost is None else skip.lost
    except Raised as error:
        faults = (replace(_fault_of(error.error), where=_at(error)),)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - boundary: what is checked may raise anything
        faults = (_fault_of(error),)
    return ("failed" if faults else "passed"), faults, "", ""


_COSTLY = (
    *(
        check
        for theme in (determinism, elsewhere, branching, records, junk, secrets, endings)
        for check in theme.CHECKS
    ),
    *(gymnasium_face.env_checker, hosting.memory, rewards.after_the_end, rewards.verdicts),
)
"""Checks that play a great deal."""


def _at(error: Raised) -> str:
    return f"{error.where} ({error.place})" if error.place else error.where


def _fault_of(error: BaseException) -> Fault:
    fix = (error.fix if isinstance(error, AgentEnvsError) else "") or "mend the environment"
    return Fault(f"the environment raises {raised(error)}", Raised("", error).place, fix)


def _begun(subject: Subject) -> Raised | None:
    """See that the environment can be made, and that its first task is one.

    What an environment does wrong when it is begun is left for the checks to tell.

    Returns:
        What was raised where none of its tasks can be begun.

    Raises:
        UserError: It refuses its options, its data, or the split; or it cannot be made.
    """
    try:
        subject.make()
        _ = subject.refs
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        where = Raised("", error).place
        raise ConfigError(f"{subject.name} cannot be made", why=f"{where}: {raised(error)}", fix="mend it") from error
    first: Raised | None = None
    for ref in subject.refs:
        try:
            subject.episode(ref).begin()
        except Raised as error:
            if isinstance(error.error, UserError):
                raise error.error from None
            first = first or error
            if _is_silent(error):
                break
        else:
            return None
        finally:
            subject.tidy()
    return first
