"""What one rank of a test does: updates and scores of made-up episodes, and a small run; writes what came of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.lora import LoraConfig
from agentenvs.train.engine.ranks import join, leave, whole
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import losses
from tests.train.games import episodes, tiny

AGGREGATIONS = ("token-mean", "sequence-mean", "constant", "response-sum")


def engine(**more: Any) -> TorchEngine:
    learner = LearnerConfig(token_budget=96, lr=1e-2, warmup=0, clip=1e9)
    return TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64), learner, ranks=join("cpu"), **more)


def batch(count: int = 13) -> Batch:
    made = Batch(episodes(count, seed=4))
    for index in range(count):
        made.paint(index, float(index) / 6 - 1)
    return made


def stepped(one: TorchEngine, aggregation: str = "token-mean") -> dict[str, Any]:
    """Take a step on episodes that do not divide evenly, and tell all of it."""
    made, loss = batch(), losses.make("ppo-clip")
    loss.aggregation = aggregation  # type: ignore[assignment]
    one.annotate(made, range(13), "logp_old")
    update = one.train(made, loss, range(13))
    grads = whole({name: value.grad for name, value in one.model.named_parameters() if value.grad is not None})
    old = [segment.streams["logp_old"].tolist() for _, _, segment in made.segments()]
    gradient = torch.cat([value.flatten() for value in grads.values()]).tolist()
    return {"loss": update.loss, "norm": update.gradient_norm, "gradient": gradient, "old": old, **update.metrics}


def told(folder: Path) -> dict[str, Any]:
    """Do all that is compared between one process and two."""
    found: dict[str, Any] = {name: stepped(engine(), name) for name in AGGREGATIONS}
    found["lora"] = stepped(engine(lora=LoraConfig(rank=4)))
    one = engine()
    stepped(one)
    one.publish()
    one.save(folder / "saved")
    found["next"] = [stepped(one)["loss"] for _ in range(2)]
    found["weights"] = {name: value.sum().item() for name, value in one.weights().items()}
    ids = [np.arange(1, size, dtype=np.int32) for size in (2, 30, 9)]
    found["scores"] = [scored.tolist() for scored in one.score(ids)]
    return found


def main() -> None:
    from agentenvs.train.run import train
    from tests.train.test_run import small

    folder = Path(sys.argv[1])
    ranks = join("cpu")
    found = told(folder)
    if ranks.first:
        (folder / "told.json").write_text(json.dumps(found))
    ranks.wait()
    train(small(sampler={"groups": 3, "group_size": 2}), folder / "run")
    leave()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
