"""The Docker engine of this machine, and what it says when something cannot be, in words that help."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentenvs.core.errors import AgentEnvsError, ConfigError, ServiceError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.errors import APIError

SECONDS = 120
"""How long an answer of the engine is waited for: it may be busy with an image."""

_HERE = ("localhost", "127.0.0.1", "::1", "localnpipe")
"""What the SDK calls the hosts of engines of this machine, reached by a socket, a pipe or a port."""


def connect() -> DockerClient:
    """Return a client of the engine that ``DOCKER_HOST`` names, or of this machine's.

    Raises:
        ServiceError: None answers, or it may not be used.
        ConfigError: It is on another machine, whose ports cannot be reached from here.
    """
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=SECONDS)
        client.ping()
    except DockerException as error:
        raise _absent(error) from error
    except OSError as error:  # the SDK lets some of them through: a name that cannot be resolved, a key that is none
        raise _absent(error) from error
    host = urlsplit(client.api.base_url).hostname or ""
    if host not in _HERE:
        client.close()
        raise ConfigError(
            f"the Docker engine is on another machine, {os.environ.get('DOCKER_HOST', host)}",
            why="worlds are published on its own loopback address, which cannot be reached from here",
            fix="unset DOCKER_HOST, or run this command there",
        )
    return client


def _absent(error: Exception) -> ServiceError:
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    if any(isinstance(cause, PermissionError) for cause in causes) or "Permission denied" in str(error):
        return ServiceError(
            "the Docker engine may not be used",
            why="this user may not open its socket",
            fix="add the user to the group docker, or run as root; DOCKER_HOST names another engine",
        )
    return ServiceError(
        "no Docker engine answers",
        why=str(error)[:300],
        fix="start Docker, or set DOCKER_HOST to where it listens; agentenvs serve needs none",
    )


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn what the engine refuses into a message.

    Args:
        what: What was asked of it: ``start household``.

    Raises:
        ConfigError: It refuses.
        ServiceError: It went away.
    """
    import requests
    from docker.errors import APIError, DockerException

    try:
        yield
    except AgentEnvsError:
        raise
    except APIError as error:
        raise _refused(what, error) from error
    except (DockerException, requests.RequestException) as error:
        raise ServiceError(f"the Docker engine did not {what}", why=str(error)[:300], fix="is it still up?") from error


def _refused(what: str, error: APIError) -> ConfigError:
    said = " ".join(str(error.explanation or error).split())
    fixes = {
        "port is already allocated": "name another --port, or none",
        "address already in use": "name another --port, or none",
        "memory limit": "raise --memory",
        "range of CPUs": "name fewer: --cpus 1",
        "No such image": "build it first",
        "No such container": "it was removed meanwhile: try again",
        "network": "docker network ls shows those that are there",
        "no space left": "docker system prune gives room",
    }
    fix = next((fix for words, fix in fixes.items() if words.lower() in said.lower()), "")
    return ConfigError(f"the Docker engine does not {what}", why=said[:300], fix=fix)
