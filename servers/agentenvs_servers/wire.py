"""The messages of the native protocol, v1, as models: what a request must be, and what an answer will be.

Every model is strict, frozen and closed: ``"seed": false`` is no seed, and a misspelt field is an error rather than a
silence. Bodies are parsed by :mod:`~agentenvs_servers.bodies`, which is stricter than JSON libraries are; the OpenAPI
document is made from these models, also for the routes that run in front of the framework.

An ``action`` is any JSON value: what is no action is an invalid turn of the episode, never an error of the request.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

MOST_KEY_CHARACTERS = 200

# No database of PostgreSQL keeps a text with U+0000.
Key: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MOST_KEY_CHARACTERS,
        pattern="^[^\\x00]*$",
        description="Chosen by the client, new for each intent and the same for each retry of it.",
    ),
]
EpisodeId: TypeAlias = Annotated[str, Field(max_length=MOST_KEY_CHARACTERS, description="Public name of the episode.")]
Turn: TypeAlias = Annotated[int, Field(ge=1, le=2**53, description="Number of the turn to play; the first is 1.")]
# Not pydantic's JsonValue, which refuses what models do write: lone surrogates, and more than 250 levels.
Action: TypeAlias = Annotated[Any, Field(description="Any JSON value; what is no action is an invalid turn.")]
Option: TypeAlias = bool | int | float | str | None
SessionName: TypeAlias = Annotated[str, Field(description="The session, as its create answered it.")]


class Wire(BaseModel):
    """Base of all messages."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


# ---- requests --------------------------------------------------------------------------------------------------------


class TaskBody(Wire):
    """Which scenario: an index of a finite split, or a seed of an endless one."""

    split: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="The default split where left out."
    )
    index: int | None = Field(default=None, description="Index in a finite split; 0 where left out.")
    seed: int | None = Field(default=None, description="Seed of an endless split; 0 where left out.")

    @model_validator(mode="after")
    def _one_number(self) -> TaskBody:
        if self.index is not None and self.seed is not None:
            raise ValueError("give index or seed, not both")
        return self


class PlayerBody(Wire):
    """What the client says of the player; stands in the header of the record."""

    privileged: bool = Field(default=False, description="The player sees the hidden scenario.")
    library: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None, description="SHA-256 of what the player carried over from earlier episodes."
    )


class CreateBody(Wire):
    """``POST /v1/sessions``."""

    env: Annotated[str, Field(max_length=200, description="Id or slug of an environment of this server.")]
    key: Key
    task: TaskBody | None = Field(default=None, description="The first scenario of the default split where left out.")
    tasks: Annotated[list[TaskBody], Field(min_length=1)] | None = Field(
        default=None, description="One session for each of these, instead of one."
    )
    count: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="That many sessions of the same task (a group), instead of one."
    )
    options: dict[str, Option] = Field(default_factory=dict, description="Options as the environment declares them.")
    ttl: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Seconds without an answered call after which the session expires."
    )
    durability: Literal["group", "strict", "memory"] | None = Field(
        default=None,
        description="group: survives a killed server; strict: survives a power cut; memory: survives nothing.",
    )
    records: Literal["keep", "drop"] = Field(
        default="keep",
        description="drop: forgotten when the session is closed or expires; of sessions in memory alone.",
    )
    trace: bool = Field(default=False, description="Keep the facts of every turn for GET …/trace.")
    player: PlayerBody = PlayerBody()

    @model_validator(mode="after")
    def _one_shape(self) -> CreateBody:
        if self.tasks is not None and (self.task is not None or self.count is not None):
            raise ValueError("give tasks alone, or task and count")
        return self


class ResetBody(Wire):
    """``POST /v1/sessions/{session}/reset``."""

    key: Key
    ends: EpisodeId = Field(description="The episode this reset ends; a session that plays another refuses it.")
    task: TaskBody | Literal["same"] | None = Field(
        default=None, description="The next index of the split where left out."
    )
    player: PlayerBody = PlayerBody()


