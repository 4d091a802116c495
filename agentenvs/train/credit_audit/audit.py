"""An audit in its folder: episodes, their truth line by line, what methods say, and the pages.

``audit.json`` holds what was asked and the digests of model and episodes, ``truth.jsonl`` a line an episode that was
measured. An audit that was killed goes on by the same command: episodes are played again (the same seed gives the
same), a line that was cut is dropped, and measured ones are not measured again. On a CPU at a fixed number of threads
the result is the same as that of an audit nobody disturbed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentenvs.core.errors import ConfigError
from agentenvs.train import sampling
from agentenvs.train.config import TrainConfig
from agentenvs.train.config import from_form as config_from_form
from agentenvs.train.credit_audit import agreement, branching, pages
from agentenvs.train.credit_audit.credited import Credited, credit, known
from agentenvs.train.credit_audit.opening import Opened, opened
from agentenvs.train.credit_audit.settings import AuditSettings
from agentenvs.train.credit_audit.truth import Truth, from_form
from agentenvs.train.interfaces import Assignment
from agentenvs.train.records import Episode

Tell = Callable[[str], None]
"""Is told what was done, a line each."""

AUDIT_STEP = (1 << 41) + 1
"""The step of the audited episodes; rounds before them follow."""


@dataclass(slots=True)
class Result:
    """What an audit found."""

    config: TrainConfig
    settings: AuditSettings
    episodes: list[Episode]
    truths: list[Truth]
    credited: list[Credited]
    turns: agreement.Turns
    rows: dict[str, dict[str, agreement.Estimate]]
    """By method."""
    itself: dict[str, agreement.Estimate]
    cut: str | None
    """The bound that ended it; None where every episode was measured."""
    left_out: int = 0
    """Turns without trained tokens."""
    lost: int = 0
    """Episodes whose world failed."""
    weights: str = ""
    order: Sequence[int] = field(default_factory=list)


def audit(
    config: TrainConfig,
    settings: AuditSettings,
    folder: Path,
    *,
    start: Path | None = None,
    tell: Tell | None = None,
) -> Result:
    """Audit the credit of methods, or go on with it, and write the pages.

    Args:
        config: With the folder of a model.
        settings: The audit's.
        folder: Made where it is not there.
        start: A checkpoint of the run, for methods whose teacher is where it began.
        tell: For progress.

    Raises:
        ConfigError: Something makes no sense, or the folder has another audit.
        CapabilityError: A world cannot fork.
    """
    names = known(settings.methods)
    parts = opened(config, start)
    try:
        branching.check(parts.rollouts)
        result = _audited(parts, settings, names, folder, tell or _silent)
    finally:
        parts.close()
    pages.write(result, folder)
    return result


def _silent(said: str) -> None:
    """Tell nobody."""


def _audited(parts: Opened, settings: AuditSettings, names: Sequence[str], folder: Path, tell: Tell) -> Result:
    assignments = _assignments(parts.config, settings)
    tell(f"playing {settings.episodes} episodes of {len(assignments)} scenarios")
    played = parts.rollouts.play(assignments, settings.group_size, AUDIT_STEP, horizon=_horizon(parts.config))
    episodes = [one for one in played if one.lost is None and one.tokens > 0]
    if not episodes:
        raise ConfigError("no episode could be played", why=played[0].lost or "none has a trained token")
    _begin(parts, settings, episodes, folder)
    truths, cut = _measured(parts, settings, episodes, folder, tell)
    rounds = []
    for number in range(settings.warmup):
        tell(f"warming up what methods carry, round {number + 1} of {settings.warmup}")
        more = parts.rollouts.play(
            assignments, settings.group_size, AUDIT_STEP + 1 + number, horizon=_horizon(parts.config)
        )
        rounds.append([one for one in more if one.lost is None and one.tokens > 0])
    credited = credit(parts.config, parts.engine, episodes, rounds, names, parts.provided, settings.passes, tell)
    tell("comparing")
    found = compared(truths, episodes, credited, settings)
    return Result(
        parts.config,
        settings,
        episodes,
        truths,
        credited,
        *found,
        cut,
        lost=len(played) - len(episodes),
        weights=parts.weights,
    )


def compared(
    truths: Sequence[Truth], episodes: Sequence[Episode], credited: Sequence[Credited], settings: AuditSettings
) -> tuple[agreement.Turns, dict[str, dict[str, agreement.Estimate]], dict[str, agreement.Estimate]]:
    """Return the turns, the measures of each method, and those of the truth itself."""
    turns = agreement.turns_of(truths, {index: one.group for index, one in enumerate(episodes)})
    values = {
        one.method: np.concatenate([one.values[truth.episode] for truth in truths]) for one in credited if one.values
    }
    trained = np.array(
        [
            bool(episodes[truth.episode].segments[turn.segment].loss_mask[turn.start : turn.end].any())
            for truth in truths
            for turn in episodes[truth.episode].turns
        ]
    )
    turns = turns.kept(trained)
    weights = agreement.resampled(turns.cluster, settings.resamples, settings.seed)
    rows = {
        name: agreement.with_intervals(agreement.Compared(turns, one[trained], settings.top).measure, turns, weights)
        for name, one in values.items()
    }
    return turns, rows, agreement.itself(turns, weights, settings.top)


def _assignments(config: TrainConfig, settings: AuditSettings) -> list[Assignment]:
    sampler = sampling.InOrder()
    sampler.over(config.worlds, config.seed)
    return sampler.draw(settings.episodes // settings.group_size, 0)


def _horizon(config: TrainConfig) -> int | None:
    found = config.sampler.get("horizon")
    return None if found is None else int(found)


# ---- the folder ----------------------------------------------------------------------------------------------------


def _begin(parts: Opened, settings: AuditSettings, episodes: Sequence[Episode], folder: Path) -> None:
    """Write what was asked, or see that it is what the folder says."""
    asked = settings.to_json()
    for name in ("methods", "budget", "top", "resamples", "warmup", "passes"):  # these change no truth
        del asked[name]
    form = {
        "config": parts.config.to_json(),
        "settings": asked,
        "weights": parts.weights,
        "episodes": _digest(episodes),
    }
    form = json.loads(json.dumps(form))
    path = folder / "audit.json"
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty, and has no audit", fix="name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(form, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        # Settings that came later have their defaults.
        before["config"] = json.loads(json.dumps(config_from_form(before["config"]).to_json()))
    except (ValueError, KeyError, ConfigError) as error:
        raise ConfigError(f"{path} is damaged", why=str(error), fix="name another folder") from error
    for name in ("config", "settings", "weights", "episodes"):
        if before.get(name) != form[name]:
            why = f"its {name} are others"
            if name == "episodes":
                why = "the same settings played other episodes here: another number of threads, or another machine"
            raise ConfigError(f"{folder} has another audit", why=why, fix="name another folder")


def _digest(episodes: Sequence[Episode]) -> str:
    found = hashlib.sha256()
    for episode in episodes:
        found.update(f"{episode.env} {episode.ref} {episode.group} {episode.sample} {episode.outcome!r}\n".encode())
        for segment in episode.segments:
            found.update(segment.ids.tobytes())
    return found.hexdigest()


def _order(episodes: Sequence[Episode]) -> list[int]:
    """Return the order of measuring: one episode of each group after another, so that a cut leaves many groups."""
    return sorted(range(len(episodes)), key=lambda index: (episodes[index].sample, episodes[index].group))


def _measured(
    parts: Opened, settings: AuditSettings, episodes: Sequence[Episode], folder: Path, tell: Tell
) -> tuple[list[Truth], str | None]:
    """Measure episodes until all are, or the budget is spent."""
    path = folder / "truth.jsonl"
    truths = {one.episode: one for one in _read(path)}
    for index in _order(episodes):
        spent = _spent(settings, truths.values())
        if spent and truths:
            tell(f"the budget is spent ({spent}): {len(truths)} of {len(episodes)} episodes are measured")
            return _in_order(truths), spent
        if index in truths:
            continue
        truth = branching.measure(parts.rollouts, episodes[index], index, settings.branches, _horizon(parts.config))
        truths[index] = truth
        _append(path, truth.to_line())
        told = [truths[one] for one in truths]
        tell(
            f"measured {len(truths)} of {len(episodes)} episodes: "
            f"{sum(one.continuations for one in told)} continuations played, {sum(one.joined for one in told)} joined, "
            f"{sum(one.tokens for one in told)} tokens, {sum(one.cpu for one in told):.0f} CPU seconds"
        )
    return _in_order(truths), None


def _in_order(truths: dict[int, Truth]) -> list[Truth]:
    return [truths[index] for index in sorted(truths)]


def _spent(settings: AuditSettings, truths: Any) -> str | None:
    told = list(truths)
    return settings.budget.spent(
        sum(one.continuations for one in told), sum(one.tokens for one in told), sum(one.cpu for one in told)
    )


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> list[Truth]:
    """Return what was measured; a last line that was cut by a kill is cut off.

    Raises:
        ConfigError: A line is damaged.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    try:
        return [from_form(json.loads(line)) for line in whole.splitlines()]
    except ValueError as error:
        raise ConfigError(
            f"{path} is damaged", why=str(error), fix="remove it; the episodes are measured anew"
        ) from error
