"""A container for as long as it is looked at: shut off as `up` shuts worlds off, and gone afterwards."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.deploy.containers import ADDRESS, last_words, ready_at, url_of
from agentenvs.deploy.engine import told
from agentenvs.deploy.images import exists, missing
from agentenvs.deploy.plans import PORT, confined

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

TRIAL_LABEL = "io.agentenvs.trial"
"""Label of containers that are there for a check alone."""

MEMORY = 2**30


class Trial:
    """A container of an image, and what its server is asked with.

    Args:
        container: The container, started.
        url: Where its server answers.
        token: What it asks for.
    """

    def __init__(self, container: Container, url: str, token: str) -> None:
        self._container = container
        self.url = url
        self.token = token

    def health(self, seconds: float) -> str:
        """Return what its own health check says; empty where it has none.

        Args:
            seconds: How long it is waited for while it is starting.
        """
        until = time.monotonic() + seconds
        while True:
            self._container.reload()
            said = self._container.attrs["State"].get("Health", {}).get("Status", "")
            if said not in ("starting", "unhealthy") or time.monotonic() > until:
                return str(said)
            time.sleep(0.2)

    def terminate(self) -> None:
        """Send SIGTERM, as an engine does that stops a container."""
        self._container.kill(signal="SIGTERM")

    def exit_code(self, seconds: float) -> int | None:
        """Return with which code it ended; None where it still runs.

        Args:
            seconds: How long it is waited for.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._container.reload()
            if self._container.status == "exited":
                return int(self._container.attrs["State"]["ExitCode"])
            time.sleep(0.1)
        return None


@contextmanager
def trying(engine: DockerClient, image: str, seconds: float) -> Iterator[Trial]:
    """Run an image for as long as the context lasts.

    Args:
        engine: Of :func:`~agentenvs.deploy.connect`.
        image: Its name.
        seconds: How long its server may take until it is ready.

    Raises:
        ConfigError: There is no such image, or it does not run.
        ServiceError: Its server is not ready in time.
    """
    token = secrets.token_hex(32)
    with told(f"run {image}"):
        if not exists(engine, image):
            raise missing(image)
        container = engine.containers.create(
            image=image,
            labels={TRIAL_LABEL: "check"},
            environment={"AGENTENVS_TOKEN": token},
            ports={f"{PORT}/tcp": (ADDRESS, 0)},
            volumes=["/data"],  # of its own, as the image has it; gone with the container
            **confined(MEMORY),
        )
        try:
            container.start()
            yield Trial(container, _answering(container, image, seconds), token)
        finally:
            container.remove(force=True, v=True)


def _answering(container: Container, image: str, seconds: float) -> str:
    until = time.monotonic() + seconds
    while True:
        container.reload()
        if container.status != "running":
            code = container.attrs["State"]["ExitCode"]
            raise ConfigError(
                f"{image} ended with exit code {code}",
                why=last_words(container),
                fix="it has to serve port 8000 with a read-only root, no capabilities and AGENTENVS_TOKEN set",
            )
        url = url_of(container)
        if url is not None and ready_at(url):
            return url
        if time.monotonic() > until:
            raise ServiceError(
                f"{image} does not answer on port {PORT} after {seconds:g} s",
                why=last_words(container),
                fix="EXPOSE 8000, and listen on 0.0.0.0",
            )
        time.sleep(0.2)