class ForkBody(Wire):
    """``POST /v1/sessions/{session}/fork``."""

    key: Key
    count: Annotated[int, Field(ge=1)] = Field(default=1, description="How many copies, all at this turn.")


class StepBody(Wire):
    """``POST /v1/sessions/{session}/step``."""

    episode: EpisodeId
    turn: Turn
    action: Action
    trace: bool = Field(default=False, description="Answer {result, trace} instead of the result alone.")


class StepItem(StepBody):
    """One step of a batch."""

    session: SessionName


class StepsBody(Wire):
    """``POST /v1/steps``: items of one session are played in this order, sessions independently of each other."""

    items: list[StepItem]


class AgentStepBody(Wire):
    """``POST /v1/agent/step``: the key fixes the episode."""

    turn: Turn
    action: Action


class TicketEndBody(Wire):
    """``POST /v1/tickets/end``."""

    episode: EpisodeId = Field(description="The episode that is given up; it counts 0.")


# ---- answers ---------------------------------------------------------------------------------------------------------


class HealthReply(Wire):
    """``GET /health``."""

    status: Literal["healthy"]


class ReadyReply(Wire):
    """``GET /ready``."""

    status: Literal["ready"]


class BlockReply(Wire):
    """One block of an observation: text, the answer of a tool, or the digest of an image."""

    type: Literal["text", "data", "image"]
    text: str | None = None
    data: JsonValue = None
    tool: str | None = None
    digest: str | None = None
    media_type: str | None = None


class ObservationReply(Wire):
    """What the player sees."""

    blocks: list[BlockReply]
    admissible: list[str] | None = None
    budgets: dict[str, int]


class RefReply(Wire):
    """The address of a scenario."""

    split: str
    index: int


class TaskReply(Wire):
    """What a player is told of its episode."""

    env: str
    ref: RefReply
    options: dict[str, Option]
    instruction: str


class EpisodeReply(Wire):
    """A fresh episode: the answer to a reset."""

    episode: EpisodeId
    agent_key: str = Field(description="Lets its holder observe and step this episode, and nothing else.")
    task: TaskReply
    turn: Literal[0]
    observation: ObservationReply


class TtlReply(Wire):
    """How long a session lives, in seconds."""

    idle: int
    absolute: int


class SessionReply(EpisodeReply):
    """A fresh session with its first episode: the answer to a create."""

    session: str = Field(description="Lets its holder control the session; keep it secret.")
    env: str
    ttl: TtlReply


class GroupReply(Wire):
    """The answer to a create with ``count`` or ``tasks``."""

    sessions: list[SessionReply]


class ForkReply(Wire):
    """A copy of a session at its turn, with its own names."""

    episode: EpisodeId
    agent_key: str = Field(description="Lets its holder observe and step this episode, and nothing else.")
    task: TaskReply
    turn: int
    observation: ObservationReply
    session: str = Field(description="Lets its holder control the session; keep it secret.")
    env: str
    ttl: TtlReply


class ForksReply(Wire):
    """The answer to a fork."""

    sessions: list[ForkReply]


class StepReply(Wire):
    """The answer to a step; the same bytes in both scopes."""

    episode: EpisodeId
    turn: int
    observation: ObservationReply
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class TraceReply(Wire):
    """One turn seen from inside: see ``agentenvs.core.trace``."""

    turn: int
    state_before: str
    state_after: str
    action: JsonValue
    valid: bool
    error: str | None
    actor: str
    observed: list[list[JsonValue]]
    used: list[list[JsonValue]]
    written: list[list[JsonValue]]
    milestones: list[str]
    potential: float | None


class TracedReply(Wire):
    """The answer to a step with ``trace: true``."""

    result: StepReply
    trace: TraceReply


class TracesReply(Wire):
    """``GET …/trace``: the traces of the current episode from a turn on."""

    episode: EpisodeId
    traces: list[TraceReply]


