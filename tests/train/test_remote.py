"""Sampling by URL: what a server samples is what this process would, and what does not fit is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.remote import ServersConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import Draw, Sampling
from agentenvs.train.run import train
from agentenvs.train.trainer import DriftError
from tests.train.completions import Served, serve
from tests.train.games import tiny
from tests.train.test_run import lines, small

SAMPLING = Sampling(max_tokens=9, stop=(1, 2, 3), forced_end=4)


def engine(served: Served, folder: Path, **more: Any) -> TorchEngine:
    settings: dict[str, Any] = {"backoff": 0.01, "folder": str(folder), "update": "none", **more}
    servers = ServersConfig(urls=(served.url,), **settings)
    return TorchEngine(tiny(), SamplerConfig(slots=4, max_length=64), LearnerConfig(), servers=servers)


def test_a_server_samples_what_this_process_scores(tmp_path: Path) -> None:
    draws = [Draw([3, 5, place], place, seed=place + (1 << 200)) for place in range(4)]
    with serve(Served(tiny(), fail=3)) as served:
        remote = engine(served, tmp_path)
        found = remote.sample(draws, SAMPLING)
        remote.close()
    assert {len(body["prompt"]) for body in served.asked} == {3}
    for draw, sampled in zip(draws, found, strict=True):
        (scored,) = remote.score([np.array([*draw.ids, *sampled.ids], np.int32)])
        assert scored[3:] == pytest.approx(np.array(sampled.logps), abs=1e-5)
        assert sampled.forced == ([] if sampled.ids[-1] in SAMPLING.stop else [4])


@pytest.mark.parametrize("update", ["sglang", "vllm"])
def test_a_run_samples_on_a_server_and_gives_it_new_weights(update: str, tmp_path: Path) -> None:
    with serve(Served(tiny())) as served:
        servers = {"urls": [served.url], "folder": str(tmp_path / "weights"), "update": update}
        train(small(servers=servers, steps=2, clone={"demonstrations": 0}), tmp_path / "run")
    told = [Path(one).name for one in served.updates if one.startswith(str(tmp_path))]
    assert told == ["version-0", "version-1", "version-2"]
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == ["version-1", "version-2"]
    assert [line["gap"] < 1e-4 for line in lines(tmp_path / "run")] == [True, True]
    assert (update == "vllm") == ("/pause?mode=keep" in served.updates)


def test_a_server_with_other_weights_stops_the_run(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    train(small(steps=1, clone={"demonstrations": 0}), probe)
    import transformers

    other = transformers.AutoModelForCausalLM.from_pretrained(probe / "model").eval()
    for value in other.parameters():
        value.data *= 3
    with serve(Served(other, stale=True)) as served:
        servers = {"urls": [served.url], "folder": str(tmp_path / "weights")}
        with pytest.raises(DriftError, match="nats a token"):
            train(small(servers=servers, steps=1, clone={"demonstrations": 0}), tmp_path / "run")


def without(form: dict[str, Any], name: str) -> dict[str, Any]:
    return {**form, "choices": [{key: value for key, value in form["choices"][0].items() if key != name}]}


def with_choice(form: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**form, "choices": [{**form["choices"][0], **more}]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda form: without(form, "token_ids"), "no token ids"),
        (lambda form: without(form, "logprobs"), "no token ids"),
        (lambda form: {"choices": []}, "no token ids"),
        (lambda form: with_choice(form, token_ids=[5]), "make no sense"),
        (lambda form: with_choice(form, token_ids=[500], logprobs={"token_logprobs": [-1.0]}), "make no sense"),
        (lambda form: with_choice(form, token_ids=[9], logprobs={"token_logprobs": [float("nan")]}), "make no sense"),
        (lambda form: with_choice(form, token_ids=[9], logprobs={"token_logprobs": [0.5]}), "make no sense"),
        (lambda form: with_choice(form, token_ids=[1, 9], logprobs={"token_logprobs": [-1, -1]}), "went on behind"),
        (lambda form: with_choice(form, token_ids=[9], logprobs={"token_logprobs": [-1]}), "without its last token"),
        (lambda form: {**form, "usage": {"prompt_tokens": 99}}, "of a prompt of 3"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(change: Any, says: str, tmp_path: Path) -> None:
    with serve(Served(tiny(), change=change)) as served:
        remote = engine(served, tmp_path)
        with pytest.raises(ServiceError, match=says):
            remote.sample([Draw([3, 5, 6], 0, seed=1)], SAMPLING)


def test_a_server_that_stays_away_is_asked_again_and_then_named(tmp_path: Path) -> None:
    with serve(Served(tiny(), fail=99)) as served:
        with pytest.raises(ServiceError, match="stays away"):
            engine(served, tmp_path, retries=2).sample([Draw([3, 5], 0, seed=1)], SAMPLING)
        assert served.fail == 96
    with serve(Served(tiny(), delay=2.0)) as served, pytest.raises(ServiceError, match="stays away"):
        engine(served, tmp_path, retries=1, timeout=0.1).sample([Draw([3, 5], 0, seed=1)], SAMPLING)


def test_what_servers_cannot_do_is_refused(tmp_path: Path) -> None:
    with serve(Served(tiny())) as served:
        with pytest.raises(ConfigError, match="legal actions"):
            engine(served, tmp_path).submit(Draw([1], 0, 0, [[5, 1]]))
        sampler = SamplerConfig(slots=1, max_length=64, keep_versions=2)
        with pytest.raises(ConfigError, match="newest weights"):
            TorchEngine(tiny(), sampler, LearnerConfig(), servers=ServersConfig(urls=(served.url,)))
    with pytest.raises(ConfigError, match="update is 'ftp'"):
        small(servers={"update": "ftp"})
