"""The training half: log-probabilities at trained positions only, a loss a token, one optimizer step an update.

Hidden states are gathered at the positions that predict trained tokens before the vocabulary is looked at, and the
vocabulary is looked at in chunks that are computed again on the way back, so that logits of a whole micro-batch never
exist at once. Where an action was sampled among the legal ones, its probability is the restricted one here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentenvs.core.errors import ConfigError
from agentenvs.train.batch import Batch
from agentenvs.train.engine.packing import MicroBatch, pack
from agentenvs.train.engine.ranks import Ranks, blocks, whole, within
from agentenvs.train.engine.slots import restricted
from agentenvs.train.interfaces import Loss, Tokens, Update
from agentenvs.train.plugins import at_least
from agentenvs.train.records import Candidates, Floats

LOGITS = 1 << 24
"""The most logits at once, before they are computed in chunks."""


@dataclass(frozen=True)
class LearnerConfig:
    """Settings of the training half."""

    lr: float = 1e-3
    warmup: int = 10
    """Updates over which the learning rate rises; a step of a run is minibatches times epochs of them."""
    decay: int = 0
    """The update at which it has fallen to 0, in a line; never where 0."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    clip: float = 1.0
    """The largest norm of the gradient."""
    token_budget: int = 8192
    """The most tokens of a micro-batch, padding included."""
    constant_length: float = 1024.0
    """What the aggregation ``constant`` divides by."""
    precision: str = "float32"
    """``float32``, or ``bfloat16`` for matrix products under fp32 weights."""
    checkpointing: bool = False
    """Compute activations again on the way back."""
    compile: bool = False
    """Compile the model's blocks (``torch.compile``); on CUDA only."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "lr", "warmup", "decay", "weight_decay")
        if self.clip <= 0:
            raise ValueError(f"clip is {self.clip}: no gradient is left")
        at_least(self, 1, "token_budget", "constant_length")
        first, second = self.betas
        if not (0 <= first < 1 and 0 <= second < 1):
            raise ValueError(f"betas are {self.betas}, not two numbers from 0 to below 1")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision is {self.precision!r}, not float32 or bfloat16")


class Scorer:
    """Scores tokens with a model.

    Args:
        model: A causal language model.
        config: Settings.
        temperature: Of sampling; log-probabilities are of the distribution that was sampled.
        ranks: The processes that score together.
    """

    def __init__(
        self, model: nn.Module, config: LearnerConfig, temperature: float = 1.0, ranks: Ranks | None = None
    ) -> None:
        self.model, self.config, self.temperature = model, config, temperature
        self.ranks = ranks or Ranks()
        if config.compile:
            if self.device.type != "cuda":
                raise ConfigError("blocks are compiled on CUDA only", fix="leave out learner.compile")
            for block in blocks(model):
                block.compile(dynamic=True)

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return next(self.model.parameters()).device

    # ---- log-probabilities -----------------------------------------------------------------------------------------

    def hidden(self, ids: Tensor) -> Tensor:
        """Return the last hidden states of right-padded sequences; shape ``(rows, width, d)``."""
        with self._precision():
            body: Any = self.model.base_model  # of a model with adapters, too, what stands below the head
            found = body(input_ids=ids, use_cache=False)
        return found.last_hidden_state  # type: ignore[no-any-return]

    def logps(self, micro: MicroBatch) -> Tensor:
        """Return the log-probability of each trained token, with gradient; shape ``(n,)``."""
        return within(self.model, self._logps, micro)

    def _logps(self, micro: MicroBatch) -> Tensor:
        ids = torch.from_numpy(micro.ids).to(self.device)
        row, column = self._on(micro.row), self._on(micro.column)
        hidden = self.hidden(ids)[row, column - 1]
        targets = ids[row, column]
        chunk = max(1, LOGITS // int(self.head.weight.shape[0]))
        if len(targets) <= chunk:
            return self._logp(hidden, targets, micro.candidates)
        parts = []
        for begin in range(0, len(targets), chunk):
            span = slice(begin, begin + chunk)
            some = None if micro.candidates is None else micro.candidates[span]
            parts.append(checkpoint(self._logp, hidden[span], targets[span], some, use_reentrant=False))
        return torch.cat(parts)

    def _logp(
        self, hidden: Tensor, targets: Tensor, candidates: Sequence[npt.NDArray[np.int32] | None] | None
    ) -> Tensor:
        with self._precision():
            logits = self.head(hidden)
        found = restricted(logits.float(), candidates or [None] * len(targets), self.temperature)
        return found.gather(1, targets[:, None]).sum(1)  # no view: FSDP hangs a hook on it

    @property
    def head(self) -> nn.Linear:
        """What maps hidden states to logits."""
        return self.model.get_output_embeddings()  # type: ignore[operator,no-any-return]

    @torch.no_grad()
    def score(
        self, sequences: Sequence[npt.NDArray[np.int32]], candidates: Sequence[Candidates | None] | None = None
    ) -> list[Floats]:
        """Return the log-probability of every token behind its prefix, 0 for the first of a sequence."""
        order = sorted(range(len(sequences)), key=lambda one: -len(sequences[one]))
        parts: list[list[int]] = []
        while order:
            count = max(1, self.config.token_budget // max(len(sequences[order[0]]), 1))
            parts.append(order[:count])
            order = order[count:]
        scored: list[tuple[int, Floats]] = []
        for part, counts in self.ranks.share(parts):
            among = [None if candidates is None else candidates[one] for one in part]
            some = within(self.model, self._scored, [sequences[one] for one in part], among)
            scored += list(zip(part, some, strict=True)) if counts else []
        found = dict(self.ranks.gather(scored))
        return [found[one] for one in range(len(sequences))]

    def _scored(
        self, sequences: Sequence[npt.NDArray[np.int32]], candidates: Sequence[Candidates | None]
    ) -> list[Floats]:
        """Score sequences that are computed together, the longest first."""
        ids = torch.zeros((len(sequences), max(len(sequences[0]), 1)), dtype=torch.long)
        for line, one in enumerate(sequences):
            ids[line, : len(one)] = torch.from_numpy(one.astype(np.int64))
        ids = ids.to(self.device)
        hidden = self.hidden(ids)
        found: list[Floats] = []
        for line, (one, known) in enumerate(zip(sequences, candidates, strict=True)):
            count = len(one)
            logps = np.zeros(count, np.float32)
            if count > 1:
                among = None if known is None else known[1:count]
                logps[1:] = self._logp(hidden[line, : count - 1], ids[line, 1:count], among).cpu().numpy()
            found.append(logps)
        return found

    @torch.no_grad()
    def annotate(self, batch: Batch, rows: Sequence[int], name: str) -> None:
        """Write the log-probability of each trained token, as it is now, into a stream of the segments."""
        found: list[tuple[int, int, npt.NDArray[np.int64], Floats]] = []
        for micro, counts in self.ranks.share(pack(batch, rows, self.config.token_budget)):
            logps = self.logps(micro).float().cpu().numpy()
            for line, (index, place) in enumerate(micro.places if counts else ()):
                mine = micro.row == line
                found.append((index, place, micro.column[mine], logps[mine]))
        for index, place, columns, worth in self.ranks.gather(found):
            segment = batch.episodes[index].segments[place]
            stream = segment.streams.setdefault(name, np.zeros(len(segment), np.float32))
            stream[columns] = worth

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _on(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.config.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()


class Learner(Scorer):
    """Trains a model; see :class:`Scorer` for its arguments. Where there are ranks, its shards lie on them already."""

    def __init__(
        self, model: nn.Module, config: LearnerConfig, temperature: float = 1.0, ranks: Ranks | None = None
    ) -> None:
        super().__init__(model, config, temperature, ranks)
        self.step = 0
        if config.checkpointing:
            model.gradient_checkpointing_enable()  # type: ignore[operator]
        decayed = [one for one in model.parameters() if one.requires_grad and one.ndim > 1]
        others = [one for one in model.parameters() if one.requires_grad and one.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=config.lr, betas=config.betas, fused=_fused(model)
        )

    def update(self, batch: Batch, loss: Loss, rows: Sequence[int], lr_scale: float = 1.0) -> Update:
        """Take one optimizer step on some episodes.

        The log-probabilities at the start of the update are the stream ``logp_old`` of a segment where it is there,
        and those of this very pass where it is not, as in an update of one step.
        """
        config = self.config
        micros = pack(batch, rows, config.token_budget, loss.aggregation, config.constant_length)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        for micro, counts in self.ranks.share(micros):
            value = self._loss(micro, loss, sums, float(counts))
            value = value * self.ranks.size  # sharded gradients are means over ranks, and ours a sum
            value.backward()  # type: ignore[no-untyped-call]
        count = sum(micro.count for micro in micros)
        norm = float(whole({"": nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)})[""])
        for group in self.optimizer.param_groups:
            group["lr"] = config.lr * lr_scale * self.schedule()
        if np.isfinite(norm):
            self.optimizer.step()
        self.step += 1
        sums = self.ranks.sum(sums)
        total = sums.pop("loss", 0.0)
        metrics = {name: value / max(count, 1) for name, value in sums.items()}
        return Update(total, norm, count, {**metrics, "lr": self.optimizer.param_groups[0]["lr"]})

    def schedule(self) -> float:
        """Return what the learning rate is multiplied with at this update."""
        config = self.config
        rise = min(1.0, (self.step + 1) / config.warmup) if config.warmup else 1.0
        fall = max(0.0, 1.0 - self.step / config.decay) if config.decay else 1.0
        return rise * fall

    def _loss(self, micro: MicroBatch, loss: Loss, sums: dict[str, float], counts: float) -> Tensor:
        """Return the loss of a micro-batch, times 0 where it is computed for other ranks' sake alone."""
        logp = self.logps(micro)
        streams = {name: self._on(values) for name, values in micro.streams.items()}
        tokens = Tokens(
            logp=logp,
            logp_mu=self._on(micro.logp_mu),
            logp_old=streams.pop("logp_old", logp.detach()),
            advantage=self._on(micro.advantage),
            episode=self._on(micro.episode),
            turn=self._on(micro.turn),
            streams=streams,
        )
        each, metrics = loss.tokens(tokens)
        value = (each * self._on(micro.weight)).sum() * counts
        gap = (logp.detach() - tokens.logp_mu).abs()
        metrics = {**metrics, "gap": gap, "logp": logp.detach()}
        sums["loss"] = sums.get("loss", 0.0) + float(value.detach())
        for name, values in metrics.items():
            sums[name] = sums.get(name, 0.0) + counts * float(values.detach().float().sum())
        return value


def _fused(model: nn.Module) -> bool:
    return next(model.parameters()).device.type == "cuda"
