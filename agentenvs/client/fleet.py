"""Episodes on a server side by side: one session a slot, and a turn in all of them one request."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from agentenvs.client.calls import Dialogue, T
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import Line
from agentenvs.client.remote import IN_PROCESS
from agentenvs.client.session import Session
from agentenvs.client.settings import ClientSettings
from agentenvs.core.errors import AgentEnvsError, OptionError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.vector import VectorEnv
from agentenvs.core.verdict import Verdict


class RemoteFleet:
    """Episodes on a server; see :class:`agentenvs.core.vector.Fleet`.

    Args:
        env: Id or slug.
        size: How many slots.
        url: The server, up to where ``/v1`` begins.
        token: What the server asks of its clients; the environment variable ``AGENTENVS_TOKEN`` where None.
        options: As the environment declares them.
        settings: Way and patience.
        transport: What carries the requests instead of a connection. It is not closed.

    Raises:
        UserError: Some subclass, as for :class:`~agentenvs.client.remote.RemoteEnv`.
    """

    def __init__(
        self,
        env: str,
        size: int,
        url: str = IN_PROCESS,
        *,
        token: str | None = None,
        options: Mapping[str, Any] | None = None,
        settings: ClientSettings | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = settings or ClientSettings()
        endpoint = Endpoint(url, token)
        self._line = Line(endpoint, settings, transport)
        self._sessions = [Session(env, endpoint.host, options or {}, life=settings.life) for _ in range(size)]
        self._ends: list[tuple[Verdict, str] | None] = [None] * size
        """Verdict and name of the last episode that ended in each slot."""
        self._played: dict[int, StepResult | Exception] = {}
        """What slots have played of a step that could not be finished."""
        self._goodbye = weakref.finalize(self, _say_goodbye, self._line, self._sessions)
        first = self._sessions[0]
        try:
            self._line.carry(first.describe())
        except BaseException:
            self.close()
            raise
        for session in self._sessions[1:]:
            session.known_from(first)

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself; without its class and players, which are the server's affair."""
        return self._sessions[0].described.spec

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self._sessions)

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits of the server by name."""
        return dict(self._sessions[0].described.splits)

    def reset(self, refs: Mapping[int, TaskRef]) -> Mapping[int, Observation]:
        """Begin episodes in some slots; running ones are abandoned.

        Raises:
            SplitError: No such scenario.
            ContractError: An environment failed at the beginning.
            ServiceError: The server stays away or refuses.
        """
        self._line.pick_up()
        for slot in refs:
            self._played.pop(slot, None)
        begun = self._carry({slot: self._sessions[slot].reset(ref) for slot, ref in refs.items()})
        return {slot: _or_raise(found) for slot, found in begun.items()}

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, StepResult | Exception]:
        """Play a turn in some slots.

        Raises:
            ServiceError: The server stays away or refuses. Call again with the same actions: turns that were played
                are not played again.
        """
        failure: Exception | None = None
        turns = {slot: self._sessions[slot].turn for slot in actions if slot not in self._played}
        played = self._carry({slot: self._sessions[slot].step(actions[slot]) for slot in turns})
        for slot, found in played.items():
            session = self._sessions[slot]
            if isinstance(found, Exception) and session.playing:
                failure = found
            elif session.turn > turns[slot] and session.last_result is not None:
                self._played[slot] = session.last_result
            else:
                self._played[slot] = found
            if session.ended is not None:
                self._ends[slot] = (session.ended.verdict, session.begun.episode)
        if failure is not None:
            raise failure
        results, self._played = self._played, {}
        return results

    def verdicts(self) -> Sequence[Verdict | None]:
        """Return what the last episode that ended was worth, slot by slot."""
        return tuple(None if end is None else end[0] for end in self._ends)

    def records(self) -> Sequence[bytes | None]:
        """Return the server's record of the last episode that ended, slot by slot.

        Raises:
            ServiceError: The server stays away, or has one not any more.
        """
        ends = {slot: end[1] for slot, end in enumerate(self._ends) if end is not None}
        found = self._carry({slot: self._sessions[slot].record(episode) for slot, episode in ends.items()})
        return tuple(_or_raise(found[slot]) if slot in found else None for slot in range(self.size))

    def close(self) -> None:
        """Close sessions and connection. May be called twice; a reset opens others."""
        _say_goodbye(self._line, self._sessions)

    def _carry(self, dialogues: Mapping[int, Dialogue[T]]) -> dict[int, T | Exception]:
        found = self._line.carry_all(list(dialogues.values()))
        return dict(zip(dialogues, found, strict=True))


def make_remote(
    name: str,
    num_envs: int,
    url: str,
    *,
    autoreset_mode: Any = "NextStep",
    render_mode: str | None = None,
    record: bool = True,
    token: str | None = None,
    settings: ClientSettings | None = None,
    transport: httpx.BaseTransport | None = None,
    **options: Any,
) -> VectorEnv:
    """Put environments of a server behind Gymnasium's vector face; see ``agentenvs.make_vec``.

    ``record`` is there for those in process: a server keeps records in any case.
    """
    if type(num_envs) is not int or num_envs < 1:
        raise OptionError(f"num_envs {num_envs!r} makes no sense", fix="a whole number, 1 or more")
    fleet = RemoteFleet(name, num_envs, url, token=token, options=options, settings=settings, transport=transport)
    return VectorEnv(fleet, autoreset_mode, render_mode)


def _or_raise(found: T | Exception) -> T:
    if isinstance(found, Exception):
        raise found
    return found


def _say_goodbye(line: Line, sessions: Iterable[Session]) -> None:
    with suppress(AgentEnvsError):
        line.carry_all([session.close() for session in sessions])
    line.hang_up()
