"""The sealed scenarios of a ticket, played like any environment on a server.

A :class:`TicketEnv` holds no token of the server: its ticket opens one scenario after another, in the server's order,
and each comes with an agent key that plays it. What runs goes on where it stands, also for another process with the
same ticket; closing the environment ends nothing. Records are the server's, redacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote

import httpx

from agentenvs.client.calls import Answer, Call, Dialogue
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import Line
from agentenvs.client.problems import problem_code, refusal
from agentenvs.client.reading import Ended, begun, described, dump, read
from agentenvs.client.remote import IN_PROCESS, RemoteEnv
from agentenvs.client.session import GONE, Lease, Session, end_of
from agentenvs.client.settings import ClientSettings
from agentenvs.core.canon import JSON
from agentenvs.core.errors import CapabilityError, ContractError
from agentenvs.core.observation import Observation
from agentenvs.core.playable import check_ref
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import ENDINGS, Ending, Verdict

TICKETS = "/v1/tickets"
AGENT = "/v1/agent"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a ticket stands."""

    ticket: str
    """Its public name."""
    board: str
    contestant: str
    env: str
    split: str
    planned: int
    opened: int
    playing: bool
    """Whether the last scenario that was opened may still be played."""
    seconds: float
    """Until nothing more is opened."""

    @property
    def left(self) -> int:
        """How many scenarios can still be played."""
        return self.planned - self.opened + self.playing if self.seconds > 0 else int(self.playing)


class TicketSession(Session):
    """What a ticket's holder says to a server; see :class:`~agentenvs.client.session.Session`."""

    standing: Standing | None = None
    """As the server told it last."""

    def describe(self) -> Dialogue[None]:
        """Ask how the ticket stands, and what it plays."""
        answer = yield Call("GET", TICKETS)
        self.standing = read(answer, self.host, _standing)
        self._described = found = read(answer, self.host, lambda form: described(form["env"]))
        self._options = dict(found.options)

    def reset(
        self, ref: TaskRef | None = None, *, privileged: bool = False, library: str | None = None
    ) -> Dialogue[Observation]:
        """Take the episode that the ticket plays now, from where it stands; one that this session ran is given up.

        Raises:
            SplitError: The ticket is of another split.
            ContractError: The player would see the hidden scenario.
        """
        if privileged:
            raise ContractError("a sealed scenario is shown to nobody", fix="play with another policy")
        standing = self._standing()
        if ref is not None:
            check_ref(self.described.spec, {standing.split: self.described.splits[standing.split]}, ref)
        if self.playing:
            yield from self._close("abandoned")
        answer = yield Call("POST", f"{TICKETS}/next")
        begins = read(answer, self.host, begun)
        self._begun, self.observation = begins, begins.observation
        self.turn = read(answer, self.host, lambda form: int(form["turn"]))
        self._over, self._ended, self.last_trace = False, None, None
        return begins.observation

    def look(self) -> Dialogue[bool]:
        """Ask how far the episode is, which somebody else plays; return whether it has ended."""
        key = self.begun.agent_key
        if self._ended is None:
            answer = yield Call("GET", AGENT, bearer=key)
            over = problem_code(answer) in GONE
            if not over:
                self.turn, over = read(answer, self.host, lambda form: (int(form["turn"]), form["ended"] is True))
            if over:
                self._over = True
                yield from self._settle()
        return self._over

    def finish(self, ending: Ending) -> Dialogue[Verdict]:
        """End the episode where it has not ended: as abandoned, whatever is asked for."""
        _ = self.begun
        if ending not in ENDINGS:
            raise ContractError(f"{ending!r} is no ending", fix=f"one of: {', '.join(ENDINGS)}")
        if self._ended is None:
            if not self._over:
                yield from self._close(ending)
            else:
                yield from self._settle()
        return self._told().verdict

    def record(self, episode: str | None = None) -> Dialogue[bytes]:
        """Fetch the redacted record of an ended episode of the ticket."""
        name = episode or self.begun.episode
        answer = yield Call("GET", f"{TICKETS}/record?episode={quote(name, safe='')}")
        if answer.status != 200:
            raise refusal(answer, self.host)
        return answer.data

    def fork(self, count: int) -> NoReturn:
        """Refuse: a sealed scenario is played once.

        Raises:
            CapabilityError: Always.
        """
        raise CapabilityError("a sealed scenario cannot be forked", why="it is played once", fix="fork another split")

    def ping(self) -> Dialogue[Lease]:
        """Keep the episode alive; how long it lives on is not told."""
        answer = yield Call("GET", AGENT, bearer=self.begun.agent_key)
        return read(answer, self.host, lambda form: Lease(float("inf"), self._standing().seconds))

    def close(self) -> Dialogue[None]:
        """Leave; what runs goes on for whoever holds the ticket."""
        self._begun = None
        yield from ()

    def _turn(self, form: JSON) -> Call:
        body = dump({"turn": self.turn + 1, "action": form})
        return Call("POST", f"{AGENT}/step", body, bearer=self.begun.agent_key)

    def _settle(self) -> Dialogue[None]:
        self._ended = end_of((yield from self.record()))

    def _close(self, ending: Ending) -> Dialogue[Ended]:
        self._over = True
        answer: Answer = yield Call("POST", f"{TICKETS}/end", dump({"episode": self.begun.episode}))
        self.standing = read(answer, self.host, _standing)
        yield from self._settle()
        return self._told()

    def _told(self) -> Ended:
        if self._ended is None:
            raise ContractError("the episode has not ended")
        return self._ended

    def _standing(self) -> Standing:
        if self.standing is None:
            raise ContractError("nothing is known of the ticket yet", fix="connect first")
        return self.standing


class TicketEnv(RemoteEnv):
    """The sealed scenarios of a ticket; see :class:`~agentenvs.client.remote.RemoteEnv`.

    Args:
        ticket: As its operator issued it.
        url: The server, up to where ``/v1`` begins.
        settings: Patience.
        transport: What carries the requests instead of a connection.

    Raises:
        ConfigError: The URL or the ticket is none.
        ServiceError: The server stays away, refuses the ticket, or is none.
    """

    def __init__(
        self,
        ticket: str,
        url: str = IN_PROCESS,
        *,
        settings: ClientSettings | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = settings or ClientSettings()
        endpoint = Endpoint(url, ticket)
        self._mine = TicketSession("", endpoint.host, {}, trace=False, life={})
        self._take(endpoint, self._mine, Line(endpoint, settings, transport), {})
        try:
            self._carry(self._mine.describe())
        except BaseException:
            self.close()
            raise
        self._mine.env = self.spec.id

    @property
    def standing(self) -> Standing:
        """How the ticket stood when the server was asked last."""
        return self._mine._standing()

    def stand(self) -> Standing:
        """Ask how the ticket stands."""
        self._carry(self._mine.describe())
        return self.standing


def _standing(form: dict[str, Any]) -> Standing:
    return Standing(
        ticket=str(form["ticket"]),
        board=str(form["board"]),
        contestant=str(form["contestant"]),
        env=str(form["env"]["id"]),
        split=str(form["split"]),
        planned=int(form["planned"]),
        opened=int(form["opened"]),
        playing=form["playing"] is True,
        seconds=float(form["seconds"]),
    )
