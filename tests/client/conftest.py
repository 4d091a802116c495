from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentenvs.client import RemoteEnv, in_process
from agentenvs_servers.app import make_app
from tests.client.servers import Relay, relaying, serving
from tests.harness import playroom

ENVS = ("household", playroom.Stairs.spec.id, playroom.Escalator.spec.id)


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTENVS_TOKEN", raising=False)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A server with household and two staircases."""
    with serving(*ENVS) as found:
        yield found


@pytest.fixture
def relay(url: str) -> Iterator[Relay]:
    with relaying(url) as found:
        yield found


@pytest.fixture(scope="session")
def app() -> Any:
    """The same without a socket: what carries the requests."""
    return in_process(make_app(ENVS))


@pytest.fixture
def remote(app: Any) -> Iterator[Callable[..., RemoteEnv]]:
    """Return a function that makes an environment behind a wire, without a socket."""
    made: list[RemoteEnv] = []

    def make(env: str = "stairs", **options: Any) -> RemoteEnv:
        more = {name: options.pop(name) for name in ("trace", "machine") if name in options}
        made.append(RemoteEnv(env, options=options, transport=app, **more))
        return made[-1]

    yield make
    for env in made:
        env.close()
