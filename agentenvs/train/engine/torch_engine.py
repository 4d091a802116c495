"""An engine in this process: one model that is trained, and a copy of it that samples.

The copy is what makes versions mean something: :meth:`TorchEngine.publish` is the only way from the trained weights to
it, and every sampled token carries its version. The last weights that were published are kept, so that a rollout may
use older ones on purpose (:meth:`TorchEngine.use`), which is how lag is tested on one machine.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from agentenvs.core.errors import ConfigError
from agentenvs.train.batch import Batch
from agentenvs.train.engine import states
from agentenvs.train.engine.generic import GenericSlots, slots_of
from agentenvs.train.engine.learner import Learner, LearnerConfig, Scorer
from agentenvs.train.engine.lora import LoraConfig, adapt, merged
from agentenvs.train.engine.ranks import Ranks, optimizer_state, put, put_optimizer, whole
from agentenvs.train.engine.remote import RemoteSlots, ServersConfig, write_weights
from agentenvs.train.engine.slots import Slots
from agentenvs.train.interfaces import Draw, Loss, Sampled, Sampling, Update
from agentenvs.train.plugins import at_least
from agentenvs.train.records import Candidates, Floats

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class SamplerConfig:
    """Settings of the sampling half."""

    slots: int = 64
    """Conversations side by side."""
    max_length: int = 1024
    """The most tokens of each."""
    precision: str = "float32"
    graphs: bool = False
    """Replay the pass over single tokens as a CUDA graph; on CUDA only, for models of Llama's shape."""
    keep_versions: int = 1
    """How many published versions are kept for :meth:`TorchEngine.use`."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 1, "slots", "max_length", "keep_versions")


class TorchEngine:
    """Samples, scores and trains one model; see :class:`agentenvs.train.interfaces.Engine`.

    Args:
        model: A causal language model of Hugging Face's shape, on its device, in float32.
        sampler: Settings of sampling.
        learner: Settings of training.
        temperature: Of sampling.
        lora: Settings of adapters, where they alone are trained.
        seed: Of the adapters' weights.
        ranks: The processes that train together.
        servers: Those that sample in this process's place, where there are any.
    """

    provides: frozenset[str] = frozenset()

    def __init__(
        self,
        model: Any,
        sampler: SamplerConfig,
        learner: LearnerConfig,
        temperature: float = 1.0,
        *,
        lora: LoraConfig | None = None,
        seed: int = 0,
        ranks: Ranks | None = None,
        servers: ServersConfig | None = None,
    ) -> None:
        self.config = sampler
        self.servers = servers or ServersConfig()
        self.model: Any = model
        self.ranks = ranks or Ranks()
        check_head(model)
        self._twin = copy.deepcopy(model).eval().requires_grad_(False).to(_dtype(sampler.precision))
        adapt(model, lora or LoraConfig(), seed)
        self.ranks.shard(model)
        self.learner = Learner(model, learner, temperature, self.ranks)
        self.version = 0
        self.used = 0
        """The version that samples now."""
        self._slots = self._made_slots()
        self._kept: dict[str, Weights] = {}
        self._others: dict[str, Scorer] = {}
        self._published: OrderedDict[int, Weights] = OrderedDict()
        self._remember()
        self._tell_servers()

    def _made_slots(self) -> Slots | GenericSlots | RemoteSlots:
        sampler, vocabulary = self.config, self._twin.get_output_embeddings().weight.shape[0]
        if not self.servers.urls:
            return slots_of(self._twin, sampler.slots, sampler.max_length, graphs=sampler.graphs)
        if sampler.keep_versions > 1:
            raise ConfigError("servers sample with the newest weights alone", fix="leave out slots.keep_versions")
        return RemoteSlots(self.servers, sampler.slots, sampler.max_length, vocabulary)

    def _tell_servers(self) -> None:
        """Give the servers the weights that sample; all ranks wait for it."""
        if isinstance(self._slots, RemoteSlots) and self.servers.update != "none":
            if self.ranks.first:
                self._slots.publish(write_weights(self._twin, Path(self.servers.folder), self.version))
            self.ranks.wait()

    # ---- sampling --------------------------------------------------------------------------------------------------

    def submit(self, draw: Draw) -> None:
        """Take a turn to be sampled; see :meth:`Slots.submit`."""
        self._slots.submit(draw)

    def advance(self, sampling: Sampling) -> list[tuple[int, Sampled]]:
        """Compute until at least one turn is done; see :meth:`Slots.advance`."""
        return self._slots.advance(sampling)

    def sample(self, draws: Sequence[Draw], sampling: Sampling) -> list[Sampled]:
        """Sample a turn for each prefix; slots must differ."""
        for draw in draws:
            self.submit(draw)
        found: dict[int, Sampled] = {}
        while len(found) < len(draws):
            found.update(self.advance(sampling))
        return [found[draw.slot] for draw in draws]

    def release(self, slots: Sequence[int]) -> None:
        """Forget the prefixes of some slots."""
        self._slots.forget(slots)

    def use(self, version: int) -> int:
        """Sample with an older version, as far back as they are kept, and return which it became."""
        wanted = max(min(version, self.version), min(self._published))
        if wanted != self.used:
            self._twin.load_state_dict(self._published[wanted])
            self._slots.forget()
            self.used = wanted
        return wanted

    # ---- training --------------------------------------------------------------------------------------------------

    def score(
        self,
        ids: Sequence[npt.NDArray[np.int32]],
        which: str = "now",
        candidates: Sequence[Candidates | None] | None = None,
    ) -> list[Floats]:
        """Return the log-probability of each token behind its prefix; see :class:`agentenvs.train.interfaces.Engine`.

        Raises:
            ConfigError: No weights are kept under that name.
        """
        if which == "now":
            return self.learner.score(ids, candidates)
        if which in self._others:
            return self._others[which].score(ids, candidates)
        if which not in self._kept:
            raise ConfigError(f"no weights are kept as {which!r}", fix="keep() them before")
        now = whole(self.model.state_dict())
        put(self.model, self._kept[which])
        try:
            return self.learner.score(ids, candidates)
        finally:
            put(self.model, now)

    def keep(self, name: str) -> None:
        """Keep the weights as they are under a name."""
        self._kept[name] = whole(self.model.state_dict())

    def take(self, name: str, model: Any) -> None:
        """Keep another model under a name.

        Raises:
            ConfigError: Its vocabulary is another.
        """
        own, other = (one.get_output_embeddings().weight.shape[0] for one in (self.model, model))
        if own != other:
            raise ConfigError(f"the model has {other} tokens, not {own}", fix="name one with the same tokenizer")
        learner = self.learner
        self._others[name] = Scorer(model.to(learner.device), learner.config, learner.temperature, self.ranks)

    def keeps(self, name: str) -> bool:
        """Return whether something is kept under a name."""
        return name in self._kept or name in self._others

    def train(self, batch: Batch, loss: Loss, rows: Sequence[int], lr_scale: float = 1.0) -> Update:
        """Take one optimizer step."""
        return self.learner.update(batch, loss, rows, lr_scale)

    def annotate(self, batch: Batch, rows: Sequence[int], name: str) -> None:
        """Write the log-probabilities of trained tokens, as they are now, into a stream; see :class:`Learner`."""
        self.learner.annotate(batch, rows, name)

    def publish(self) -> int:
        """Make the trained weights those that sample."""
        self.version += 1
        self._twin.load_state_dict(self.weights())
        self._slots.forget()
        self.used = self.version
        self._remember()
        self._tell_servers()
        return self.version

    def weights(self) -> Weights:
        """Return the trained weights, whole and without adapters; all ranks must ask."""
        return merged(self.model, whole(self.model.state_dict()))

    def copied(self) -> Any:
        """Return a copy of the model as it is now, whole and without adapters, in float32; all ranks must ask."""
        made = copy.deepcopy(self._twin).float()
        made.load_state_dict(self.weights())
        return made

    # ---- on disk ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and random states, so that the next step is the same after :meth:`load`.

        Raises:
            DataError: The disk does not take them.
        """
        state: dict[str, Any] = {
            "model": whole(self.model.state_dict()),
            "optimizer": optimizer_state(self.learner.optimizer),
            "step": self.learner.step,
            "version": self.version,
            "used": self.used,
            "kept": self._kept,
            "published": dict(self._published),
            "random": torch.get_rng_state(),
        }
        if self.ranks.first:
            folder.mkdir(parents=True, exist_ok=True)
            states.write(state, folder / "engine.pt")

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote.

        Raises:
            ConfigError: It is not there, or of another model.
        """
        path = folder / "engine.pt"
        state = states.read(path, self.learner.device)
        try:
            put(self.model, state["model"])
            put_optimizer(self.learner.optimizer, state["optimizer"])
        except states.DAMAGED as error:
            raise states.damaged(path, error) from error
        self.learner.step, self.version = state["step"], state["version"]
        self._kept, self._published = state["kept"], OrderedDict(state["published"])
        torch.set_rng_state(state["random"].cpu())
        self._twin.load_state_dict(self._published[state["used"]])
        self._slots.forget()
        self.used = state["used"]
        self._tell_servers()

    def close(self) -> None:
        """Close what was opened. May be called twice."""
        if isinstance(self._slots, RemoteSlots):
            self._slots.close()

    def _remember(self) -> None:
        self._published[self.version] = whole(self._twin.state_dict())
        while len(self._published) > max(self.config.keep_versions, 1):
            self._published.popitem(last=False)


@torch.no_grad()
def check_head(model: Any) -> None:
    """Refuse a model whose logits are more than its last hidden states under its head."""
    ids = torch.arange(4, device=next(model.parameters()).device)[None]
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    if not torch.allclose(model.get_output_embeddings()(hidden), model(input_ids=ids).logits, atol=1e-4):
        raise ConfigError("the model's logits are scaled or capped behind its head", fix="choose another model")


def _dtype(precision: str) -> torch.dtype:
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if precision not in known:
        raise ConfigError(f"no precision {precision!r}", fix=f"one of: {', '.join(known)}")
    return known[precision]
