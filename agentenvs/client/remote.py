"""Environments behind a wire, with the methods of those in process.

:class:`RemoteEnv` blocks and :class:`AsyncRemoteEnv` awaits; both hand out the core's own objects and raise the errors
that an :class:`~agentenvs.core.environment.Environment` raises in the same place. Each has a connection and a session
of its own.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import httpx

from agentenvs.client.calls import Dialogue, T
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import AsyncLine, Line
from agentenvs.client.posts import AppTransport
from agentenvs.client.session import Lease, Session
from agentenvs.client.settings import ClientSettings
from agentenvs.core import playable, registry
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, CapabilityError, ConfigError, UnknownEnvError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.trace import StepTrace
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict

IN_PROCESS = "http://in-process"
"""The URL of an application that is reached without a socket; any other does as well."""

_STAY: Final = "an episode on a server stays there"


class _Known:
    """What is known without asking the server; the same for both kinds of client."""

    def __init__(self, endpoint: Endpoint, session: Session) -> None:
        self._endpoint = endpoint
        self._session = session

    def __repr__(self) -> str:
        """Return what is played where, without anything secret."""
        return f"<{type(self).__name__} {self._session.env} at {self._endpoint.host}>"

    @property
    def host(self) -> str:
        """Host and port of the server."""
        return self._endpoint.host

    @property
    def url(self) -> str:
        """Where the server is, as a player of an agent key is told."""
        return f"{self._endpoint.url.scheme}://{self._endpoint.host}{self._endpoint.path}"

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself; without its class and players, which are the server's affair."""
        return self._session.described.spec

    @property
    def ref(self) -> TaskRef | None:
        """The scenario that is played; None before the first reset."""
        return self._session.ref

    @property
    def episode(self) -> str:
        """The public name of the episode.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        return self._session.begun.episode

    @property
    def agent_key(self) -> str:
        """Lets its holder observe and step this episode at ``/v1/agent``, and nothing else.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        return self._session.begun.agent_key

    @property
    def turn(self) -> int:
        """Turns played."""
        return self._session.turn

    @property
    def ending(self) -> Ending | None:
        """How the episode ended; None while it runs."""
        return None if self._session.ended is None else self._session.ended.ending

    @property
    def verdict(self) -> Verdict | None:
        """What the episode was worth; None while it runs."""
        return None if self._session.ended is None else self._session.ended.verdict

    @property
    def observation(self) -> Observation:
        """The last observation.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        begun, shown = self._session.begun, self._session.observation
        return begun.observation if shown is None else shown

    @property
    def last_trace(self) -> StepTrace | None:
        """The last turn seen from inside; None before the first, and where ``trace`` was not asked for."""
        return self._session.last_trace

    def task(self) -> Task:
        """Return what a policy is told of the episode.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        return self._session.begun.task

    def admissible(self) -> tuple[str, ...] | None:
        """Return the legal text actions where observations list them (the option ``admissible``); else None."""
        return None if self._session.observation is None else self._session.observation.admissible

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits of the server by name."""
        return dict(self._session.described.splits)

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by; empty before the end."""
        return {} if self._session.ended is None else dict(self._session.ended.labels)

    def scenario_name(self) -> str:
        """Return the readable name of the scenario; empty before the end."""
        return "" if self._session.ended is None else self._session.ended.scenario

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario.

        Raises:
            SplitError: No such split, or no such index in it.
        """
        playable.check_ref(self.spec, self._session.described.splits, ref)

    def snapshot(self) -> NoReturn:
        """Refuse: the bytes of an episode hold what is hidden, and stay on the server.

        Raises:
            CapabilityError: Always.
        """
        raise CapabilityError(f"{self._session.env} has no snapshots here", why=_STAY, fix="fork it, or ping it")

    def restore(self, data: bytes) -> NoReturn:
        """Refuse; see :meth:`snapshot`.

        Raises:
            CapabilityError: Always.
        """
        raise CapabilityError(f"{self._session.env} restores no snapshot here", why=_STAY, fix="restore it in process")

    def declared_budgets(self) -> dict[str, int]:
        """Return every budget with what an episode starts with."""
        return playable.declared_budgets(self.spec, self._session.options)

    def public_options(self) -> dict[str, JSON]:
        """Return the options of the episodes, the server's defaults included."""
        return self._session.options


