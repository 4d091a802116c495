"""Who keeps the record of an episode: this process, or the server that plays it.

A rollout plays a :class:`Recorder`. :class:`~agentenvs.core.record.Recorded` is one for environments in process;
:class:`Served` is one for those behind a wire, where only the server's record counts. Where a server goes away with its
episode, what is left is a record that says so.
"""

from __future__ import annotations

from typing import Any, Protocol

from agentenvs.client import RemoteEnv
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.core.observation import Observation
from agentenvs.core.playable import Playable
from agentenvs.core.record import Recorded, lost_record, parse_records
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict


class Recorder(Protocol):
    """An environment whose episode is recorded; :class:`~agentenvs.core.record.Recorded` says what each means."""

    @property
    def env(self) -> Playable:
        """The environment."""

    @property
    def scenario(self) -> Any:
        """The hidden scenario, for a player that is privileged to see it."""

    @property
    def ended(self) -> bool:
        """Whether the episode has ended."""

    def reset(self, ref: TaskRef | None = None) -> Observation:
        """Begin an episode and its record."""

    def step(self, action: Any) -> StepResult:
        """Play a turn and note it."""

    def finish(self, ending: Ending) -> Verdict:
        """End the episode if it has not ended, and close the record."""

    def abort(self, why: str, ref: TaskRef) -> Verdict:
        """Close the record of an environment that cannot be asked for a verdict."""

    def to_bytes(self) -> bytes:
        """Return the record."""


class Served:
    """An environment behind a wire, with its server's record.

    Args:
        env: The environment.
        privileged: The player sees the hidden scenario.
        library: Digest of what the player carried over from earlier episodes.
    """

    def __init__(self, env: RemoteEnv, *, privileged: bool = False, library: str | None = None) -> None:
        self.env = env
        self._privileged = privileged
        self._library = library
        self._record: bytes | None = None
        self._begun = False

    @property
    def scenario(self) -> Any:
        """The hidden scenario: that of the twin world, the same episode in process.

        Raises:
            UserError: Some subclass: the same world is not to be had here.
        """
        return self.env.twin().current

    @property
    def ended(self) -> bool:
        """Whether the episode has ended."""
        return self._record is not None or (self._begun and self.env.ending is not None)

    def reset(self, ref: TaskRef | None = None) -> Observation:
        """Begin an episode; see :meth:`RemoteEnv.reset`."""
        self._record, self._begun = None, False
        observation = self.env.reset(ref, privileged=self._privileged, library=self._library)
        self._begun = True
        return observation

    def step(self, action: Any) -> StepResult:
        """Play a turn; see :meth:`RemoteEnv.step`."""
        return self.env.step(action)

    def finish(self, ending: Ending) -> Verdict:
        """End the episode if it has not ended; see :meth:`RemoteEnv.finish`."""
        return self.env.finish(ending)

    def abort(self, why: str, ref: TaskRef) -> Verdict:
        """Make the record of an episode whose server cannot be asked any more."""
        env = self.env
        self._record = record = lost_record(
            env.spec, env.public_options(), ref, why, privileged=self._privileged, library=self._library
        )
        return parse_records(record)[0].verdict or Verdict(0.0, False)

    def to_bytes(self) -> bytes:
        """Return the server's record of the episode.

        Raises:
            ServiceError: The server stays away, has no record, or has one of something else.
            RecordError: What it has is no record.
        """
        if self._record is None:
            data = self.env.record()
            self._check(data)
            self._record = data
        return self._record

    def _check(self, data: bytes) -> None:
        env, record = self.env, parse_records(data, f"the record of {self.env.host}")[0]
        header, footer = record.header, record.footer or {}
        told = (header["env"], header["spec"], header["options"], record.ref)
        played = (env.spec.id, env.spec.digest, env.public_options(), env.ref)
        if told != played or footer.get("ending") != env.ending or header["privileged"] != self._privileged:
            raise ServiceError(f"the record of {env.host} is of another episode", fix="report it to its operator")


def recorder(env: Playable, *, privileged: bool = False, library: str | None = None) -> Recorder:
    """Return what keeps the record of an environment's episodes.

    Raises:
        ConfigError: It is an environment of neither kind.
    """
    if isinstance(env, Environment):
        return Recorded(env, privileged=privileged, library=library)
    if isinstance(env, RemoteEnv):
        return Served(env, privileged=privileged, library=library)
    raise ConfigError(f"a {type(env).__name__} keeps no record", fix="give an Environment or a RemoteEnv")
