"""What a rollout leaves behind: token ids, and everything that was known when they were sampled.

Ids are the only truth; text is derived from them and never tokenised again. An episode is one segment as long as every
prompt extends the one before it, token by token; where a prompt does not (a history that is cut, a summary), a new
segment is opened, so that no token is ever scored behind a prefix it was not sampled behind. :class:`EpisodeWriter`
holds this: it is the only thing that makes segments.

Every sampled token keeps the sampler's log-probability and the version of the weights, so that a learner may lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from agentenvs.core.canon import JSON
from agentenvs.core.task import TaskRef
from agentenvs.core.trace import Fact

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Candidates = list[Ints | None]
"""For each token the ids it was sampled among, or None where among all."""

UNSAMPLED = -1
"""The version of tokens that no weights sampled."""


class Role(IntEnum):
    """Who wrote a token."""

    PROMPT = 0
    """What stands before the first turn: instructions, the first observation."""
    OBSERVATION = 1
    """What the environment answered, with the marks of the template around it."""
    ACTION = 2
    """Sampled by the policy."""
    FORCED = 3
    """In the policy's place, but not its choice: a forced end of a turn."""
    INJECTED = 4
    """Put in by a hook: memory, skills, advice, budgets."""
    TEACHER = 5
    """Sampled by another policy in this one's place."""


@dataclass(slots=True)
class Segment:
    """A run of tokens that was one prefix throughout. All arrays have its length, ``n``."""

    ids: Ints
    role: npt.NDArray[np.uint8]
    loss_mask: Mask
    """Tokens that are trained on."""
    logp_mu: Floats
    """The sampler's log-probability of each token, in nats; 0 where nothing was sampled."""
    version: Ints
    """The version of the weights that sampled each token; :data:`UNSAMPLED` elsewhere."""
    streams: dict[str, Floats] = field(default_factory=dict)
    """Further numbers a token, by name (``logp_ref``, ``value`` …)."""
    candidates: Candidates | None = None
    """Where sampling was constrained: for each token the ids that were legal there, or None where all were."""

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)


@dataclass(slots=True)
class Turn:
    """One turn: where its tokens are, and what it did to the world."""

    segment: int
    start: int
    end: int
    """The policy's tokens of the turn are ``[start, end)`` of the segment."""
    text: str = ""
    action: JSON = None
    """The canonical action, where the environment tells; what was said otherwise."""
    valid: bool = True
    error: str | None = None
    reward: float = 0.0
    state_key: str | None = None
    """Key of the world before the turn, where the environment tells."""
    next_state_key: str | None = None
    observed: tuple[Fact, ...] = ()
    used: tuple[Fact, ...] = ()
    written: tuple[Fact, ...] = ()
    milestones: tuple[str, ...] = ()
    potential: float | None = None
    """Φ before the turn, where the environment has one."""
    next_potential: float | None = None
    admissible: tuple[str, ...] | None = None
    signals: dict[str, float] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many tokens the policy wrote."""
        return self.end - self.start


@dataclass(slots=True)
class Episode:
    """One rollout."""

    env: str
    ref: TaskRef
    group: int
    """Episodes of one group began at the same scenario."""
    sample: int
    """Which of its group."""
    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    outcome: float = 0.0
    """The return: the sum of the environment's rewards."""
    success: bool = False
    ending: str = ""
    """``terminated``, ``truncated``, ``abandoned`` or ``aborted``."""
    lost: str | None = None
    """Why the episode could not be finished, where the environment or the service failed; such are not trained on."""
    dispatch_version: int = 0
    """The newest version of the weights when it was begun."""
    finish_version: int = 0
    env_seconds: float = 0.0
    model_seconds: float = 0.0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """How many tokens are trained on."""
        return int(sum(int(segment.loss_mask.sum()) for segment in self.segments))

    @property
    def oldest(self) -> int:
        """The oldest version that sampled one of its tokens."""
        versions = [int(part.min()) for one in self.segments if len(part := one.version[one.version >= 0])]
        return min(versions, default=self.dispatch_version)


