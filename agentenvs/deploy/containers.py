"""Worlds in containers: up, down, and what is there. Only containers with this module's label are touched.

A container publishes one port, on the loopback address of this machine. Its sessions are kept in a volume of its own,
which outlives it unless somebody says otherwise. What cannot be started leaves nothing; what was up before stays up.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.deploy.engine import told
from agentenvs.deploy.images import exists, missing
from agentenvs.deploy.plans import PORT, WORLD_LABEL, Plan

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

ADDRESS = "127.0.0.1"

FIRST_PORT, LAST_PORT = 8000, 8999
"""Where free ports are looked for, so that the first world is where people look first."""

STOP_SECONDS = 30
"""How long a container may drain before it is killed."""

READY_SECONDS = 60.0
"""How long a world may take until it is ready."""

_LOG_LINES = 12

Progress = Callable[[str, float], None]
"""Called with how a container stands, in a word, and the seconds it was waited for."""


@dataclass(frozen=True)
class Running:
    """A world in a container."""

    world: str
    name: str
    image: str
    state: str
    """``running``, ``exited``, …, as the engine says it; ``healthy`` and ``unhealthy`` where it knows."""
    url: str | None
    token: str = field(repr=False)
    differs: tuple[str, ...] = ()
    """What :func:`up` was asked for and is otherwise, since it was up already: ``memory``, ``port``, …"""

    def to_json(self, *, secret: bool = False) -> dict[str, Any]:
        """Return the JSON form.

        Args:
            secret: With the token.
        """
        shown = {"world": self.world, "state": self.state, "url": self.url, "image": self.image, "name": self.name}
        return {**shown, "token": self.token} if secret else shown


def up(
    engine: DockerClient,
    plan: Plan,
    *,
    seconds: float = READY_SECONDS,
    progress: Progress = lambda state, seconds: None,
) -> Running:
    """Start a world and wait until it is ready; one that is up already stays as it is.

    Args:
        engine: Of :func:`~agentenvs.deploy.connect`.
        plan: What to run.
        seconds: How long it may take.
        progress: Told how it stands, several times a second.

    Raises:
        ConfigError: No image, no port, not enough memory, or the world does not start.
        ServiceError: It is not ready in time, or the engine went away.
    """
    from docker.errors import APIError

    with told(f"start {plan.world}"):
        container = _of(engine, plan.name)
        if container is None:
            try:
                return _anew(engine, plan, seconds, progress)
            except APIError as error:
                container = _others(engine, plan.name) if error.status_code == HTTPStatus.CONFLICT else None
                if container is None:
                    raise
        return _again(engine, container, plan, seconds, progress)


def down(engine: DockerClient, worlds: Iterable[str] = (), *, forget: bool = False) -> list[str]:
    """Stop worlds in order, and remove their containers.

    Args:
        engine: Of :func:`~agentenvs.deploy.connect`.
        worlds: Those; all that are up otherwise.
        forget: Remove what their sessions are kept in, too, also of worlds that are not up any more.

    Returns:
        The worlds that were stopped or forgotten, in order.

    Raises:
        ConfigError: One that is named is not up, and there is nothing of it to be forgotten.
    """
    from docker.errors import NotFound

    with told("stop the worlds"):
        there = {str(container.name): container for container in _all(engine)}
        kept = _own_volumes(engine) if forget else {}
        wanted = {Plan(world, "").name: world for world in worlds} or dict.fromkeys([*there, *kept], "")
        for name, world in wanted.items():
            if name not in there and name not in kept:
                raise _not_up(engine, world)
        found = [there[name] for name in wanted if name in there]
        gone = [kept[name] for name in wanted if name in kept]
        with ThreadPoolExecutor(max(len(found), 1)) as pool:  # each drains for some seconds
            list(pool.map(_stop, found))
        for volume in gone:
            with suppress(NotFound):
                volume.remove()
        labels = [*(container.labels for container in found), *(volume.attrs["Labels"] for volume in gone)]
        return sorted({label[WORLD_LABEL] for label in labels})


def ps(engine: DockerClient) -> list[Running]:
    """Return the worlds in containers that :func:`up` has made, by name."""
    with told("say what is up"):
        return sorted(map(_seen, _all(engine)), key=lambda one: one.name)


def find(engine: DockerClient, world: str) -> Running:
    """Return a world that is up.

    Raises:
        ConfigError: It is not.
    """
    with told(f"find {world}"):
        return _seen(_known(engine, world))


def logs(engine: DockerClient, world: str, *, lines: int | None = None, follow: bool = False) -> Iterator[str]:
    """Return what a world's server has logged, line by line.

    Args:
        engine: Of :func:`~agentenvs.deploy.connect`.
        world: Which.
        lines: The last so many; all otherwise.
        follow: Wait for more.

    Raises:
        ConfigError: It is not up.
    """
    with told(f"read the log of {world}"):
        container = _known(engine, world)
        kept = b""
        for part in container.logs(stream=True, follow=follow, tail="all" if lines is None else lines):
            *whole, kept = (kept + part).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
        if kept:
            yield kept.decode("utf-8", "replace")


# ---- making one ------------------------------------------------------------------------------------------------------


def _anew(engine: DockerClient, plan: Plan, seconds: float, progress: Progress) -> Running:
    """Make a container, and its volume where there is none yet, and wait; leave neither where it does not get ready."""
    _refuse_impossible(engine, plan)
    has_volume = plan.name in _own_volumes(engine)
    container = _published(engine, plan, has_volume)
    with _removed_unless_up(engine, container, has_volume):
        _wait(container, plan.world, plan.memory, seconds, progress)
    return _settled(container)


@contextmanager
def _removed_unless_up(engine: DockerClient, container: Container, keep_volume: bool) -> Iterator[None]:
    """Remove a container, and its volume where that is to be, unless all goes well; Ctrl-C does not."""
    from docker.errors import APIError

    is_up = False
    try:
        yield
        is_up = True
    finally:
        if not is_up:
            container.remove(force=True)
            volume = _own_volumes(engine).get(str(container.name))
            if volume is not None and not keep_volume:
                with suppress(APIError):  # somebody else's container has it by now
                    volume.remove()


def _others(engine: DockerClient, name: str) -> Container | None:
    """Return the container of somebody who was faster: its name is taken before it can be found."""
    for _ in range(50):
        if (found := _of(engine, name)) is not None:
            return found
        time.sleep(0.1)
    return None


def _again(engine: DockerClient, container: Container, plan: Plan, seconds: float, progress: Progress) -> Running:
    """Wait for a container that is there, started or not; one that was running stays, whatever comes of it."""
    was = container.status
    if was == "paused":
        container.unpause()
    elif was != "running":
        container.start()
    with nullcontext() if was in ("paused", "running") else _removed_unless_up(engine, container, keep_volume=True):
        _wait(container, plan.world, plan.memory, seconds, progress)
    image = engine.images.get(plan.image).id if exists(engine, plan.image) else None
    return _settled(container, plan.differs(container.attrs, image))


def _settled(container: Container, differs: tuple[str, ...] = ()) -> Running:
    """Let it be started again whenever it ends; not before it was ready once: what cannot start shall not go on."""
    container.update(restart_policy={"Name": "always"})
    container.reload()
    return replace(_seen(container), differs=differs)


def _stop(container: Container) -> None:
    """Stop and remove a container, whoever else does the same."""
    from docker.errors import APIError, NotFound

    with suppress(NotFound):
        container.stop(timeout=STOP_SECONDS)
        try:
            container.remove()
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
            container.wait(condition="removed", timeout=STOP_SECONDS)


def _refuse_impossible(engine: DockerClient, plan: Plan) -> None:
    if not exists(engine, plan.image):
        raise missing(plan.image)
    has = int(engine.info()["MemTotal"])
    if plan.bytes_of_memory > has:
        raise ConfigError(
            f"{plan.world} is to have {plan.memory} of memory",
            why=f"the engine's machine has {has / 2**30:.1f} GiB",
            fix="name less: --memory 512m",
        )
    _refuse_strangers(engine, plan)


def _refuse_strangers(engine: DockerClient, plan: Plan) -> None:
    """Refuse a name that somebody else's container or volume has."""
    containers = engine.containers.list(all=True, filters={"name": f"^{plan.name}$"})
    volumes = [one for one in engine.volumes.list(filters={"name": plan.name}) if one.name == plan.name]
    labels = [*(container.labels for container in containers), *(volume.attrs["Labels"] or {} for volume in volumes)]
    if any(WORLD_LABEL not in label for label in labels):
        raise ConfigError(
            f"the name {plan.name} is taken by something that `agentenvs up` has not made",
            fix="rename or remove it; agentenvs stops only its own",
        )


