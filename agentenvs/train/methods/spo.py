"""SPO and SPO++: one episode a scenario, against what was known of it before.

Of each scenario a tracker holds evidence of success and failure as a Beta distribution, and its mean is the baseline,
read before the episode's own outcome is added. SPO lets evidence fade by ``rho = 2^(-D / 0.06)``, between 0.875 and
0.96, where D is how far the policy has moved on the scenario's last episode (mean absolute difference of its tokens'
log-probabilities); advantages are standardised over episodes. SPO++ counts time by published versions: evidence fades
by 0.875 a version since the weights that made it, so that the order of arrival does not matter; and advantages are
standardised over tokens, for the loss adds up tokens. The papers draw scenarios by ``sqrt(v (1 - v)) + 0.05``; here
they come in order, and a baseline says something only where they come again (``worlds.NAME.count``).

Sources: Xu and Ding 2025 (Single-stream policy optimization) and the authors' recipe in verl; arXiv 2608.24870.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Credit, Engine, Signal, credits_, signals
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode

HALF = 0.06
LOWEST, HIGHEST = 0.875, 0.96

Last = tuple[list[list[int]], list[list[float]], list[list[list[int] | None] | None]]
"""Of each segment: tokens, their log-probabilities where they are trained on, and what they were sampled among."""


@dataclass(slots=True)
class Evidence:
    """What is known of a scenario: successes and failures that have faded, and when."""

    wins: float = 0.5
    losses: float = 0.5
    version: int = 0
    last: Last | None = field(default=None)
    """Its last episode, for SPO."""

    @property
    def mean(self) -> float:
        """The expected success."""
        return self.wins / (self.wins + self.losses)


class _Tracker(Signal):
    """What both trackers share: a baseline read before an outcome is added."""

    provides = frozenset(("episode.baseline",))

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._known: dict[str, Evidence] = {}

    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """See :class:`Signal`; writes ``extras["baseline"]``."""
        for episode in episodes:  # all before any: they were sent out together
            episode.extras["baseline"] = self.baseline(episode)
        for episode in episodes:
            self.add(episode, engine)
        return {"baseline": float(np.mean([episode.extras["baseline"] for episode in episodes]))}

    def baseline(self, episode: Episode) -> float:
        """Return the expected success of an episode's scenario."""
        return self._known.setdefault(_task(episode), Evidence()).mean

    def add(self, episode: Episode, engine: Engine) -> None:
        """Take an outcome in."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`."""
        return {task: [one.wins, one.losses, one.version, one.last] for task, one in self._known.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self._known = {task: Evidence(one[0], one[1], one[2], one[3]) for task, one in state.items()}


@signals.register
class Tracker(_Tracker):
    """SPO's: evidence fades as the policy moves."""

    name = "spo-tracker"

    def add(self, episode: Episode, engine: Engine) -> None:
        """See :class:`_Tracker`."""
        known = self._known[_task(episode)]
        if known.last is not None:
            rho = fading(self._moved(known.last, engine))
            known.wins, known.losses = rho * known.wins, rho * known.losses
        won = float(episode.success)
        known.wins, known.losses = known.wins + won, known.losses + 1 - won
        ids = [segment.ids.tolist() for segment in episode.segments]
        masked = [np.where(segment.loss_mask, segment.logp_mu, np.nan).tolist() for segment in episode.segments]
        among = [
            None if one.candidates is None else [None if some is None else some.tolist() for some in one.candidates]
            for one in episode.segments
        ]
        known.last = (ids, masked, among)

    @staticmethod
    def _moved(last: Last, engine: Engine) -> float:
        among = [
            None if one is None else [None if some is None else np.array(some, dtype=np.int32) for some in one]
            for one in last[2]
        ]
        now = engine.score([np.array(ids, dtype=np.int32) for ids in last[0]], "now", among)
        gaps = np.concatenate(
            [np.abs(one - np.array(then, dtype=np.float32)) for one, then in zip(now, last[1], strict=True)]
        )
        return float(np.nanmean(gaps)) if np.isfinite(gaps).any() else 0.0


def fading(distance: float) -> float:
    """Return ``2^(-D / 0.06)`` between its bounds."""
    return float(np.clip(2.0 ** (-distance / HALF), LOWEST, HIGHEST))


@signals.register
class Clock(_Tracker):
    """SPO++'s: evidence fades by published versions, whatever order it comes in."""

    name = "spo-clock"

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        rho: float = LOWEST
        """What is left of evidence after a version."""

    config: Config

    def baseline(self, episode: Episode) -> float:
        """See :class:`_Tracker`: as of the version the episode was sent out under."""
        known = self._known.setdefault(_task(episode), Evidence())
        self._move(known, episode.dispatch_version)
        return known.mean

    def add(self, episode: Episode, engine: Engine) -> None:
        """See :class:`_Tracker`: the evidence is as old as the weights that made it."""
        known = self._known[_task(episode)]
        share = self.config.rho ** max(known.version - episode.oldest, 0)
        won = float(episode.success)
        known.wins, known.losses = known.wins + share * won, known.losses + share * (1 - won)

    def _move(self, known: Evidence, version: int) -> None:
        """Let evidence fade up to a version; time does not run backwards."""
        if version > known.version:
            share = self.config.rho ** (version - known.version)
            known.wins, known.losses, known.version = share * known.wins, share * known.losses, version


@credits_.register
class AgainstBaseline(Credit):
    """Outcomes less a baseline that was known before."""

    name = "against-baseline"
    needs = frozenset(("episode.baseline",))
    provides = frozenset(("batch.advantage",))

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        worth = batch.outcomes()
        for index, episode in enumerate(batch.episodes):
            batch.paint(index, float(worth[index]) - float(episode.extras["baseline"]))


@credits_.register
class OverEpisodes(Credit):
    """Standardises advantages, each episode counted once."""

    name = "standardise-episodes"
    kind = "normaliser"
    measure = "episode"
    needs = frozenset(("batch.advantage",))

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        values = []
        for index, episode in enumerate(batch.episodes):
            masks = zip(batch.advantages[index], episode.segments, strict=True)
            tokens = np.concatenate([advantage[segment.loss_mask] for advantage, segment in masks])
            if len(tokens):
                values.append(float(tokens.mean()))
        if len(values) > 1 and np.std(values) > 0:
            batch.standardise(float(np.mean(values)), float(np.std(values, ddof=1)))


@credits_.register
class OverTokens(Credit):
    """Standardises advantages, each token counted once: the measure of a loss that adds up tokens."""

    name = "standardise-tokens"
    kind = "normaliser"
    measure = "token"
    needs = frozenset(("batch.advantage",))

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        values = batch.flat()
        if len(values) > 1 and np.std(values) > 0:
            batch.standardise(float(values.mean()), float(np.std(values, ddof=1)))


def _task(episode: Episode) -> str:
    return f"{episode.env}/{episode.ref.split}/{episode.ref.index}"


recipe(
    Recipe(
        name="spo",
        title="SPO",
        source="Xu and Ding 2025 (Single-stream policy optimization); verl-recipe/spo",
        provenance="exact",
        signals=(("spo-tracker", {}),),
        credits=(("against-baseline", {}), ("standardise-episodes", {})),
        loss=("ppo-clip", {"high": 0.28}),
        sampler=("in-order", {"group_size": 1, "groups": 128}),
        aggregation="sequence-mean",
    )
)
recipe(
    Recipe(
        name="spo++",
        title="SPO++",
        source="arXiv 2608.24870, from its description",
        provenance="described",
        signals=(("spo-clock", {}),),
        credits=(("against-baseline", {}), ("standardise-tokens", {})),
        loss=("ppo-clip", {"high": 0.28, "dual": 2.0, "cap": 2.0}),
        sampler=("in-order", {"group_size": 1, "groups": 128}),
        aggregation="token-mean",
    )
)
