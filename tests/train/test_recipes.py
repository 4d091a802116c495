"""The recipes for a GPU make sense here: they are read, put together, and do a step with a tiny model of that shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from agentenvs.core.task import TaskRef
from agentenvs.train import models
from agentenvs.train.batch import Batch
from agentenvs.train.config import read
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.evaluation import disjoint
from agentenvs.train.interfaces import Tokens, hooks, losses, signals
from agentenvs.train.pipeline import assemble
from agentenvs.train.plugins import NeedError
from agentenvs.train.records import Episode, Turn
from agentenvs.train.run import train
from agentenvs.train.tokenizer import train_tokenizer
from tests.train.games import episodes, tiny
from tests.train.test_playing import CHATML
from tests.train.test_run import lines, small

RECIPES = sorted((Path(__file__).resolve().parents[2] / "docs" / "recipes").glob("*.toml"))


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of Qwen 2.5's shape with random weights, and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "qwen2"
    words = train_tokenizer(["You see a cabinet 1.", "go to cabinet 1", "<action>look</action>"] * 9, 400)
    words.chat_template = CHATML
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=None,
    )
    models.store(transformers.Qwen2ForCausalLM(config), words, folder)
    return folder


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_does_a_step(path: Path, qwen2: Path, tmp_path: Path) -> None:
    assert "NOT RUN" in path.read_text(encoding="utf-8")
    whole = read(path)
    disjoint(whole)
    assemble(whole, {"turn.state_key", "turn.facts", "turn.potential"})
    world = next(iter(whole.worlds))
    cuts = {
        "model.folder": f'"{qwen2}"',
        "model.device": '"cpu"',
        "model.threads": 1,
        f"worlds.{world}.options.limit": 2,
        "rollout.max_turn_tokens": 8,
        "rollout.max_length": 3000,
        "slots.slots": 4,
        "slots.max_length": 3000,
        "slots.precision": '"float32"',
        "learner.precision": '"float32"',
        "sampler.groups": 2,
        "sampler.group_size": 2,
        "sampler.minibatches": 2,
        "evaluation.count": 2,
        "evaluation.every": 1,
        "steps": 1,
    }
    train(read(path, [f"{name}={value}" for name, value in cuts.items()]), tmp_path / "run")
    found = lines(tmp_path / "run")
    assert [line["kind"] for line in found] == ["eval", "step", "eval"]
    assert found[1]["gap"] < 1e-4
    assert abs(found[1]["kl_ref"]) < 1e-3


@pytest.mark.parametrize(
    ("said", "played"),
    [
        ("<think>here?</think> <action>go to shelf 1</action>", "go to shelf 1"),
        ("<action>no</action> rather <action> look </action>.", "look"),
        ("<action>look", "look"),
        ("look", "look"),
    ],
)
def test_what_stands_in_the_tag_is_played(said: str, played: str) -> None:
    hook = hooks.make("answer")
    assert hook.played(Episode("", TaskRef("", 0), 0, 0), Turn(0, 0, 0), said) == played


def test_the_divergence_from_frozen_weights_has_the_gradient_its_formula_says() -> None:
    loss = losses.make("ppo-clip", {"kl": 0.5})
    logp = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    reference = torch.tensor([-1.5, -1.0, -0.5])
    zero, index = torch.zeros(3), torch.zeros(3, dtype=torch.long)
    then = logp.detach().clone()
    tokens = Tokens(logp, then, then, zero, index, index, {"logp_ref": reference})
    each, metrics = loss.tokens(tokens)
    gap = reference - logp.detach()
    assert metrics["kl_ref"].tolist() == pytest.approx((gap.exp() - gap - 1).tolist())
    (gradient,) = torch.autograd.grad(each.sum(), logp)
    assert gradient.tolist() == pytest.approx((0.5 * (1 - gap.exp())).tolist())


def test_a_divergence_needs_a_reference() -> None:
    with pytest.raises(NeedError, match=r"needs token\.logp_ref"):
        assemble(small(method_settings={"ppo-clip": {"kl": 0.1}}), [])


def test_the_reference_is_what_reinforcement_began_with() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64), LearnerConfig(lr=0.1, warmup=0))
    engine.keep("start")
    made = episodes(4)
    signals.make("reference").compute(made, engine)
    before = [segment.streams["logp_ref"].tolist() for one in made for segment in one.segments]
    batch = Batch(made)
    for index in range(4):
        batch.paint(index, 1.0)
    engine.train(batch, losses.make("reinforce"), range(4))
    signals.make("reference").compute(made, engine)
    assert [segment.streams["logp_ref"].tolist() for one in made for segment in one.segments] == before