def _published(engine: DockerClient, plan: Plan, has_volume: bool) -> Container:
    """Make and start the container on the port that is wanted, or on the first that is free."""
    from docker.errors import APIError

    for port in free_ports() if plan.port is None else (plan.port,):
        container = engine.containers.create(ports={f"{PORT}/tcp": (ADDRESS, port)}, **plan.arguments())
        try:
            with _removed_unless_up(engine, container, has_volume):
                container.start()
        except APIError as error:
            taken = "port is already allocated" in str(error) or "address already in use" in str(error)
            if taken and plan.port is None:
                continue  # somebody was faster
            raise
        return container
    raise ConfigError(f"no port from {FIRST_PORT} to {LAST_PORT} is free", fix="name one: --port")


def free_ports() -> Iterator[int]:
    """Return the ports that nobody listens on."""
    for port in range(FIRST_PORT, LAST_PORT + 1):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((ADDRESS, port))
            except OSError:
                continue
        yield port


def _wait(container: Container, world: str, memory: str, seconds: float, progress: Progress) -> None:
    """Wait until it answers that it is ready.

    Raises:
        ConfigError: It ended.
        ServiceError: It takes too long.
    """
    began = time.monotonic()
    while True:
        container.reload()
        if container.status != "running":
            raise _ended(container, world, memory)
        url = url_of(container)
        if url is not None and ready_at(url):
            progress("ready", time.monotonic() - began)
            return
        waited = time.monotonic() - began
        progress("starting", waited)
        if waited > seconds:
            raise ServiceError(
                f"{world} is not ready after {seconds:g} s", why=last_words(container), fix="give it longer: --wait"
            )
        time.sleep(0.2)


