"""An environment in an image: what can be seen of the image, what its container does, and all that a server shows.

The container is run as `agentenvs up` runs worlds: with a read-only root, without capabilities, as the image's own
user. Then its server is checked by its URL like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentenvs import deploy
from agentenvs.client import ClientSettings, RemoteEnv
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.findings import Fault, Finding, raised
from agentenvs.harness.check.run import Progress, check_env

if TYPE_CHECKING:
    from docker import DockerClient

    from agentenvs.harness.check.report import Report

PREFIX = "docker:"
"""Of a target that is an image in any case."""

READY_SECONDS = 60.0
"""How long a server may take until it is ready."""

STOP_SECONDS = 30.0
"""How long it may take to end; engines and clusters kill after that by default."""

LARGEST = 4 * 2**30
"""Bytes of an image that is larger than any world needs: every node pulls them before the first session."""

_PATIENCE = 3.0
"""Seconds for which an answer to a turn is asked for after SIGTERM."""

_IN_ORDER = (0, 143)
"""Exit codes of a server that was told to end and did: by itself, and by the signal once it had answered."""

_MOST = 5
"""Secrets of a layer that are listed."""


def is_image(target: str) -> bool:
    """Whether a target names an image that this machine's engine has.

    Args:
        target: What somebody wants checked; not asked of an engine where it begins with ``docker:``.
    """
    if target.startswith(PREFIX):
        return True
    try:
        engine = deploy.connect()
    except AgentEnvsError:
        return False
    try:
        return deploy.exists(engine, target)
    finally:
        engine.close()


def check_image(
    target: str,
    *,
    quick: bool = False,
    options: Mapping[str, Any] | None = None,
    split: str | None = None,
    env: str | None = None,
    progress: Progress = lambda done, total, failed: None,
) -> Report:
    """Check an image, and the environment that it serves; see :func:`~agentenvs.harness.check.check_env`.

    Args:
        target: The image's name, with or without ``docker:`` before it.
        quick: Try less of everything.
        options: Options that episodes are played with.
        split: The one split to look at.
        env: Which environment of its server; its only one otherwise.
        progress: Called after each check of the environment.

    Raises:
        ConfigError: There is no such image, or its container ends at once.
        ServiceError: No engine, or its server does not answer.
    """
    name = target.removeprefix(PREFIX)
    engine = deploy.connect()
    try:
        seen = [*_seen(engine, name)]
        with _running(engine, name, seen) as trial:
            seen += _alive(trial)
            report = check_env(
                trial.url, quick=quick, options=options, split=split, env=env, token=trial.token, progress=progress
            )
            seen.append(_made("drains", "SIGTERM drains: what runs is answered, then it ends", _drains(trial, report)))
    finally:
        engine.close()
    return replace(report, target=name, findings=(*seen, *report.findings))


@contextmanager
def _running(engine: DockerClient, name: str, seen: list[Finding]) -> Iterator[deploy.Trial]:
    """Run the image; where it does not, say also what was seen of it."""
    with ExitStack() as stack:
        try:
            trial = stack.enter_context(deploy.trying(engine, name, READY_SECONDS))
        except AgentEnvsError as error:
            faults = "; ".join(fault.what for finding in seen for fault in finding.faults)
            if not faults:
                raise
            raise type(error)(error.what, why=f"{error.why}; and of the image: {faults}", fix=error.fix) from error
        yield trial


def _made(name: str, title: str, faults: Iterator[Fault]) -> Finding:
    began = time.monotonic()
    try:
        found = tuple(islice(faults, _MOST))
    except AgentEnvsError as error:
        found = (Fault(raised(error), fix=error.fix),)
    status = "failed" if found else "passed"
    return Finding(name, "image", title, status, found, seconds=time.monotonic() - began)  # type: ignore[arg-type]


# ---- what can be seen without running it -----------------------------------------------------------------------------


def _seen(engine: DockerClient, name: str) -> Iterator[Finding]:
    image = deploy.look(engine, name)
    looks: list[tuple[str, str, Callable[[deploy.Image], Iterator[Fault]]]] = [
        ("user", "it does not run as root", _user),
        ("healthcheck", "it has a health check", _healthcheck),
        ("port", f"it names port {deploy.PORT}", _port),
        ("labels", "its labels say what it is, and which version", _labels),
        ("size", f"it is no larger than it need be ({image.bytes / 1e6:,.0f} MB)", _size),
        ("variables", "no secret stands in its variables or its history", _variables),
    ]
    for check, title, run in looks:
        yield _made(check, title, run(image))
    yield _made("layers", "no secret lies in any of its layers", _layers(engine, name))


def _user(image: deploy.Image) -> Iterator[Fault]:
    if image.is_root:
        yield Fault("it runs as root", f"USER {image.user or 'is not set'}", "USER 10001:10001, or another number")
    elif not image.user.partition(":")[0].isdigit():
        yield Fault(
            "its user is a name", f"USER {image.user}", "write its number: clusters refuse names (runAsNonRoot)"
        )


def _healthcheck(image: deploy.Image) -> Iterator[Fault]:
    if image.healthcheck[:1] in ((), ("NONE",)):
        yield Fault("nobody can tell whether it works", fix="HEALTHCHECK CMD …, of GET /ready on port 8000")


def _port(image: deploy.Image) -> Iterator[Fault]:
    if f"{deploy.PORT}/tcp" not in image.ports:
        yield Fault(f"it names {', '.join(image.ports) or 'no port'}", fix=f"EXPOSE {deploy.PORT}, and listen there")


def _labels(image: deploy.Image) -> Iterator[Fault]:
    for label in ("title", "version"):
        if not image.labels.get(f"org.opencontainers.image.{label}"):
            yield Fault(f"it does not tell its {label}", fix=f'LABEL org.opencontainers.image.{label}="…"')


def _size(image: deploy.Image) -> Iterator[Fault]:
    if image.bytes > LARGEST:
        yield Fault(f"it has {image.bytes / 2**30:.1f} GiB", fix="build in a stage of its own, and copy what is run")


def _variables(image: deploy.Image) -> Iterator[Fault]:
    for where in image.secrets():
        yield Fault(where, fix="hand it over when it is run; in a build, RUN --mount=type=secret")


def _layers(engine: DockerClient, name: str) -> Iterator[Fault]:
    for where in deploy.secret_files(engine, name):
        yield Fault(
            "a file looks like a secret", where, "leave it out (.dockerignore): a later layer only hides what is there"
        )


# ---- what its container does -----------------------------------------------------------------------------------------


def _alive(trial: deploy.Trial) -> Iterator[Finding]:
    yield _made("confined", "it runs with a read-only root, no capabilities, no new rights", iter(()))
    yield _made("healthy", "its health check finds it healthy", _healthy(trial))
    yield _made("closed", "whoever has no token controls nothing", _closed(trial))


def _healthy(trial: deploy.Trial) -> Iterator[Fault]:
    if (said := trial.health(READY_SECONDS)) not in ("healthy", ""):
        yield Fault(f"its server is ready, and its health check says {said}", fix="docker inspect shows what it prints")


def _closed(trial: deploy.Trial) -> Iterator[Fault]:
    import httpx

    answer = httpx.get(f"{trial.url}/v1/envs", timeout=10.0, trust_env=False)
    if answer.status_code == httpx.codes.OK:
        yield Fault("GET /v1/envs is answered without the token", fix="leave --insecure out; heed AGENTENVS_TOKEN")


def _drains(trial: deploy.Trial, report: Report) -> Iterator[Fault]:
    """Send SIGTERM in the middle of an episode: the next turn is still answered, a new session is not."""
    split, _, index = report.tasks[0].partition("/")
    settings = ClientSettings(patience=_PATIENCE)
    with RemoteEnv(report.spec.id, trial.url, token=trial.token, settings=settings) as env:
        env.reset(TaskRef(split, int(index)))
        trial.terminate()
        try:
            env.step("")
        except AgentEnvsError as error:
            yield Fault("a turn is not answered after SIGTERM", raised(error), "drain: AGENTENVS_SERVE_DRAIN_SECONDS=5")
    code = trial.exit_code(STOP_SECONDS)
    if code is None:
        yield Fault(f"it runs on {STOP_SECONDS:g} s after SIGTERM", fix="CMD as a list, so that no shell stands before")
    elif code not in _IN_ORDER:
        yield Fault(f"it ends with exit code {code} after SIGTERM", fix="end in order, with 0 or 143")
