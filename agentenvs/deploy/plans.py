"""What a world's container is to be: its image, its limits, and nothing that a world does not need."""

from __future__ import annotations

import re
from collections.abc import Mapping
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

FEWEST_CPUS = 0.01
"""Less than that the engine cannot give."""

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
        if not self.cpus >= FEWEST_CPUS:
            raise ConfigError(f"{self.cpus} processors are none", fix=f"name a number from {FEWEST_CPUS} on")
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

    def differs(self, attrs: Mapping[str, Any], image: str | None) -> tuple[str, ...]:
        """Return what a container that is there has otherwise: ``image``, ``port``, ``memory``, ….

        Args:
            attrs: The container, as the engine describes it.
            image: The id of the image as it is now; None where the engine does not have it.
        """
        host, config = attrs["HostConfig"], attrs["Config"]
        variables = dict(pair.partition("=")[::2] for pair in config["Env"] or ())
        folders = {mount["Destination"]: mount.get("Source") for mount in attrs["Mounts"]}
        (bound,) = host["PortBindings"].get(f"{PORT}/tcp") or ({"HostPort": ""},)
        same = {
            "image": config["Image"] == self.image and image in (None, attrs["Image"]),
            "port": self.port is None or bound["HostPort"] == str(self.port),
            "memory": host["Memory"] == self.bytes_of_memory,
            "cpus": host["NanoCpus"] == int(self.cpus * 1e9),
            "network": host["NetworkMode"] in ((self.network,) if self.network else ("default", "bridge")),
            "options": variables.get("AGENTENVS_SERVE_OPTION", "") == " ".join(self.options),
            "data": folders.get(DATA) == (self.data and str(self.data.resolve())),
            "prepared": folders.get(PREPARED) == (self.prepared and str(self.prepared.resolve())),
        }
        return tuple(name for name, is_same in same.items() if not is_same)

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`docker.models.containers.ContainerCollection.create` takes, but the port."""
        from docker.types import Mount

        labels = {WORLD_LABEL: self.world}
        mounts = [Mount("/data", self.name, labels=labels)]  # of a volume that is not there, made with these labels
        for folder, where in ((self.data, DATA), (self.prepared, PREPARED)):
            if folder is not None:
                mounts.append(Mount(where, str(folder.resolve()), type="bind", read_only=True))
        return {
            "image": self.image,
            "name": self.name,
            "labels": labels,
            "environment": self.environment(),
            "mounts": mounts,
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
