"""A run on disk: its configuration, its metrics line by line, its checkpoints, and the way back into it.

``config.json`` is written first, ``metrics.jsonl`` grows by a line a step, ``checkpoints/step-N`` are written beside
their place and renamed, ``evaluations/step-N.json`` tells each episode of an evaluation, ``model/`` is the trained
model as a folder of Hugging Face's, and ``end.json``, written last, says why the run ended. A run that was killed goes
on from its last checkpoint: lines of metrics behind it are cut, and the next step is the one that would have followed.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.harness.folder import held
from agentenvs.harness.policies import resolve
from agentenvs.train import models
from agentenvs.train.batch import Batch
from agentenvs.train.board import Board
from agentenvs.train.clock import Clock
from agentenvs.train.config import TrainConfig, from_form
from agentenvs.train.engine import lora, states
from agentenvs.train.engine.learner import Learner, LearnerConfig
from agentenvs.train.engine.ranks import Ranks, join, leave, whole
from agentenvs.train.engine.torch_engine import TorchEngine
from agentenvs.train.evaluation import disjoint, evaluate
from agentenvs.train.interfaces import Assignment, losses
from agentenvs.train.opening import Played
from agentenvs.train.pipeline import assemble
from agentenvs.train.records import Episode
from agentenvs.train.rollout import Rollouts, demonstrate, world_model
from agentenvs.train.template import Template, choose
from agentenvs.train.tokenizer import train_tokenizer
from agentenvs.train.trainer import Trainer
from agentenvs.train.worlds import World, open_world, shared

Tell = Callable[[str, Mapping[str, float]], None]
"""Is told what was done (``clone``, ``step``, ``eval``) and its metrics."""

SEEN = 64
"""Scenarios of each world that a tokenizer is made from."""


def train(config: TrainConfig, folder: Path, *, tell: Tell | None = None) -> Path:
    """Begin a run in a folder that has none, and return the folder of the trained model.

    Args:
        config: The run's.
        folder: Made where it is not there.
        tell: For progress.

    Raises:
        ConfigError: The folder has a run, or the configuration makes no sense.
    """
    disjoint(config)
    if (folder / "config.json").exists():
        raise ConfigError(f"{folder} has a run", fix="resume it, or name another folder")
    return _with_ranks(config, folder, tell, _Run.begin)


def resume(folder: Path, *, tell: Tell | None = None) -> Path:
    """Go on with a run, from its last checkpoint; it reads its own configuration and takes no other.

    Raises:
        ConfigError: The folder has no run, or a damaged one.
    """
    path = folder / "config.json"
    try:
        config = from_form(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ConfigError(f"{folder} has no run", fix="name the folder of a run") from error
    except ValueError as error:
        raise ConfigError(f"{path} is damaged", why=str(error)) from error
    return _with_ranks(config, folder, tell, _Run.go_on)


def _with_ranks(config: TrainConfig, folder: Path, tell: Tell | None, go: Callable[[_Run], Path]) -> Path:
    ranks = join(config.model.device)
    ranks.wait()  # all have looked into the folder before the first writes there
    try:
        with _alone(folder) if ranks.first else nullcontext():
            return go(_Run(config, folder, (tell if ranks.first else None) or _silent, ranks))
    finally:
        leave()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from writing into a run's folder; one that nothing was written into is not left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with held(folder):
            yield
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()


def _silent(what: str, metrics: Mapping[str, float]) -> None:
    """Tell nobody."""


def end_of(folder: Path) -> dict[str, Any] | None:
    """Return why and where a run ended (``why``, ``step``, ``cpu``); None of one that has not.

    Raises:
        ConfigError: What says so is damaged.
    """
    path = folder / "end.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(f"{path} is damaged", why=str(error), fix="remove it, and resume the run") from error
    return found


@dataclass(slots=True)
class _Parts:
    """What a run is made of."""

    worlds: dict[str, World]
    tokenizer: Any
    template: Template
    engine: TorchEngine
    trainer: Trainer


class _Run:
    def __init__(self, config: TrainConfig, folder: Path, tell: Tell, ranks: Ranks) -> None:
        self.config, self.folder, self.tell, self.ranks = config, folder, tell, ranks
        self._board: Board | None = None
        self._clock = Clock(ranks)

    def begin(self) -> Path:
        parts = self._open()  # what makes no sense is said before anything is written
        try:
            if self.ranks.first:
                self.folder.mkdir(parents=True, exist_ok=True)
                _write(self.folder / "config.json", json.dumps(self.config.to_json(), indent=2))
            return self._anew(parts)
        finally:
            self._close(parts)

    def go_on(self) -> Path:
        found = sorted(self._checkpoints(), key=lambda one: one[0])
        parts = self._open()
        try:
            if not found:
                if self.ranks.first:
                    _write(self.folder / "metrics.jsonl", "")
                return self._anew(parts)
            self._restore(parts, found[-1][1])
            self._watch(parts)
            return self._loop(parts)
        finally:
            self._close(parts)

    def _anew(self, parts: _Parts) -> Path:
        """Clone, look where the run begins, and keep what cloning cost; then go through the steps."""
        self._clone(parts)
        self._watch(parts)
        parts.engine.keep("start")
        if self.config.evaluation.start:
            self._evaluate(parts)
        if self.config.save.every and self.config.clone.demonstrations:
            self._save(parts)
        return self._loop(parts)

    def _watch(self, parts: _Parts) -> None:
        if self.config.tensorboard and self.ranks.first:
            self._board = Board(self.folder, parts.trainer.number)

    # ---- making ----------------------------------------------------------------------------------------------------

    def _open(self) -> _Parts:
        config = self.config
        if config.model.threads:
            torch.set_num_threads(config.model.threads)
        worlds = {name: open_world(name, one, config.slots.slots) for name, one in config.worlds.items()}
        tokenizer, model = self._model(worlds)
        template = choose(config.model.template, tokenizer)
        reach, asked = getattr(model.config, "max_position_embeddings", None), config.slots.max_length
        if reach and asked > reach:
            fix = "lower slots.max_length and rollout.max_length, or choose another model"
            raise ConfigError(f"the model reads {reach} tokens, and slots.max_length is {asked}", fix=fix)
        engine = TorchEngine(
            models.moved(model, config.model.device),
            config.slots,
            config.learner,
            temperature=config.rollout.temperature,
            lora=config.lora,
            seed=config.seed,
            ranks=self.ranks,
            servers=config.servers,
        )
        pipeline = assemble(config, shared(list(worlds.values())) | engine.provides)
        rollouts = Rollouts(engine, worlds, template, config.rollout, config.seed, pipeline.hooks, ranks=self.ranks)
        return _Parts(worlds, tokenizer, template, engine, Trainer(config, engine, rollouts, pipeline))

    def _model(self, worlds: Mapping[str, World]) -> tuple[Any, Any]:
        config = self.config
        saved = self.folder / "tokenizer"
        if config.model.folder is not None:
            model, tokenizer = models.load(config.model.folder)
            return tokenizer, model
        if (saved / "tokenizer.json").exists():
            tokenizer = models.tokenizer(saved)
        else:
            tokenizer = train_tokenizer(_said(config, worlds), config.model.vocabulary)
        return tokenizer, models.build(config.shape, len(tokenizer), config.seed)

    def _close(self, parts: _Parts) -> None:
        if self._board is not None:
            self._board.close()
        parts.engine.close()
        for world in parts.worlds.values():
            world.close()

    # ---- cloning ---------------------------------------------------------------------------------------------------

    def _clone(self, parts: _Parts) -> None:
        """Clone demonstrators, the worlds in turn, and publish what was learned."""
        asked = self.config.clone
        if not asked.demonstrations:
            return
        episodes = [episode for name in sorted(parts.worlds) for episode in self._demonstrations(parts, name)]
        settings = LearnerConfig(
            lr=asked.lr, warmup=20, decay=asked.updates, token_budget=self.config.learner.token_budget
        )
        learner = Learner(parts.engine.model, settings, ranks=self.ranks)
        loss = losses.make("likelihood")
        for number in range(asked.updates):
            rows = [(number * asked.batch + place) % len(episodes) for place in range(asked.batch)]
            batch = Batch([episodes[row] for row in rows])
            update = learner.update(batch, loss, range(len(rows)))
            if number % 20 == 0 or number == asked.updates - 1:
                self._log("clone", number, {"loss": update.loss, "tokens": float(update.tokens)})
        parts.engine.publish()

    def _demonstrations(self, parts: _Parts, name: str) -> list[Episode]:
        asked, world = self.config.clone, parts.worlds[name]
        policy = resolve(demonstrator(asked.policy, world), world.spec)()
        split = self.config.worlds[name].split
        refs = [Assignment(name, TaskRef(split, asked.first + place)) for place in range(asked.demonstrations)]
        episodes = list(demonstrate(world, policy, parts.template, refs, self.config.rollout.head))
        fit = [one for one in episodes if all(len(part) <= self.config.slots.max_length for part in one.segments)]
        if not fit:
            raise ConfigError(f"no demonstration of {name} fits", fix="raise slots.max_length")
        for episode in fit:
            world_model(episode, asked.observations)
        return fit

    # ---- the loop --------------------------------------------------------------------------------------------------

    def _loop(self, parts: _Parts) -> Path:
        config, trainer = self.config, parts.trainer
        while self._over(trainer) is None:
            self._step(trainer)
            done, last = trainer.number, self._over(trainer) is not None
            if config.evaluation.every and (done % config.evaluation.every == 0 or last):
                self._evaluate(parts)
            if config.save.every and (done % config.save.every == 0 or last):
                self._save(parts)
        self._store(parts)
        end = {"why": self._over(trainer), "step": trainer.number, "cpu": self._clock.state_dict()}
        if self.ranks.first:
            _write(self.folder / "end.json", json.dumps(end))
        return self.folder / "model"

    def _over(self, trainer: Trainer) -> str | None:
        """Return why there is no further step, in words; None where there is one."""
        config = self.config
        if trainer.number >= config.steps:
            return f"all {config.steps} steps are done"
        if config.budget_cpu and self._clock.steps >= config.budget_cpu:
            return f"budget_cpu: {config.budget_cpu:g} CPU seconds of steps are spent"
        return None

    def _step(self, trainer: Trainer) -> None:
        start, before = time.perf_counter(), self._clock.seconds()
        step = trainer.step()
        step.metrics["seconds"] = time.perf_counter() - start
        self._clock.steps += self._clock.seconds() - before
        self._log("step", step.number, {**step.metrics, "cpu_steps": self._clock.steps})

    def _store(self, parts: _Parts) -> None:
        """Write the trained model, and its adapters where they alone were trained."""
        engine, place, base = parts.engine, self.folder / "model", self.config.model.folder
        made, state = engine.copied(), whole(engine.model.state_dict())
        if not self.ranks.first:
            return
        models.store(made, parts.tokenizer, place)
        Played.of(self.config).write(place)
        if self.config.lora.rank and base is not None:
            lora.save(engine.model, state, self.config.lora, self.folder / "adapter", str(Path(base).resolve()))
            parts.tokenizer.save_pretrained(self.folder / "adapter")

    def _evaluate(self, parts: _Parts) -> None:
        if not self.config.evaluation.every:
            return
        engine = parts.engine
        used, _ = engine.used, engine.use(engine.version)
        trainer = parts.trainer
        through = trainer.pipeline.wrapper
        found = evaluate(trainer.rollouts, self.config.worlds, self.config.evaluation, trainer.number, through)
        engine.use(used)
        if self.ranks.first:
            place = self.folder / "evaluations" / f"step-{trainer.number}.json"
            place.parent.mkdir(exist_ok=True)
            _write(place, json.dumps({"step": trainer.number, "episodes": found.rows()}))
        self._log("eval", trainer.number, found.metrics)

    def _log(self, kind: str, number: int, metrics: Mapping[str, float]) -> None:
        metrics = {**metrics, "cpu_seconds": self._clock.seconds()}
        if not self.ranks.first:
            return
        line = json.dumps({"kind": kind, "step": number, **metrics})
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        if self._board is not None:
            self._board.add(kind, number, metrics)
        self.tell(kind, {"step": float(number), **metrics})

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def _checkpoints(self) -> list[tuple[int, Path]]:
        found = (self.folder / "checkpoints").glob("step-*")
        return [(int(path.name[5:]), path) for path in found if path.name[5:].isdigit()]

    def _save(self, parts: _Parts) -> None:
        """Write a checkpoint beside its place, and rename it; then drop the oldest."""
        trainer = parts.trainer
        place = self.folder / "checkpoints" / f"step-{trainer.number}"
        draft = place.with_name(f".{place.name}.{os.getpid()}")
        if self.ranks.first:
            self._keep_tokenizer(parts.tokenizer)
            for left in place.parent.glob(".step-*"):  # by a kill, or a disk that was full
                shutil.rmtree(left)
        parts.engine.save(draft)
        cpu = self._clock.state_dict()
        if not self.ranks.first:
            return
        state = {
            "trainer": trainer.state_dict(),
            "cpu": cpu,
            "metrics": (self.folder / "metrics.jsonl").stat().st_size,
        }
        states.write(state, draft / "trainer.pt")
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
        for _, old in sorted(self._checkpoints())[: -max(self.config.save.keep, 1)]:
            shutil.rmtree(old)

    def _keep_tokenizer(self, tokenizer: Any) -> None:
        """Write the tokenizer where it is not there yet, at once and not file by file: a run cannot go on without."""
        place = self.folder / "tokenizer"
        if not place.exists():
            draft = place.with_name(f".{place.name}.{os.getpid()}")
            tokenizer.save_pretrained(draft)
            draft.rename(place)

    def _restore(self, parts: _Parts, place: Path) -> None:
        parts.engine.load(place)
        state = states.read(place / "trainer.pt")
        try:
            parts.trainer.load_state_dict(state["trainer"])
            self._clock.load_state_dict(state["cpu"])
        except states.DAMAGED as error:
            raise states.damaged(place / "trainer.pt", error) from error
        self.ranks.wait()
        if not self.ranks.first:
            return
        path = self.folder / "metrics.jsonl"
        with path.open("r+b") as file:
            file.truncate(min(state["metrics"], path.stat().st_size))


def _said(config: TrainConfig, worlds: Mapping[str, World]) -> list[str]:
    """Return what the worlds show and their demonstrators say, for a tokenizer."""
    texts: list[str] = []
    for name in sorted(worlds):
        world, split = worlds[name], config.worlds[name].split
        policy = resolve(demonstrator(config.clone.policy, world), world.spec)()
        for place in range(SEEN):
            ref = TaskRef(split, config.clone.first + place)
            texts += shown(world, policy, ref)
    return texts


def demonstrator(name: str, world: World) -> str:
    """Return the player that is cloned: the expert of a world that has none is its oracle."""
    return "oracle" if name == "expert" and name not in world.spec.players else name


def shown(world: World, policy: Any, ref: TaskRef) -> list[str]:
    """Return all that is seen and said in an episode of a player, and the legal actions at its beginning."""
    texts: list[str] = []
    observation = world.begin(0, ref)
    env = world.local(0)
    texts += env.admissible() or ()
    policy.reset(env.spec, env.task())
    if hasattr(policy, "reveal"):
        policy.reveal(env.current)
    while not isinstance(observation, str):
        texts.append(observation.text)
        said = policy.act(observation)
        texts.append(str(said))
        answer = world.step({0: said})[0]
        if answer.result is None or answer.result.terminated or answer.result.truncated:
            break
        observation = answer.result.observation
    return texts


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