class EpisodeWriter:
    """Writes the tokens of an episode as they come.

    Prompts and turns alternate: :meth:`prompt` takes the whole prefix a turn is sampled behind, :meth:`sampled` what
    was sampled.
    """

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._ids: list[int] = []
        self._roles: list[int] = []
        self._loss: list[bool] = []
        self._logps: list[float] = []
        self._versions: list[int] = []
        self._candidates: list[npt.NDArray[np.int32] | None] = []

    @property
    def ids(self) -> Sequence[int]:
        """The tokens of the open segment."""
        return self._ids

    def prompt(self, ids: Sequence[int], role: Role = Role.OBSERVATION) -> None:
        """Take the prefix of the next turn.

        What extends the open segment is appended to it; a prefix that does not opens a new one.

        Args:
            ids: The whole prefix.
            role: Of the tokens that are new; those of a segment's beginning are :attr:`Role.PROMPT`.
        """
        known = len(self._ids)
        if self._ids and list(ids[:known]) != self._ids:
            self._close()
            known = 0
        self.append(ids[known:], role if known else Role.PROMPT)

    def append(self, ids: Sequence[int], role: Role) -> None:
        """Append tokens nobody sampled."""
        count = len(ids)
        self._ids += [int(one) for one in ids]
        self._roles += [int(role)] * count
        self._loss += [False] * count
        self._logps += [0.0] * count
        self._versions += [UNSAMPLED] * count
        self._candidates += [None] * count

    def sampled(
        self,
        ids: Sequence[int],
        logps: Sequence[float],
        version: int,
        *,
        forced: Sequence[int] = (),
        candidates: Sequence[npt.NDArray[np.int32] | None] | None = None,
        trained: bool = True,
    ) -> Turn:
        """Append a turn of the policy, and return its place; the caller fills in what it did.

        Args:
            ids: What was sampled.
            logps: The sampler's log-probabilities, one a token.
            version: Of the weights.
            forced: Tokens after them in the policy's place that were not sampled; not trained on.
            candidates: Where sampling was constrained: the legal ids of each token, or None where all were. A token
                that alone was legal is no choice, and not trained on.
            trained: Whether the tokens are trained on.

        Raises:
            ValueError: There are more or fewer log-probabilities than tokens.
        """
        if len(ids) != len(logps) or (candidates is not None and len(candidates) != len(ids)):
            raise ValueError(f"{len(ids)} tokens, {len(logps)} log-probabilities")
        start = len(self._ids)
        self._ids += [int(one) for one in ids]
        self._roles += [int(Role.ACTION)] * len(ids)
        legal = list(candidates) if candidates is not None else [None] * len(ids)
        self._loss += [trained and (one is None or len(one) > 1) for one in legal]
        self._logps += [float(one) for one in logps]
        self._versions += [version] * len(ids)
        self._candidates += legal
        turn = Turn(len(self.episode.segments), start, len(self._ids))
        self.append(forced, Role.FORCED)
        self.episode.turns.append(turn)
        return turn

    def cut(self) -> None:
        """Drop what stands behind the last turn of the open segment: nothing will be sampled behind it."""
        turns = self.episode.turns
        if turns and turns[-1].segment == len(self.episode.segments):
            for kept in (self._ids, self._roles, self._loss, self._logps, self._versions, self._candidates):
                del kept[turns[-1].end :]  # type: ignore[attr-defined]

    def finish(self) -> Episode:
        """Close the open segment and return the episode."""
        if self._ids:
            self._close()
        return self.episode

    def _close(self) -> None:
        constrained = any(one is not None for one in self._candidates)
        self.episode.segments.append(
            Segment(
                np.array(self._ids, dtype=np.int32),
                np.array(self._roles, dtype=np.uint8),
                np.array(self._loss, dtype=np.bool_),
                np.array(self._logps, dtype=np.float32),
                np.array(self._versions, dtype=np.int32),
                candidates=self._candidates if constrained else None,
            )
        )
        self._ids, self._roles, self._loss, self._logps, self._versions, self._candidates = [], [], [], [], [], []
