"""What can be seen of an image without running it: who it runs as, what it says of itself, what lies in its layers.

Files are looked at as they stand in each layer, also those that a later layer removes or covers: whoever has the image
has them.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from agentenvs._version import __version__
from agentenvs.core.errors import ConfigError
from agentenvs.deploy.engine import told

if TYPE_CHECKING:
    from docker import DockerClient

IMAGE = f"agentenvs:{__version__}"
"""The suite's own, as servers/Dockerfile says to tag it."""

VERSION_LABEL = "org.opencontainers.image.version"

SECRET_NAME = re.compile(
    r"(?<!WITHOUT_)(TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL)S?$", re.I
)
"""Names of variables whose values belong to whoever runs an image, not into it."""

_SECRET_FILE = re.compile(
    r"(^|/)(\.env(\.\w+)?|\.netrc|\.pypirc|\.git-credentials|\.npmrc|id_(rsa|dsa|ecdsa|ed25519)|tokens(\.toml)?"
    r"|\.aws/credentials|\.docker/config\.json|\.kube/config|\.git/config|[^/]*\.(key|p12|pfx|kdbx))$"
)
_SECRET_WORDS = {
    b"PRIVATE KEY-----": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"),
    b"AKIA": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
    b"ghp_": re.compile(rb"\bghp_[A-Za-z0-9]{36}\b"),
    b"github_pat_": re.compile(rb"\bgithub_pat_[A-Za-z0-9_]{60}"),
    b"hf_": re.compile(rb"\bhf_[A-Za-z0-9]{34}\b"),
    b"sk-": re.compile(rb"\bsk-[A-Za-z0-9_-]{40}"),
    b"AGENTENVS_": re.compile(rb"AGENTENVS_(?:TOKEN|SEALED_SECRET)=[A-Za-z0-9]{16}"),
}
"""What looks like a key, by a part of it that is fast to find."""

_LARGEST_READ = 2**19
_LARGEST_IN_MEMORY = 64 * 2**20


@dataclass(frozen=True)
class Image:
    """An image, as the engine describes it."""

    name: str
    digest: str
    user: str
    """Whom it runs as; empty for root."""
    ports: tuple[str, ...]
    healthcheck: tuple[str, ...]
    labels: Mapping[str, str]
    variables: Mapping[str, str]
    stop_signal: str
    bytes: int
    history: tuple[str, ...]
    """The steps it was made by, the first one first."""

    @property
    def is_root(self) -> bool:
        """Whether it runs as root."""
        return self.user.partition(":")[0] in ("", "0", "root")

    def secrets(self) -> Iterator[str]:
        """Return where its variables and the steps it was made by hold what should be secret; never the value."""
        for name, value in self.variables.items():
            if value and SECRET_NAME.search(name):
                yield f"the variable {name} has a value"
        for step in self.history:
            for name in re.findall(r"\b([A-Za-z_][A-Za-z0-9_]*)=[^\s=]", step):
                if SECRET_NAME.search(name):
                    yield f"the history shows a value of {name}"
            if has_key(step.encode()):
                yield "the history shows something that looks like a key"


def has_key(data: bytes) -> bool:
    """Return whether something in a text looks like a key."""
    return any(part in data and words.search(data) for part, words in _SECRET_WORDS.items())


def exists(engine: DockerClient, name: str) -> bool:
    """Return whether the engine has an image."""
    from docker.errors import APIError, ImageNotFound

    try:
        engine.images.get(name)
    except ImageNotFound:
        return False
    except APIError as error:
        if error.status_code == 400:  # no image can have such a name
            return False
        raise
    return True


def missing(name: str) -> ConfigError:
    """Return the error of an image that is not there."""
    build = f"docker build -f servers/Dockerfile -t {IMAGE} . (in a checkout of agentenvs)"
    return ConfigError(
        f"the engine has no image {name}",
        why="nothing is fetched from a registry for you",
        fix=build if name == IMAGE else f"build it, or docker pull {name}",
    )


def look(engine: DockerClient, name: str) -> Image:
    """Return what an image says of itself.

    Raises:
        ConfigError: The engine does not have it.
    """
    with told(f"look at {name}"):
        if not exists(engine, name):
            raise missing(name)
        found = engine.images.get(name)
        form: dict[str, Any] = found.attrs
        config = form["Config"]
        return Image(
            name,
            str(found.id),
            config.get("User") or "",
            tuple(config.get("ExposedPorts") or ()),
            tuple((config.get("Healthcheck") or {}).get("Test") or ()),
            dict(config.get("Labels") or {}),
            dict(pair.partition("=")[::2] for pair in config.get("Env") or ()),
            config.get("StopSignal") or "SIGTERM",
            int(form["Size"]),
            tuple(str(step["CreatedBy"]) for step in reversed(found.history())),
        )


def files(engine: DockerClient, name: str) -> Iterator[tuple[str, bytes]]:
    """Return every regular file of every layer of an image: its path, and its beginning.

    Raises:
        ConfigError: The engine does not have the image.
    """
    with told(f"read the layers of {name}"), tempfile.SpooledTemporaryFile(_LARGEST_IN_MEMORY) as held:
        if not exists(engine, name):
            raise missing(name)
        for part in engine.images.get(name).save():
            held.write(part)
        held.seek(0)
        with tarfile.open(fileobj=held) as saved:
            form = _read(saved, "manifest.json")
            for layer in json.loads(form)[0]["Layers"]:
                yield from _files_of(saved.extractfile(layer))


def _read(saved: tarfile.TarFile, name: str) -> bytes:
    file = saved.extractfile(name)
    return b"" if file is None else file.read()


def _files_of(layer: IO[bytes] | None) -> Iterator[tuple[str, bytes]]:
    if layer is None:
        return
    with tarfile.open(fileobj=layer) as opened:
        for member in opened:
            if member.isreg() and (file := opened.extractfile(member)) is not None:
                yield member.name, file.read(_LARGEST_READ)


def secret_files(engine: DockerClient, name: str) -> Iterator[str]:
    """Return the files of an image that look as if they held a secret, and why.

    Raises:
        ConfigError: The engine does not have the image.
    """
    for path, data in files(engine, name):
        if _SECRET_FILE.search(path) and data.strip():
            yield f"/{path}: by its name"
        elif has_key(data):
            yield f"/{path}: by what stands in it"
