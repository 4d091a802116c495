"""What a board is: one environment in one release, one list of scenarios, one way to play and to score them.

Everything that could move a score is in the board's id, so that rows of one board can be compared, and a new release, a
new scoring or another option is a new board. Old boards stay, and can be read.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical, digest, sha256
from agentenvs.core.errors import ConfigError
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.manifest import env_entry
from agentenvs_scoring.cards import panel_of

ATTEMPTS = 10
"""Submissions of one contestant that a board takes."""

MOST_EPISODES = 20_000


@dataclass(frozen=True, slots=True)
class Board:
    """One board."""

    env: str
    release: str
    spec: str
    """Digest of what the spec says of behaviour."""
    split: str
    start: int
    scenarios: int
    trials: int
    panel: str
    """Digest of the scenarios, in order."""
    options: str
    """Canonical JSON of every option that belongs to the episodes."""
    budgets: str
    """Canonical JSON."""
    scoring: str
    """Digest of the code that judges outcomes."""
    sealed: bool = False
    image: str | None = None
    """The only container image whose worlds it takes; any where None."""
    since: str = ""
    """First version of the package with this release of the environment."""
    attempts: int = ATTEMPTS
    title: str = ""

    @property
    def id(self) -> str:
        """A readable name that changes with everything that could move a score."""
        name = self.env.rpartition("/")[2].lower()
        said = [getattr(self, part) for part in _IDENTITY]
        return f"{name}-{self.split}-{digest(said)[:10]}".replace("_", "-")

    @property
    def lineage(self) -> str:
        """What stays the same when only the scoring changes."""
        return digest([getattr(self, part) for part in _IDENTITY if part != "scoring"])

    @property
    def episodes(self) -> int:
        """Episodes of a submission."""
        return self.scenarios * self.trials

    def place(self, ref: TaskRef) -> int | None:
        """Return the place of a scenario on the board; None where it is not of it."""
        place = ref.index - self.start
        return place if ref.split == self.split and 0 <= place < self.scenarios else None

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Board:
        """Read back what :meth:`to_json` wrote."""
        return cls(**form)


_IDENTITY = (
    "env", "release", "spec", "split", "start", "scenarios", "trials", "panel", "options", "budgets", "scoring",
    "sealed", "image",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a board is asked to be."""

    env: str
    split: str | None = None
    episodes: int | None = None
    start: int = 0
    trials: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    image: str | None = None
    attempts: int = ATTEMPTS
    title: str = ""


def plan(wanted: Wanted) -> Board:
    """Make a board; its scenarios are made once, for their digest.

    Raises:
        UserError: Some subclass: no such environment, split, scenario or option; a world that cannot be replayed.
    """
    spec = registry.spec(wanted.env)
    if not spec.capabilities.replayable:
        raise ConfigError(f"{spec.id} cannot have a board", why="its records cannot be played again")
    if not spec.capabilities.deterministic:
        raise ConfigError(
            f"{spec.id} cannot have a board",
            why="what its records call effects is the other side's word",
            fix="host it",
        )
    env = registry.make_from(spec, **dict(wanted.options))
    try:
        split = env.splits().get(wanted.split or spec.eval_split or spec.default_split)
        env.check_ref(TaskRef(split.name if split else str(wanted.split), wanted.start))
        if split is None:
            raise ConfigError(f"{spec.id} has no split {wanted.split!r}")
        left = 100 if split.size is None else split.size - wanted.start
        count = left if wanted.episodes is None else wanted.episodes
        _check_counts(count, left if split.size is not None else count, wanted)
        digests = [env.scenario(split.name, wanted.start + place).digest for place in range(count)]
        options, budgets = env.public_options(), env.declared_budgets()
    finally:
        env.close()
    return Board(
        env=spec.id,
        release=spec.release,
        spec=spec.digest,
        split=split.name,
        start=wanted.start,
        scenarios=count,
        trials=wanted.trials,
        panel=panel_of(digests),
        options=canonical(options),
        budgets=canonical(budgets),
        scoring=scoring_digest(spec),
        sealed=split.sealed,
        image=wanted.image,
        since=spec.since,
        attempts=wanted.attempts,
        title=wanted.title,
    )


def _check_counts(count: int, left: int, wanted: Wanted) -> None:
    if not 1 <= count <= left:
        raise ConfigError(f"{count} scenarios from index {wanted.start} make no board", fix=f"there are {max(left, 0)}")
    if wanted.trials < 1 or count * wanted.trials > MOST_EPISODES:
        raise ConfigError(f"{wanted.trials} trials make no board", fix=f"1 or more, {MOST_EPISODES:,} episodes at most")
    if wanted.attempts < 1:
        raise ConfigError("a board takes at least one attempt of a contestant")


def scoring_digest(spec: EnvSpec) -> str:
    """Return the SHA-256 over the source that judges outcomes: that of manifests, or of the world's own module."""
    entry = env_entry(spec, spec.splits[0], 0, {}, {}) if spec.splits else None
    if entry is not None and entry.scorer_hash is not None:
        return entry.scorer_hash
    found = importlib.util.find_spec(spec.entry_point.partition(":")[0])
    origin = Path(found.origin) if found and found.origin else None
    return sha256(origin.read_bytes()) if origin and origin.is_file() else spec.digest


def machine_options(board: Board, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that belong to the machine and that the board's environment has."""
    try:
        spec = registry.spec(board.env)
    except Exception:  # noqa: BLE001 - boundary: a board of a package that is not installed can still be read
        return {}
    return {option.name: given[option.name] for option in spec.options if option.secret and option.name in given}


def options_of(board: Board) -> dict[str, JSON]:
    """Return the options of its episodes."""
    found: dict[str, JSON] = json.loads(board.options)
    return found
