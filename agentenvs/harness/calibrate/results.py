"""From episodes to what a card says: bands with digests, rows of models, where a world is saturated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import DataError
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.harness.calibrate.measuring import Measured
from agentenvs.harness.calibrate.plan import QUICK_EPISODES
from agentenvs.harness.report import Run
from agentenvs.harness.rollout import EpisodeSummary
from agentenvs.harness.statistics import Interval, deviation, wilson
from agentenvs_scoring.cards import SATURATED, Band, ModelRow, Saturated, panel_of
from agentenvs_scoring.stats import Z95

_LIMIT = "limit"


def band(measured: Measured, spec: EnvSpec, split: SplitSpec | None = None) -> Band:
    """Return the band of a row.

    Args:
        measured: The row.
        spec: The environment.
        split: Where it is of loaded data and was played whole, its own digest names the panel.
    """
    episodes = measured.episodes
    own = split.panel if split is not None and split.size == len(episodes) else None
    return Band(
        player=measured.row.player,
        split=measured.row.split,
        panel=own or panel_of([episode.scenario_digest or "" for episode in episodes]),
        outcomes=outcomes(episodes),
        quick=min(QUICK_EPISODES, len(episodes)),
        quick_outcomes=outcomes(episodes[:QUICK_EPISODES]),
        **_numbers(episodes),
        **_options(measured.options, spec),
    )


def outcomes(episodes: Sequence[EpisodeSummary]) -> str:
    """Return the digest of what came of episodes."""
    return digest(
        [
            [episode.index, episode.scenario_digest, episode.ending, episode.success, episode.reward, episode.turns]
            for episode in episodes
        ]
    )


def usual_limit(spec: EnvSpec) -> Any:
    """Return the default of the option ``limit``; None where there is none."""
    return next((option.default for option in spec.options if option.name == _LIMIT), None)


def saturated(found: Iterable[tuple[Band | ModelRow, Sequence[str]]], usual: int | None = None) -> list[Saturated]:
    """Return where the best of the players that see no more than others wins more than 90 %.

    Args:
        found: Rows of such players, with the options that each asked for itself: they do not make another world.
        usual: The limit that goes without saying.
    """
    best: dict[str, tuple[Band | ModelRow, dict[str, JSON]]] = {}
    for row, wanted in found:
        options = {name: value for name, value in row.options.items() if name not in wanted}
        place = digest([row.split, row.limit, options])
        if place not in best or row.success > best[place][0].success:
            best[place] = (row, options)
    return [
        Saturated(
            row.split,
            row.player if isinstance(row, Band) else row.name,
            row.success,
            row.success_band[0],
            options if row.limit in (None, usual) else {**options, _LIMIT: row.limit},
        )
        for row, options in best.values()
        if row.success > SATURATED
    ]


def model_row(run: Run, spec: EnvSpec) -> ModelRow:
    """Return the row of a run of a model.

    Raises:
        DataError: The run is of another environment or release, did not come to an end, or is of a player that was
        shown the scenario.
    """
    entry, manifest = run.manifest.envs[0], run.manifest
    if (entry.env_id, entry.env_version, entry.spec_digest) != (spec.id, spec.release, spec.digest):
        what = f"{run.folder} is of {entry.env_id} release {entry.env_version}"
        raise DataError(what, why=f"the card is of {spec.id} release {spec.release}", fix="play it again with this one")
    if not manifest.complete:
        raise DataError(f"{run.folder} did not come to an end", fix="go on with it: agentenvs eval --resume")
    if manifest.agent.privileged:
        what = f"{run.folder} is of a player that was shown the scenario"
        raise DataError(what, fix="such players are anchors: name them in [[measure]]")
    episodes = [EpisodeSummary(**episode) for episode in run.episodes]
    digests = [episode.scenario_digest for episode in episodes]
    if not digests or None in digests:
        raise DataError(f"not every scenario of {run.folder} is known", fix="agentenvs eval --retry-errors")
    return ModelRow(
        name=run.name,
        protocol=manifest.agent.prompts_hash,
        split=entry.split,
        panel=entry.panel or panel_of([known for known in digests if known is not None]),
        run=manifest.run_id,
        table=manifest.episode_table_digest,
        **_numbers(episodes),
        **_options(json.loads(entry.options), spec),
    )


def _numbers(episodes: Sequence[EpisodeSummary]) -> dict[str, Any]:
    count, won = len(episodes), sum(episode.success for episode in episodes)
    turns = [float(episode.turns) for episode in episodes]
    steps, error = math.fsum(turns) / count, deviation(turns) / math.sqrt(count)
    return {
        "episodes": count,
        "won": won,
        "success": round(won / count, 4),
        "steps": round(steps, 2),
        "reward": round(math.fsum(episode.reward for episode in episodes) / count, 4),
        "success_band": _outwards(wilson(won, count), 4),
        "steps_band": _outwards(Interval(max(steps - Z95 * error, 0.0), steps + Z95 * error), 2),
    }


def _outwards(interval: Interval, digits: int) -> tuple[float, float]:
    """Return an interval of so many digits that holds the whole of it."""
    scale = 10**digits
    return math.floor(interval.low * scale) / scale, math.ceil(interval.high * scale) / scale


def _options(options: Mapping[str, JSON], spec: EnvSpec) -> dict[str, Any]:
    defaults = {option.name: option.default for option in spec.options}
    others = {name: value for name, value in options.items() if name != _LIMIT and value != defaults.get(name)}
    return {"limit": options.get(_LIMIT), "options": others}
