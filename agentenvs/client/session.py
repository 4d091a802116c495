"""What a client says to a server, and what it knows: everything but the sending.

A :class:`Session` is one session on a server at a time, with its current episode. Its methods are dialogues: they yield
requests and are sent the answers, so that the blocking client and the asynchronous one share every rule.

A step names its episode and turn, a create or reset a key that is new for each intent; so a request that may have been
lost is sent again as it was, and an answer to anything else is refused.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

from agentenvs.client.calls import Answer, Call, Dialogue
from agentenvs.client.problems import nonsense, problem_code, refusal
from agentenvs.client.reading import Begun, Described, Ended, begun, described, dump, ended, read, stepped, traced
from agentenvs.core.actions import malformed, parse_action, to_json
from agentenvs.core.canon import JSON
from agentenvs.core.errors import (
    AgentEnvsError,
    ContractError,
    EpisodeEnded,
    EpisodeNotStarted,
    OptionError,
    RecordError,
    ServiceError,
)
from agentenvs.core.observation import Observation
from agentenvs.core.playable import check_ref
from agentenvs.core.record import parse_records
from agentenvs.core.task import TaskRef
from agentenvs.core.trace import StepTrace
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import ENDINGS, Ending, Verdict

SESSIONS = "/v1/sessions"

GONE = frozenset({"session_unknown", "closed", "expired"})
"""Problems that say that the session is over."""
_KEPT_RAW = 1_000
_ROUTE = re.compile(r"([0-9a-f]{8})\.")
"""Sessions begin with the routing token of the worker that made them."""


class Lease(NamedTuple):
    """How long a session lives on, in seconds."""

    idle: float
    """Without another answered call."""
    absolute: float
    """In any case."""


class _Place:
    """Where a session is to be found; holds its secret name.

    Raises:
        TypeError: Its name is none.
    """

    __slots__ = ("_fields", "_path", "_route")

    def __init__(self, session: object) -> None:
        if not isinstance(session, str):
            raise TypeError("a session has a name")
        self._path = f"{SESSIONS}/{quote(session, safe='')}"
        self._fields = dump({"session": session})[1:-1]
        found = _ROUTE.match(session)
        self._route = "" if found is None else found[1]

    def call(self, method: str, path: str, op: str, body: bytes | None = None, **fields: str) -> Call:
        """Return a request of the session; the fields are those that ``path`` holds."""
        more = self._fields if not fields else self._fields + b"," + dump(fields)[1:-1]
        return Call(method, self._path + path, body, False, op, more, self._route)


class Session:
    """One session, or none yet.

    Args:
        env: Id or slug of the environment.
        host: Who is talked to, for messages.
        options: As the environment declares them.
        trace: Whether to ask for the trace of every turn.
        life: What its create says of how long it lives, and what it survives.
    """

    def __init__(
        self,
        env: str,
        host: str,
        options: Mapping[str, Any],
        *,
        trace: bool = False,
        life: Mapping[str, JSON] | None = None,
    ) -> None:
        self.env = env
        self.host = host
        self.trace = trace
        self.turn = 0
        self.observation: Observation | None = None
        self.last_result: StepResult | None = None
        """What the last turn came to."""
        self.last_trace: StepTrace | None = None
        self._asked = dict(options)
        self._life = dict(life or {})
        self._described: Described | None = None
        self._options: dict[str, JSON] = {}
        self._place: _Place | None = None
        """The open session."""
        self._kept: _Place | None = None
        """The session of the current episode, open or not."""
        self._begun: Begun | None = None
        self._over = False
        self._ended: Ended | None = None

    # ---- what is known ---------------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether the server was asked about the environment."""
        return self._described is not None

    @property
    def described(self) -> Described:
        """What the server says of the environment.

        Raises:
            EpisodeNotStarted: It was not asked yet.
        """
        if self._described is None:
            raise EpisodeNotStarted(f"nothing is known of {self.env} yet", fix="connect first")
        return self._described

    @property
    def options(self) -> dict[str, JSON]:
        """The options of the episodes, the server's defaults included."""
        return dict(self._options)

    @property
    def begun(self) -> Begun:
        """The current episode as it began.

        Raises:
            EpisodeNotStarted: Before the first reset, and after the closing.
        """
        if self._begun is None:
            raise EpisodeNotStarted(f"{self.described.spec.id} has no episode", fix="call reset() first")
        return self._begun

    @property
    def ref(self) -> TaskRef | None:
        """The scenario that is played."""
        return None if self._begun is None else self._begun.task.ref

    @property
    def ended(self) -> Ended | None:
        """How the episode ended; None while it runs, or where the server could not be asked."""
        return self._ended

    @property
    def playing(self) -> bool:
        """Whether the next turn can be played."""
        return self._begun is not None and not self._over

    # ---- dialogues -------------------------------------------------------------------------------------------------

    def describe(self) -> Dialogue[None]:
        """Ask what the server says of the environment, and hold the options against it.

        Raises:
            UnknownEnvError: The server does not host it.
            OptionError: An unknown option, a refused value, or one that is the server's own.
        """
        answer = yield Call("GET", f"/v1/envs/{quote(self.env)}", op="env", fields=dump({"env": self.env})[1:-1])
        self._described = found = read(answer, self.host, described)
        spec = found.spec
        spec.resolve(self._asked)
        if machine := [option.name for option in spec.options if option.secret and option.name in self._asked]:
            raise OptionError(
                f"the option {machine[0]!r} cannot be set from here",
                why="it belongs to the machine the server runs on",
                fix="leave it out, or set it where the server is started",
            )
        self._options = {**found.options, **self._asked}

    def known_from(self, other: Session) -> None:
        """Take over what another session was told of the same environment, with the same options."""
        self._described, self._options = other.described, other.options

    def reset(
        self, ref: TaskRef | None = None, *, privileged: bool = False, library: str | None = None
    ) -> Dialogue[Observation]:
        """Begin an episode; a running one is abandoned.

        Of a sealed split the server gives out the scenarios: the index of ``ref`` says nothing then.

        Raises:
            SplitError: No such scenario; the running episode goes on.
            ContractError: The environment failed at the beginning.
        """
        found = self.described
        ref = ref or TaskRef(found.spec.default_split, 0)
        check_ref(found.spec, found.splits, ref)
        sealed = found.splits[ref.split].sealed
        number = "seed" if found.splits[ref.split].size is None else "index"
        body: dict[str, JSON] = {
            "key": str(uuid.uuid4()),
            "task": {"split": ref.split} if sealed else {"split": ref.split, number: ref.index},
            "player": {"privileged": privileged, "library": library},
        }
        answer = yield from self._reset(body, alone=sealed)
        if problem_code(answer) == "environment_failed":
            self._over = True  # what ran was ended before the world failed to begin anew
        begins = read(answer, self.host, begun)
        if begins.task.ref != ref and not (sealed and begins.task.ref.split == ref.split):
            raise ServiceError(f"{self.host} plays {begins.task.ref}, not {ref}", fix="report it to its operator")
        self._begun, self._kept = begins, self._place
        self.turn, self.observation, self.last_trace = 0, begins.observation, None
        self._over, self._ended = False, None
        return begins.observation

    def step(self, action: Any) -> Dialogue[StepResult]:
        """Play one turn.

        Raises:
            EpisodeNotStarted: Before the first reset.
            EpisodeEnded: After the end, or where the session has expired meanwhile.
            ContractError: The environment failed in this turn; the episode has ended as aborted.
            ServiceError: The server stays away, refuses, or answers something else. Whether the turn was played is
                not known then; the same action may be played again.
        """
        if not self.playing:
            self._refuse_step()
        form = to_json(parse_action(action))
        answer = yield self._turn(form)
        if answer.status == 413 and problem_code(answer) == "action_too_large":
            # What is an invalid turn in process must be one here, whatever a server finds too large.
            answer = yield self._turn(to_json(malformed(str(form)[:_KEPT_RAW], "an action too large for the server")))
        if not 200 <= answer.status < 300:
            yield from self._refused(answer)
        result, self.last_trace = read(answer, self.host, self._result)
        self.turn += 1
        self.observation, self.last_result = result.observation, result
        if result.terminated or result.truncated:
            self._over = True
            yield from self._settle()
        return result

    def fork(self, count: int) -> Dialogue[list[Session]]:
        """Copy the session at its turn.

        Raises:
            EpisodeNotStarted: Before the first reset.
            EpisodeEnded: After the end.
            CapabilityError: The environment cannot be forked.
            ServiceError: The server stays away or refuses.
        """
        if not self.playing:
            self._refuse_step()
        body: dict[str, JSON] = {"key": str(uuid.uuid4()), "count": count}
        answer = yield self._open().call("POST", "/fork", "fork", dump(body))
        return read(answer, self.host, lambda form: [self._twin(twin) for twin in form["sessions"]])

    def _twin(self, form: dict[str, Any]) -> Session:
        """Return the session of a fork."""
        twin = Session(self.env, self.host, self._asked, trace=self.trace, life=self._life)
        twin.known_from(self)
        begins = begun(form)
        twin._place = twin._kept = _Place(form["session"])
        twin._begun = replace(begins, observation=self.begun.observation)
        twin.turn, twin.observation = int(form["turn"]), begins.observation
        return twin

    def look(self) -> Dialogue[bool]:
        """Ask how far the episode is, which somebody else plays with its agent key; return whether it has ended.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ServiceError: The server stays away or refuses.
        """
        _ = self.begun
        if self._ended is None:
            answer = yield self._of_episode("GET", "", "status")
            if problem_code(answer) in GONE:
                self._over = True
                yield from self._close("abandoned")
            else:
                self.turn, over = read(answer, self.host, lambda form: (int(form["turn"]), form["ending"] is not None))
                if over:
                    self._over, self._ended = True, read(answer, self.host, self._take_end)
        return self._over

    def finish(self, ending: Ending) -> Dialogue[Verdict]:
        """End the episode where it has not ended, and return its verdict; ending it closes the session.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ContractError: ``ending`` is no ending, or none that a client may choose.
            ServiceError: The server stays away or refuses.
        """
        _ = self.begun
        if ending not in ENDINGS:
            raise ContractError(f"{ending!r} is no ending", fix=f"one of: {', '.join(ENDINGS)}")
        if self._ended is None and self._over:
            yield from self._settle()
        if self._ended is not None:
            return self._ended.verdict
        if ending not in ("abandoned", "truncated"):
            raise ContractError(
                f"a client cannot end an episode as {ending}",
                why="whether a world came to its end, or failed, is its server's to say",
                fix="end it as abandoned or truncated",
            )
        self._over = True
        return (yield from self._close(ending)).verdict

    def record(self, episode: str | None = None) -> Dialogue[bytes]:
        """Fetch the server's record of an ended episode.

        Args:
            episode: Which; the current one where None.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ServiceError: The server has none, or stays away.
        """
        if self._kept is None:
            raise EpisodeNotStarted(f"{self.described.spec.id} has no episode", fix="call reset() first")
        name = episode or self.begun.episode
        answer = yield self._of_episode("GET", f"/record?episode={quote(name, safe='')}", "record", episode=name)
        if answer.status != 200:
            raise refusal(answer, self.host)
        if answer.form is None:
            return answer.data
        if not isinstance(answer.form, str):
            raise nonsense(self.host, "its record is no text")
        return answer.form.encode()

    def ping(self) -> Dialogue[Lease]:
        """Keep the session alive.

        Raises:
            EpisodeNotStarted: There is no session.
            EpisodeEnded: It has expired.
        """
        answer = yield self._open().call("POST", "/ping", "ping", b"{}")
        return read(answer, self.host, lambda form: Lease(float(form["idle"]), float(form["absolute"])))

    def close(self) -> Dialogue[None]:
        """Close the session, without insisting: one that is not closed expires by itself."""
        place, self._place, self._begun = self._place, None, None
        if place is not None:
            yield place.call("DELETE", "", "close")._replace(once=True)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _open(self) -> _Place:
        if self._place is None:
            raise EpisodeNotStarted(f"{self.env} has no session at {self.host}", fix="call reset() first")
        return self._place

    def _of_episode(self, method: str, path: str, op: str, **fields: str) -> Call:
        """Return a request to the session of the current episode, open or not."""
        if self._kept is None:
            raise EpisodeNotStarted(f"{self.env} has no session at {self.host}", fix="call reset() first")
        return self._kept.call(method, path, op, None, **fields)

    def _reset(self, body: dict[str, JSON], *, alone: bool) -> Dialogue[Answer]:
        """Begin an episode in the open session, or in a new one where there is none that takes it.

        Args:
            body: What is asked for.
            alone: Whether it must be the only one of its session, as a sealed one is.
        """
        if self._place is not None and self._begun is not None and (alone or self._plays_sealed(self._begun)):
            yield self._place.call("DELETE", "", "close")
            self._place = self._begun = None
        if self._place is not None and self._begun is not None:
            ends = dump({**body, "ends": self._begun.episode})
            answer = yield self._place.call("POST", "/reset", "reset", ends)
            code = problem_code(answer)
            if code not in GONE and code != "episodes_spent":
                return answer
            if code == "episodes_spent":
                yield self._place.call("DELETE", "", "close")
            self._place = self._begun = None
        create = {**body, "env": self.described.spec.id, "options": self._asked, "trace": self.trace}
        form = dump({**create, **self._life})
        answer = yield Call("POST", SESSIONS, form, op="create")
        self._place = read(answer, self.host, lambda form: _Place(form["session"]))
        return answer

    def _plays_sealed(self, begins: Begun) -> bool:
        split = self.described.splits.get(begins.task.ref.split)
        return split is not None and split.sealed

    def _turn(self, form: JSON) -> Call:
        body = {"episode": self.begun.episode, "turn": self.turn + 1, "action": form}
        if self.trace:
            body["trace"] = True
        return self._open().call("POST", "/step", "step", dump(body))

    def _result(self, form: dict[str, Any]) -> tuple[StepResult, StepTrace | None]:
        episode, turn = self.begun.episode, self.turn + 1
        if self.trace:
            return stepped(form["result"], episode, turn), traced(form["trace"])
        return stepped(form, episode, turn), None

    def _refused(self, answer: Answer) -> Dialogue[NoReturn]:
        """Find out how the episode ended, where that is why a turn was refused, and raise.

        Raises:
            AgentEnvsError: Always: what the refusal says.
        """
        error, code = refusal(answer, self.host), problem_code(answer)
        if code in GONE or code in ("environment_failed", "episode_ended"):
            self._over = True
            try:
                yield from self._settle()
            except AgentEnvsError:
                raise error from None
        raise error

    def _settle(self) -> Dialogue[None]:
        """Ask how the episode ended."""
        answer = yield self._of_episode("GET", "", "status")
        if problem_code(answer) in GONE:
            yield from self._close("abandoned")
            return
        self._ended = read(answer, self.host, self._take_end)

    def _close(self, ending: Ending) -> Dialogue[Ended]:
        """Close the session and return how its episode ended; closing it again tells the same."""
        answer = yield self._of_episode("DELETE", f"?ending={ending}", "close", ending=ending)
        self._place = None
        if problem_code(answer) == "expired":
            self._ended = found = end_of((yield from self.record()))
        else:
            self._ended = found = read(answer, self.host, self._take_end)
        return found

    def _take_end(self, form: dict[str, Any]) -> Ended:
        return ended(form, self.begun.episode)

    def _refuse_step(self) -> NoReturn:
        begins = self.begun
        how = "" if self._ended is None else f" ({self._ended.ending})"
        raise EpisodeEnded(f"the episode of {begins.task.env} has ended{how}", fix="call reset() to begin another")


def end_of(record: bytes) -> Ended:
    """Return how the episode of a record ended.

    Raises:
        RecordError: It has no end.
    """
    found = parse_records(record)[0]
    if found.footer is None or found.verdict is None:
        raise RecordError("the server's record has no end")
    return Ended(found.footer["ending"], found.verdict, {}, "")
