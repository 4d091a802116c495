"""``hf:PATH``: what was trained here plays as it was trained, what was not is asked through a protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.run import RunConfig, RunResult, evaluate
from agentenvs.train import models
from agentenvs.train.models import Shape, build
from agentenvs.train.opening import find
from agentenvs.train.run import train
from agentenvs.train.tokenizer import train_tokenizer
from tests.train.test_run import small

CHATML = (
    "{% for message in messages %}<seen>{{ message.role }}\n{{ message.content }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<seen>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model knows a little."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(small(steps=2, save={"every": 1}), folder)
    return folder


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody else's: random weights, and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "stranger"
    words = train_tokenizer(["You see a cabinet 1.", "go to cabinet 1", "Action: look"] * 9, 400)
    words.chat_template = CHATML
    shape = Shape(hidden=32, layers=2, heads=2, feed_forward=64, length=9000)
    models.store(build(shape, len(words), 3), words, folder)
    return folder


def play(folder: Path, out: Path, **more: Any) -> RunResult:
    settings = {
        name: more.pop(name) for name in ("temperature", "seed", "extra", "max_tokens", "protocol") if name in more
    }
    said = OpenAISettings(model=str(folder), base_url="http://localhost", tools="text", **settings)
    form = {"episodes": 4, "split": "dev", "options": {"difficulty": "easiest", "limit": 4}, **more}
    return evaluate(RunConfig("household", f"hf:{folder}", out=out, settings=said, **form))


def said(result: RunResult) -> list[list[Any]]:
    files = sorted((result.folder / "sidecars").iterdir())
    return [[turn["action"] for turn in json.loads(file.read_text())["turns"]] for file in files]


def test_a_trained_model_plays_whatever_names_it(run: Path, tmp_path: Path) -> None:
    places = (run / "model", run, run / "checkpoints" / "step-2")
    results = [play(place, tmp_path / str(number), temperature=0.0) for number, place in enumerate(places)]
    assert all(result.clean for result in results)
    assert said(results[0]) == said(results[1]) == said(results[2])
    other = play(run / "checkpoints" / "step-1", tmp_path / "other", temperature=0.0)
    assert other.manifest.model is not None
    assert other.manifest.model.revision != results[2].manifest.model.revision


def test_a_run_is_the_same_again_and_side_by_side_and_other_seeds_play_otherwise(run: Path, tmp_path: Path) -> None:
    first = play(run, tmp_path / "1", seed=7)
    assert said(play(run, tmp_path / "2", seed=7)) == said(first)
    assert said(play(run, tmp_path / "3", seed=7, concurrency=4)) == said(first)
    assert said(play(run, tmp_path / "4", seed=8)) != said(first)


def test_trials_of_a_scenario_have_chances_of_their_own(run: Path, tmp_path: Path) -> None:
    assert len({json.dumps(one) for one in said(play(run, tmp_path / "run", episodes=1, trials=4))}) > 1


def test_tokens_are_counted_and_the_model_is_named(run: Path, tmp_path: Path) -> None:
    result = play(run, tmp_path / "run", episodes=1)
    form = json.loads(next((result.folder / "sidecars").iterdir()).read_text())["policy"]
    calls = form["calls"]
    assert len(calls) == result.episodes[0].turns
    assert all(len(call["ids"]) == len(call["logps"]) == call["tokens_out"] for call in calls)
    assert calls[0]["tokens_cached"] == 0 < calls[1]["tokens_cached"] < calls[1]["tokens_in"]
    assert result.episodes[0].usage["tokens_out"] == sum(call["tokens_out"] for call in calls)
    assert result.manifest.model.provider == "local"


@pytest.mark.parametrize("name", ["run", "stranger"])
def test_actions_are_chosen_among_the_legal_ones(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    result = play(folder, tmp_path / "run", extra={"constrained": True}, concurrency=2)
    assert [episode.invalid for episode in result.episodes] == [0] * 4


def test_a_context_that_is_full_ends_the_episode(run: Path, tmp_path: Path) -> None:
    result = play(run, tmp_path / "run", extra={"max_length": 160}, options={"difficulty": "easiest", "limit": 40})
    assert {episode.ending for episode in result.episodes} == {"truncated"}
    assert {episode.stopped for episode in result.episodes} == {"the context of 160 tokens is full"}
    assert result.clean


def test_a_strangers_model_is_asked_through_a_protocol(stranger: Path, tmp_path: Path) -> None:
    result = play(stranger, tmp_path / "run", episodes=2, max_tokens=8, concurrency=2, extra={"max_length": 9000})
    assert result.clean
    form = json.loads(next((result.folder / "sidecars").iterdir()).read_text())["policy"]
    assert form["protocol"] == "native"
    assert [call["tokens_out"] for call in form["calls"]] == [len(call["raw"]["ids"]) for call in form["calls"]]


def test_what_makes_no_sense_is_refused_in_words(run: Path, stranger: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        find(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="holds no model"):
        find(str(tmp_path))
    bare = tmp_path / "bare"
    shutil.copytree(run / "model", bare)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    with pytest.raises(ConfigError, match="holds no tokenizer"):
        find(str(bare))
    with pytest.raises(ConfigError, match="cannot be constrained"):
        play(stranger, tmp_path / "out", extra={"constrained": True}, protocol="react")
    with pytest.raises(ConfigError, match="no setting 'speed'"):
        play(stranger, tmp_path / "out", extra={"speed": 3})


def test_without_the_extra_it_says_which() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from agentenvs.core.errors import MissingExtraError\n"
        "from agentenvs.core import registry\n"
        "from agentenvs.harness.policies import resolve\n"
        "try: resolve('hf:somewhere', registry.spec('household'))\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "agentenvs[train]"' in done.stdout
