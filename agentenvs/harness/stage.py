"""Where an environment is played: in this process, or on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenvs.core import registry, targets
from agentenvs.core.errors import ConfigError, UnknownEnvError
from agentenvs.core.playable import Playable
from agentenvs.core.spec import EnvSpec

if TYPE_CHECKING:
    import httpx

    from agentenvs.client import ClientSettings, RemoteEnv


class Stage:
    """An environment and the place it is played at.

    Args:
        env: Id or slug, file or class; see :mod:`agentenvs.core.targets`.
        url: A server; this process where None.
        token: What the server asks of its clients; that of ``AGENTENVS_TOKEN`` where None.
        settings: Patience with the server.
        transport: What carries the requests instead of a connection.
        ticket: Opens sealed scenarios of the server, for whoever has no token.

    Raises:
        UnknownEnvError: There is no such environment there.
        ConfigError: The environment is installed here too, in another release than the server's.
        ServiceError: The server stays away, refuses, or is none.
    """

    def __init__(
        self,
        env: str,
        url: str | None = None,
        *,
        token: str | None = None,
        settings: ClientSettings | None = None,
        transport: httpx.BaseTransport | None = None,
        ticket: str | None = None,
    ) -> None:
        if ticket is not None and url is None:
            raise ConfigError("a ticket is of a server, and none is named", fix="give --url URL")
        self.url = url
        self.ticket = ticket
        self._token = token
        self._settings = settings
        self._transport = transport
        self.spec: EnvSpec = targets.spec_of(env) if url is None else self._served(env, url)

    def make(self, options: Mapping[str, Any]) -> Playable:
        """Make an environment there.

        Args:
            options: As the environment declares them. Those of the machine are kept from a server: they are for the
                twin world that a privileged player is shown.

        Raises:
            OptionError: An unknown option or a refused value.
        """
        if self.url is None:
            return registry.make_from(self.spec, **options)
        machine = {name: options[name] for name in self.machine_options(options)}
        public = {name: value for name, value in options.items() if name not in machine}
        return self._remote(self.spec.id, self.url, options=public, machine=machine)

    def machine_options(self, options: Mapping[str, Any]) -> list[str]:
        """Return the names of the options that belong to a machine and not to an episode."""
        return [option.name for option in self.spec.options if option.secret and option.name in options]

    def _remote(self, env: str, url: str, **more: Any) -> RemoteEnv:
        from agentenvs.client import RemoteEnv, TicketEnv

        if self.ticket is not None:
            return TicketEnv(self.ticket, url, settings=self._settings, transport=self._transport)
        return RemoteEnv(env, url, token=self._token, settings=self._settings, transport=self._transport, **more)

    def _served(self, env: str, url: str) -> EnvSpec:
        """Return the spec of a server's environment; the one installed here, which names its players, where it is."""
        from agentenvs.client.remote import same_release

        if targets.is_source(env):
            env = targets.spec_of(env).id
        with self._remote(env, url) as found:
            if env not in (found.spec.id, found.spec.slug):
                raise UnknownEnvError(f"the ticket is for {found.spec.id}, not for {env}", fix="name that one")
            try:
                return same_release(found.spec)
            except UnknownEnvError:
                return found.spec
