"""What a world's container is to be: its image, its limits, and nothing that a world does not need."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentenvs.core.errors import ConfigError, DataError

PORT = 8000
"""Where every image listens."""

WORLD_LABEL = "io.agentenvs.up"
"""Label of the containers and volumes that :func:`~agentenvs.deploy.up` has made: the world in them."""

DATA, PREPARED = "/world-data", "/prepared"
"""Where folders of the machine stand in a container."""

USER = 10001
"""Of the suite's image; owns what is in ``/data``."""

_NAME = re.compile(r"[^a-z0-9_.-]+")


@dataclass(frozen=True)
class Plan:
    """What to run.

    Raises:
        ConfigError: A number or a name makes no sense.
        DataError: A folder is not there.
    """

    world: str
    """Id or slug, as the server in the image knows it."""
    image: str
    port: int | None = None
    """Of this machine; None for a free one."""
    token: str = field(default="", repr=False)
    memory: str = "1g"
    cpus: float = 1.0
    processes: int = 256
    data: Path | None = None
    """A folder of the field's files, seen by the world and not written."""
    prepared: Path | None = None
    """A folder that ``agentenvs prepare`` has written, likewise."""
    network: str | None = None
    """Of the engine; its ordinary bridge where None."""
    options: tuple[str, ...] = ()
    """Of the world, ``name=value``."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if not self.name:
            raise ConfigError(f"{self.world!r} is no name of a world", fix="agentenvs list shows them")
        if self.port is not None and not 0 < self.port < 2**16:
            raise ConfigError(f"there is no port {self.port}", fix="name one from 1 to 65535, or none")
        if not self.cpus > 0:
            raise ConfigError(f"{self.cpus} processors are none", fix="name a number above 0")
        if spaced := next((option for option in self.options if not option or len(option.split()) > 1), None):
            raise ConfigError(
                f"the option {spaced!r} cannot be handed to a container", why="a blank ends an option in a variable"
            )
        for folder in filter(None, (self.data, self.prepared)):
            if not folder.is_dir():
                raise DataError(f"there is no folder {folder}", fix="name one that is there")

    @property
    def name(self) -> str:
        """The name of its container, and of the volume that its sessions are kept in."""
        slug = _NAME.sub("-", self.world.lower()).strip("-.")
        return f"agentenvs-{slug}" if slug else ""

    @property
    def bytes_of_memory(self) -> int:
        """How much it may use.

        Raises:
            ConfigError: The size is none.
        """
        from docker.errors import DockerException
        from docker.utils import parse_bytes

        try:
            return int(parse_bytes(self.memory))
        except DockerException as error:
            raise ConfigError(f"{self.memory!r} is no amount of memory", fix="write 512m, or 2g") from error

    def environment(self) -> dict[str, str]:
        """Return its variables."""
        made = {"AGENTENVS_TOKEN": self.token, "AGENTENVS_SERVE_ENVS": self.world}
        if self.options:
            made["AGENTENVS_SERVE_OPTION"] = " ".join(self.options)
        if self.prepared is not None:
            made["AGENTENVS_PREPARED"] = PREPARED
        if self.data is not None:
            made["AGENTENVS_SERVE_DATA"] = DATA
        return made

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`docker.models.containers.ContainerCollection.create` takes, but the port."""
        volumes = {self.name: {"bind": "/data", "mode": "rw"}}
        for folder, where in ((self.data, DATA), (self.prepared, PREPARED)):
            if folder is not None:
                volumes[str(folder.resolve())] = {"bind": where, "mode": "ro"}
        return {
            "image": self.image,
            "name": self.name,
            "labels": {WORLD_LABEL: self.world},
            "environment": self.environment(),
            "volumes": volumes,
            "network": self.network,
            **confined(self.bytes_of_memory, self.cpus, self.processes),
        }


def confined(memory: int, cpus: float = 1.0, processes: int = 256) -> dict[str, Any]:
    """Return the arguments that shut a container off: nothing to write but ``/tmp``, no capability, no more rights.

    Args:
        memory: Bytes it may use; swap is not given on top.
        cpus: Processors it may use.
        processes: Processes and threads it may have.
    """
    return {
        "init": True,
        "read_only": True,
        "tmpfs": {"/tmp": "size=64m,mode=1777,noexec,nosuid,nodev"},  # noqa: S108 - in the container, its own
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(cpus * 1e9),
        "pids_limit": processes,
        "log_config": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}},
        "detach": True,
    }