def _ended(container: Container, world: str, memory: str) -> ConfigError:
    state = container.attrs["State"]
    if state.get("OOMKilled"):
        return ConfigError(f"{world} needs more than its {memory} of memory", fix="give it more: --memory 2g")
    return ConfigError(f"{world} ended at once with exit code {state['ExitCode']}", why=last_words(container))


def last_words(container: Container) -> str:
    """Return how a container's log ends."""
    said = container.logs(tail=_LOG_LINES).decode("utf-8", "replace").strip()
    return f"its log ends: {said}" if said else "it has logged nothing"


def ready_at(url: str) -> bool:
    """Return whether a server takes sessions."""
    import httpx

    try:
        return httpx.get(f"{url}/ready", timeout=2.0, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


# ---- finding one -----------------------------------------------------------------------------------------------------


def _all(engine: DockerClient) -> Sequence[Container]:
    return list(engine.containers.list(all=True, filters={"label": WORLD_LABEL}))


def _own_volumes(engine: DockerClient) -> dict[str, Any]:
    return {volume.name: volume for volume in engine.volumes.list(filters={"label": WORLD_LABEL})}


def _of(engine: DockerClient, name: str) -> Container | None:
    return next((container for container in _all(engine) if container.name == name), None)


def _known(engine: DockerClient, world: str) -> Container:
    found = _of(engine, Plan(world, "").name)
    if found is None:
        raise _not_up(engine, world)
    return found


def _not_up(engine: DockerClient, world: str) -> ConfigError:
    others = ", ".join(sorted(container.labels[WORLD_LABEL] for container in _all(engine)))
    return ConfigError(
        f"{world} is not up", why=f"up are: {others or 'none'}", fix=f"agentenvs up {world}; agentenvs ps"
    )


def _seen(container: Container) -> Running:
    variables = dict(pair.partition("=")[::2] for pair in container.attrs["Config"]["Env"] or [])
    health = container.attrs["State"].get("Health", {}).get("Status", "")
    state = health if container.status == "running" and health in ("healthy", "unhealthy") else container.status
    image = container.attrs["Config"]["Image"]
    token = variables.get("AGENTENVS_TOKEN", "")
    return Running(container.labels[WORLD_LABEL], str(container.name), image, state, url_of(container), token)


def url_of(container: Container) -> str | None:
    """Return where a container's server is reached from this machine; None where it is not."""
    published = (container.attrs["NetworkSettings"]["Ports"] or {}).get(f"{PORT}/tcp") or []
    return f"http://{ADDRESS}:{published[0]['HostPort']}" if published else None