class VerdictReply(Wire):
    """What an ended episode was worth."""

    reward: float
    success: bool
    components: dict[str, float]
    reasons: list[str]
    facts: dict[str, Any]


class StatusReply(Wire):
    """``GET /v1/sessions/{session}``, and the answer to its closing."""

    session: str
    env: str
    open: bool
    episode: EpisodeId
    task: TaskReply
    turn: int
    ending: Literal["terminated", "truncated", "abandoned", "aborted"] | None
    verdict: VerdictReply | None
    scenario: str | None = Field(description="Readable name of the scenario; once it has ended.")
    labels: dict[str, JsonValue] | None = Field(description="What a report sorts the episode by; once it has ended.")
    episodes: list[EpisodeId] = Field(description="Every episode whose record is kept, oldest first.")
    last: EpisodeReply | StepReply = Field(description="The last answer: of the reset, or of a step.")
    ttl: TtlReply


class PingReply(Wire):
    """``POST …/ping``: seconds until the session expires without, and in spite of, further calls."""

    idle: float
    absolute: float


class AgentReply(Wire):
    """``GET /v1/agent``: what the holder of an agent key may see."""

    env: str
    episode: EpisodeId
    task: TaskReply
    tools: list[dict[str, Any]]
    accepts: list[str]
    max_calls: int
    turn: int
    ended: bool
    last: StepReply | None
    observation: ObservationReply


class EnvReply(Wire):
    """``GET /v1/envs/{env}``."""

    id: str
    slug: str
    release: str
    digest: str = Field(description="SHA-256 of what the spec says of behaviour.")
    spec: dict[str, Any] = Field(description="See agentenvs.core.spec; tools as JSON Schema.")
    splits: list[dict[str, Any]]
    options: dict[str, Option] = Field(description="What this server plays with where a client says nothing.")
    budgets: dict[str, int]
    card: dict[str, Any] | None = Field(description="The score card: thresholds and measured players.")


class TicketReply(Wire):
    """``GET /v1/tickets``: how a ticket stands."""

    ticket: str = Field(description="Public name of the ticket.")
    board: str
    contestant: str
    attempt: int = Field(description="Which ticket of this contestant for the same scenarios, from 1.")
    split: str
    planned: int = Field(description="How many scenarios it opens, one after another.")
    opened: int
    playing: bool = Field(description="Whether the last one that was opened may still be played.")
    seconds: float = Field(description="Until nothing more is opened.")
    settled: bool = Field(description="Whether the board has taken what was played.")
    env: EnvReply


class NextReply(Wire):
    """``POST /v1/tickets/next``: the episode that is to be played now, from where it stands."""

    ticket: str
    place: int = Field(description="Which scenario of the ticket, from 1.")
    planned: int
    agent_key: str = Field(description="Lets its holder observe and step this episode, and nothing else.")
    episode: EpisodeId
    task: TaskReply
    turn: int
    observation: ObservationReply


class EnvLine(Wire):
    """One line of ``GET /v1/envs``."""

    id: str
    slug: str
    release: str
    title: str
    description: str
    digest: str


class EnvsReply(Wire):
    """``GET /v1/envs``."""

    envs: list[EnvLine]


class Problem(Wire):
    """Every error: RFC 9457, with a stable code and what to do."""

    media_type: ClassVar[str] = "application/problem+json"

    type: str
    title: str
    status: int
    code: str
    detail: str
    fix: str


class PlayedItem(Wire):
    """A step of a batch that was played: ``result`` has the bytes that the step alone would be answered with."""

    status: Literal[200]
    result: StepReply | TracedReply


class RefusedItem(Wire):
    """A step of a batch that was not played."""

    status: int
    problem: Problem
    retry_after: float | None = Field(default=None, description="Seconds to wait, where that would help.")


class StepsReply(Wire):
    """The answer to a batch: one item for each that was asked, in the same order."""

    items: list[PlayedItem | RefusedItem]


__all__ = [name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, Wire)]