class RemoteEnv(_Known):
    """An environment on a server, for callers that may block.

    Args:
        env: Id or slug.
        url: The server, up to where ``/v1`` begins.
        token: What the server asks of its clients; the environment variable ``AGENTENVS_TOKEN`` where None.
        options: As the environment declares them.
        machine: Options of this machine, such as the folder of game files: no server takes them, :meth:`twin` does.
        trace: Whether to ask for the trace of every turn.
        settings: Patience.
        transport: What carries the requests instead of a connection: see :func:`in_process`. It is not closed.

    Raises:
        UnknownEnvError: The server does not host it.
        OptionError: An unknown option or a refused value.
        ConfigError: The URL or the token is none.
        ServiceError: The server stays away, refuses, or is none.
    """

    def __init__(
        self,
        env: str,
        url: str = IN_PROCESS,
        *,
        token: str | None = None,
        options: Mapping[str, Any] | None = None,
        machine: Mapping[str, Any] | None = None,
        trace: bool = False,
        settings: ClientSettings | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = settings or ClientSettings()
        endpoint = Endpoint(url, token)
        session = Session(env, endpoint.host, options or {}, trace=trace, life=settings.life)
        self._take(endpoint, session, Line(endpoint, settings, transport), machine or {})
        try:
            self._carry(self._session.describe())
        except BaseException:
            self.close()
            raise

    def _take(self, endpoint: Endpoint, session: Session, line: Line, machine: Mapping[str, Any]) -> None:
        _Known.__init__(self, endpoint, session)
        self._line = line
        self._machine = dict(machine)
        self._twin: Environment | None = None
        # Not __del__: it is also called when the program ends, so that no session is left behind on the server.
        self._goodbye = weakref.finalize(self, _say_goodbye, line, session)

    def __enter__(self) -> Self:
        """Return the environment; it is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def reset(self, ref: TaskRef | None = None, *, privileged: bool = False, library: str | None = None) -> Observation:
        """Begin an episode; a running one is abandoned.

        Args:
            ref: Which scenario; the first of the default split where None.
            privileged: The player sees the hidden scenario: stands in the record.
            library: Digest of what the player carried over from earlier episodes: stands in the record.

        Raises:
            SplitError: No such scenario.
            ContractError: The environment failed at the beginning.
            ServiceError: The server stays away or refuses.
        """
        self._line.pick_up()
        return self._carry(self._session.reset(ref, privileged=privileged, library=library))

    def step(self, action: Any) -> StepResult:
        """Play one turn.

        Args:
            action: Anything; what is no action is an invalid turn.

        Raises:
            EpisodeNotStarted: Before the first reset.
            EpisodeEnded: After the end.
            ContractError: The environment failed; the episode has ended as aborted.
            ServiceError: The server stays away or refuses; the same action may be played again.
        """
        return self._carry(self._session.step(action))

    async def astep(self, action: Any) -> StepResult:
        """Play one turn in a thread; like :meth:`step` otherwise. :class:`AsyncRemoteEnv` needs none."""
        return await asyncio.to_thread(self.step, action)

    def look(self) -> bool:
        """Ask how far the episode is, which somebody else plays with :attr:`agent_key`; return whether it has ended.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ServiceError: The server stays away or refuses.
        """
        return self._carry(self._session.look())

    def fork(self, count: int = 1) -> list[RemoteEnv]:
        """Return copies at the same turn, each with a session of its own on the server.

        Raises:
            EpisodeNotStarted: Before the first reset.
            EpisodeEnded: After the end.
            CapabilityError: The environment cannot be forked.
            ServiceError: The server stays away or refuses.
        """
        twins = []
        for session in self._carry(self._session.fork(count)):
            twin = object.__new__(RemoteEnv)
            twin._take(self._endpoint, session, self._line.another(), self._machine)
            twins.append(twin)
        return twins

    def finish(self, ending: Ending) -> Verdict:
        """End the episode, if it has not ended, and return its verdict; ending it closes the session.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ContractError: ``ending`` is neither ``abandoned`` nor ``truncated``.
            ServiceError: The server stays away or refuses.
        """
        return self._carry(self._session.finish(ending))

    def record(self, episode: str | None = None) -> bytes:
        """Return the server's record of an ended episode.

        Args:
            episode: Which of this session; the current one where None.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ServiceError: It has not ended, is not kept any more, or the server stays away.
        """
        return self._carry(self._session.record(episode))

    def ping(self) -> Lease:
        """Keep the session alive, and return how long it lives on.

        Raises:
            EpisodeNotStarted: There is no session.
            EpisodeEnded: It has expired.
            ServiceError: The server stays away or refuses.
        """
        return self._carry(self._session.ping())

    def twin(self) -> Environment:
        """Return the same episode in process, at its first observation: it shows what the server hides.

        Raises:
            EpisodeNotStarted: Before the first reset.
            UnknownEnvError: The environment is not installed here.
            ConfigError: Another release is, or its world is another one.
        """
        begun = self._session.begun
        if self._twin is None:
            same_release(self.spec)
            self._twin = registry.make(self.spec.id, **{**self.public_options(), **self._machine})
        first = self._twin.reset(begun.task.ref)
        if first.to_json() != begun.observation.to_json():
            raise ConfigError(
                f"the world at {self.host} is not the one here",
                why=f"{begun.task.ref} begins with another observation",
                fix="give the data that the server plays, or a player that need not see the scenario",
            )
        return self._twin

    def close(self) -> None:
        """Close session and connection. May be called twice; a reset opens another session."""
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()
        _say_goodbye(self._line, self._session)

    def _carry(self, dialogue: Dialogue[T]) -> T:
        return self._line.carry(dialogue)


class AsyncRemoteEnv(_Known):
    """An environment on a server, for callers on an event loop; :func:`connect` makes one.

    The arguments are those of :class:`RemoteEnv` without ``machine``; ``transport`` may be an ``httpx.ASGITransport``.
    Close it, or use it in ``async with``: nothing does so at garbage collection.
    """

    def __init__(
        self,
        env: str,
        url: str = IN_PROCESS,
        *,
        token: str | None = None,
        options: Mapping[str, Any] | None = None,
        trace: bool = False,
        settings: ClientSettings | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        settings = settings or ClientSettings()
        endpoint = Endpoint(url, token)
        session = Session(env, endpoint.host, options or {}, trace=trace, life=settings.life)
        self._take(endpoint, session, AsyncLine(endpoint, settings, transport))

    def _take(self, endpoint: Endpoint, session: Session, line: AsyncLine) -> None:
        _Known.__init__(self, endpoint, session)
        self._line = line

    async def __aenter__(self) -> Self:
        """Ask what the server says of the environment, and return it; it is closed at the end of the block."""
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def connect(self) -> None:
        """Ask what the server says of the environment, where that was not done yet.

        Raises:
            UserError: As for :class:`RemoteEnv`.
        """
        if self._session.known:
            return
        try:
            await self._line.carry(self._session.describe())
        except BaseException:
            await self.close()
            raise

    async def reset(
        self, ref: TaskRef | None = None, *, privileged: bool = False, library: str | None = None
    ) -> Observation:
        """Begin an episode; see :meth:`RemoteEnv.reset`."""
        return await self._line.carry(self._session.reset(ref, privileged=privileged, library=library))

    async def step(self, action: Any) -> StepResult:
        """Play one turn; see :meth:`RemoteEnv.step`."""
        return await self._line.carry(self._session.step(action))

    async def astep(self, action: Any) -> StepResult:
        """Play one turn: the same as :meth:`step`, under the name it has in process."""
        return await self.step(action)

    async def look(self) -> bool:
        """Ask how far the episode is, which somebody else plays; see :meth:`RemoteEnv.look`."""
        return await self._line.carry(self._session.look())

    async def fork(self, count: int = 1) -> list[AsyncRemoteEnv]:
        """Return copies at the same turn; see :meth:`RemoteEnv.fork`."""
        twins = []
        for session in await self._line.carry(self._session.fork(count)):
            twin = object.__new__(AsyncRemoteEnv)
            twin._take(self._endpoint, session, self._line.another())
            twins.append(twin)
        return twins

    async def finish(self, ending: Ending) -> Verdict:
        """End the episode, if it has not ended, and return its verdict; see :meth:`RemoteEnv.finish`."""
        return await self._line.carry(self._session.finish(ending))

    async def record(self, episode: str | None = None) -> bytes:
        """Return the server's record of an ended episode; see :meth:`RemoteEnv.record`."""
        return await self._line.carry(self._session.record(episode))

    async def ping(self) -> Lease:
        """Keep the session alive; see :meth:`RemoteEnv.ping`."""
        return await self._line.carry(self._session.ping())

    async def close(self) -> None:
        """Close session and connection. May be called twice; a reset opens another session."""
        with suppress(AgentEnvsError):
            await self._line.carry(self._session.close())
        await self._line.hang_up()


async def connect(env: str, url: str = IN_PROCESS, **arguments: Any) -> AsyncRemoteEnv:
    """Return an environment on a server, ready to be reset.

    Args:
        env: Id or slug.
        url: The server.
        **arguments: As for :class:`AsyncRemoteEnv`.

    Raises:
        UserError: As for :class:`RemoteEnv`.
    """
    made = AsyncRemoteEnv(env, url, **arguments)
    await made.connect()
    return made


def in_process(app: Any) -> AppTransport:
    """Return what carries the requests of blocking clients to an ASGI application, without a socket.

    The application runs on the shared background loop. Asynchronous clients take ``httpx.ASGITransport(app)``.
    """
    return AppTransport(httpx.ASGITransport(app=app, raise_app_exceptions=False))


def same_release(spec: EnvSpec) -> EnvSpec:
    """Return the spec of the environment that is installed here under a served spec's id.

    Raises:
        UnknownEnvError: There is none.
        ConfigError: It is of another release.
    """
    try:
        here = registry.spec(spec.id)
    except UnknownEnvError as error:
        raise UnknownEnvError(f"{spec.id} is not installed here", fix="install its package") from error
    if here.digest != spec.digest:
        raise ConfigError(
            f"the server plays {spec.id} release {spec.release}, here is {here.release}",
            why="their specs differ",
            fix="install the release of the server here, or the other way round",
        )
    return here


def _say_goodbye(line: Line, session: Session) -> None:
    with suppress(AgentEnvsError):
        line.carry(session.close())
    line.hang_up()
