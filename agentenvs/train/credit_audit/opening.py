"""Opens what is audited: a run with its trained model, or a configuration with a model beside it."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from agentenvs.core.errors import ConfigError
from agentenvs.train.config import TrainConfig, from_form, read
from agentenvs.train.engine.torch_engine import TorchEngine
from agentenvs.train.opening import find
from agentenvs.train.pipeline import assemble
from agentenvs.train.rollout import Rollouts
from agentenvs.train.template import choose
from agentenvs.train.worlds import open_world, shared


@dataclass(slots=True)
class Opened:
    """What an audit plays with."""

    config: TrainConfig
    engine: Any
    rollouts: Rollouts
    provided: frozenset[str]
    """Fields that worlds and engine provide."""
    weights: str
    """SHA-256 of the model's weights."""

    def close(self) -> None:
        """Give the worlds up."""
        for world in self.rollouts.worlds.values():
            world.close()


def configured(target: Path, model: Path | None, changes: tuple[str, ...] = ()) -> TrainConfig:
    """Return the configuration of a run or a file, with the folder of the model that is audited.

    Args:
        target: Folder of a run, or a TOML file.
        model: Folder of a model, a run or a checkpoint; the run's newest where None.
        changes: ``table.name=value`` each, of a file.

    Raises:
        ConfigError: There is no such thing, or no model.
    """
    if target.is_dir():
        if changes:
            raise ConfigError("a run has its own configuration", fix="leave out --set, or name a configuration file")
        path = target / "config.json"
        try:
            config = from_form(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise ConfigError(f"{target} has no run", fix="name the folder of a run, or a TOML file") from error
        except ValueError as error:
            raise ConfigError(f"{path} is damaged", why=str(error)) from error
        folder = model or target
    else:
        config = read(target, changes)
        named = model or config.model.folder
        if named is None:
            raise ConfigError("there is no model to be audited", fix="name a folder with --model, or a run")
        folder = Path(named)
    return replace(config, model=replace(config.model, folder=str(find(str(folder)).path)))


def start_of(run: Path) -> Path | None:
    """Return the newest checkpoint of a run, which holds the weights it began with; None where there is none."""
    found = [one for one in (run / "checkpoints").glob("step-*") if one.name[5:].isdigit()]
    return max(found, key=lambda one: int(one.name[5:]), default=None)


def opened(config: TrainConfig, start: Path | None = None) -> Opened:
    """Open worlds, model and engine.

    Args:
        config: With the folder of a model.
        start: A checkpoint of the run: its ``start`` is the teacher of methods that ask for it, its library is what
            the policy is shown.

    Raises:
        ConfigError: Something of the configuration makes no sense.
    """
    if config.model.threads:
        torch.set_num_threads(config.model.threads)
    model, tokenizer = find(str(config.model.folder)).load()
    worlds = {name: open_world(name, one, config.slots.slots) for name, one in config.worlds.items()}
    engine = TorchEngine(
        model.to(config.model.device), config.slots, config.learner, temperature=config.rollout.temperature
    )
    if start is not None:
        _take_start(engine, model, start)
    provided = shared(list(worlds.values())) | engine.provides
    pipeline = assemble(config, provided)
    if start is not None and pipeline.library is not None:
        state = torch.load(start / "trainer.pt", weights_only=True)
        pipeline.load_state_dict(state["trainer"]["pipeline"])
    rollouts = Rollouts(
        engine, worlds, choose(config.model.template, tokenizer), config.rollout, config.seed, pipeline.hooks
    )
    return Opened(config, engine, rollouts, provided, _digest(model))


def _take_start(engine: TorchEngine, model: Any, checkpoint: Path) -> None:
    path = checkpoint / "engine.pt"
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)["kept"].get("start")
        if kept is not None:
            twin = copy.deepcopy(model)
            twin.load_state_dict(kept)
            engine.take("start", twin)
    except (OSError, RuntimeError, KeyError, ValueError, EOFError) as error:
        raise ConfigError(f"{path} is damaged, or of another model", why=str(error).splitlines()[0]) from error


def _digest(model: Any) -> str:
    found = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
