"""What is a setting of a run beside its method: TensorBoard, what is for CUDA only, curves of a mixture's worlds."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from agentenvs.core.errors import ConfigError, MissingExtraError
from agentenvs.train.engine.decoder import Cache, Decoder
from agentenvs.train.engine.graphs import STEP, reach_of
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.picture import Curve, report, svg
from agentenvs.train.run import resume, train
from tests.train.games import tiny
from tests.train.test_run import lines, small


def test_metrics_are_in_tensorboard_too(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='TensorBoard is an extra: pip install "agentenvs[tensorboard]"')
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(small(tensorboard=True, clone={"demonstrations": 0}), tmp_path / "run")
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    told = [(event.step, event.value) for event in read.Scalars("step/success")]
    assert told == [(line["step"], pytest.approx(line["success"])) for line in lines(tmp_path / "run")]


def test_without_tensorboard_it_says_how_to_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match="TensorBoard is not installed"):
        train(small(tensorboard=True, clone={"demonstrations": 0}), tmp_path / "run")


def test_a_mixture_has_a_curve_for_each_of_its_worlds(tmp_path: Path) -> None:
    worlds = {"shop": {"env": "webshop", "options": {"products": 1000, "limit": 3}}}
    asked = {"every": 4, "count": 2}
    config = small(worlds=worlds, clone={"demonstrations": 0}, sampler={"groups": 6}, evaluation=asked)
    train(config, tmp_path / "run")
    told = [line for line in lines(tmp_path / "run") if line["kind"] == "step"]
    assert {name for line in told for name in line if name.startswith("success/")} == {
        "success/household",
        "success/shop",
    }
    page = report(tmp_path / "run").read_text(encoding="utf-8")
    assert "Success by world" in page
    assert "success/shop" in page
    assert "seconds_env" in page
    assert "seconds_model" in page


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("sampler", "learner", "says"), [({"graphs": True}, {}, "graphs"), ({}, {"compile": True}, "compiled")]
)
def test_what_is_for_cuda_is_refused_elsewhere(sampler: dict[str, Any], learner: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=f"{says}.* on CUDA only"):
        TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64, **sampler), LearnerConfig(**learner))


def test_a_pass_that_looks_at_more_of_the_cache_says_the_same() -> None:
    model, length = tiny(), 200
    decoder = Decoder(model)
    found = []
    for reach in (None, reach_of(9, length)):
        cache = Cache(model.config, 3, length, torch.float32, torch.device("cpu"))
        with torch.inference_mode():
            decoder.forward(torch.arange(24).view(3, 8), torch.zeros(3, dtype=torch.long), cache)
            found.append(decoder.forward(torch.tensor([[5], [6], [7]]), torch.tensor([8, 3, 5]), cache, None, reach))
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert [reach_of(one, 1000) for one in (0, STEP - 1, STEP, 999)] == [STEP, STEP, 2 * STEP, 1000]


@pytest.mark.gpu
def test_graphs_sample_what_is_sampled_without_them() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    from agentenvs.train.interfaces import Draw, Sampling

    draws = [Draw([3, 5, place], place, seed=place) for place in range(4)]
    engines = [
        TorchEngine(tiny().cuda(), SamplerConfig(slots=4, max_length=64, graphs=graphs), LearnerConfig(compile=graphs))
        for graphs in (False, True)
    ]
    plain, graphed = (engine.sample(draws, Sampling(max_tokens=12)) for engine in engines)
    assert [one.ids for one in graphed] == [one.ids for one in plain]


def test_a_run_that_goes_on_shows_each_step_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='TensorBoard is an extra: pip install "agentenvs[tensorboard]"')
    train(small(tensorboard=True, clone={"demonstrations": 0}), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-4")
    resume(tmp_path / "run")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    assert [event.step for event in read.Scalars("step/success")] == [0, 1, 2, 3]


def test_a_picture_counts_in_round_numbers() -> None:
    drawn = svg([Curve("one", [(0.0, 0.1), (1338.0, 0.6269)])], "success")
    found = re.findall(r">([\d.]+)</text>", drawn)
    assert found == ["0", "0.2", "0.4", "0.6", "0", "500", "1000"]
    assert svg([Curve("flat", [(3.0, 0.0)])], "success")  # nothing to measure by
