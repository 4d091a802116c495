"""Finds the model of a path: a folder of Hugging Face's, a run of ours, or one of a run's checkpoints.

A model that was trained here is played as it was trained: how its context was written, how long it was, how actions
were drawn. That stands in ``agentenvs.json`` beside the weights (:class:`Played`), and for a checkpoint in the
configuration of its run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentenvs.core.errors import ConfigError
from agentenvs.train import models
from agentenvs.train.config import TrainConfig, from_form
from agentenvs.train.engine import lora, states

PLAYED = "agentenvs.json"
_WORDS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")

Kind = Literal["folder", "checkpoint"]


@dataclass(frozen=True)
class Played:
    """How a model was played while it was trained."""

    head: str
    template: str
    constrained: bool
    max_turn_tokens: int
    max_length: int
    temperature: float
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: TrainConfig) -> Played:
        """Return that of a run."""
        one = config.rollout
        length = min(one.max_length, config.slots.max_length)
        kind = config.model.template
        return cls(one.head, kind, one.constrained, one.max_turn_tokens, length, one.temperature, config.hooks)

    def write(self, folder: Path) -> None:
        """Write it beside a model."""
        (folder / PLAYED).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Played | None:
        """Return what stands beside a model; None where nothing does.

        Raises:
            ConfigError: It is damaged.
        """
        path = folder / PLAYED
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} is damaged", why=str(error)) from error


@dataclass(frozen=True)
class Place:
    """Where a model lies."""

    kind: Kind
    path: Path
    run: Path | None = None
    """The folder of its run, where it is a checkpoint of one."""

    def digest(self) -> str:
        """Return the SHA-256 of its weights."""
        found = hashlib.sha256()
        names = ("*.safetensors", "*.bin", "engine.pt")
        for path in sorted(path for name in names for path in self.path.glob(name)):
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    found.update(block)
        return found.hexdigest()

    def played(self) -> Played | None:
        """Return how it was played; None of a model that was not trained here."""
        return Played.read(self.path) if self.run is None else Played.of(_config(self.run))

    def load(self) -> tuple[Any, Any]:
        """Return model, in float32, and tokenizer.

        Raises:
            ConfigError: They cannot be read.
        """
        if self.run is None:
            return models.load(self.path)
        config = _config(self.run)
        words = models.tokenizer(self.run / "tokenizer")
        if config.model.folder is not None:
            model, _ = models.load(config.model.folder)
        else:
            model = models.build(config.shape, len(words), config.seed)
        lora.adapt(model, config.lora)
        path = self.path / "engine.pt"
        state = states.read(path)
        try:
            model.load_state_dict(state["model"])
        except states.DAMAGED as error:
            raise states.damaged(path, error) from error
        return lora.unwrapped(model), words


def find(text: str) -> Place:
    """Return where the model of a path lies; loads nothing.

    Raises:
        ConfigError: There is none.
    """
    path = Path(text).expanduser()
    if not path.is_dir():
        raise ConfigError(f"{path} is no folder", fix="name the folder of a model, of a run, or of a checkpoint")
    if (path / "engine.pt").is_file():
        run = path.resolve().parents[1]
        _config(run)
        return Place("checkpoint", path, run)
    if (path / "metrics.jsonl").is_file() and (path / "config.json").is_file():
        if (path / "model" / "config.json").is_file():
            return find(str(path / "model"))
        found = [one for one in (path / "checkpoints").glob("step-*") if one.name[5:].isdigit()]
        if not found:
            raise ConfigError(f"the run in {path} has no model yet", fix="wait for its first checkpoint")
        return find(str(max(found, key=lambda one: int(one.name[5:]))))
    if not (path / "config.json").is_file() and lora.base_of(path) is None:
        raise ConfigError(f"{path} holds no model", why="config.json is not there", fix="name a folder of a model")
    if not any((path / name).is_file() for name in _WORDS):
        raise ConfigError(f"{path} holds no tokenizer", fix="save the tokenizer of the model there too")
    return Place("folder", path)


def _config(run: Path) -> TrainConfig:
    try:
        return from_form(json.loads((run / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{run} is no run, which a checkpoint lies in", why=str(error)) from error
