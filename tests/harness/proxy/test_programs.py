"""Programs are given their model by the proxy, and their runs tell what they used."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from agentenvs.core.record import read_records
from agentenvs.core.replay import replay
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.proxy.settings import ProxySettings
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.harness.endpoint import of_body, serve, words

ASKER = Path(__file__).parents[1] / "programs" / "asker.py"
REAL = "sk-real-0123456789"


@of_body
def look(body):
    if body["messages"][0]["content"] == "hang":
        return lambda handler: time.sleep(3)
    return words("look")


@pytest.fixture(scope="module")
def url():
    with background(["household"], Settings()) as found:
        yield found


@pytest.fixture
def endpoint():
    with serve(default=look) as found:
        yield found


def run(url, endpoint, tmp_path, kind, episodes=1, **more):
    budget = {name: more.pop(name) for name in ("tokens",) if name in more}
    model = OpenAISettings(model="m", base_url=endpoint.url, retries=0, **more.pop("model", {}))
    command = f"exec:{sys.executable} {ASKER} {kind}"
    settings = ProxySettings(model=model, **budget)
    given = {"split": "builtin", "episodes": episodes, "options": {"limit": 4}, "out": tmp_path / "run", **more}
    result = evaluate(RunConfig("household", command, url=url, settings=settings, **given))
    assert all(replay(record).equal for record in read_records(tmp_path / "run"))
    sidecars = [json.loads(file.read_text())["policy"] for file in sorted((tmp_path / "run" / "sidecars").iterdir())]
    return result, sidecars


def test_a_run_tells_what_its_programs_used(url, endpoint, tmp_path):
    result, sidecars = run(url, endpoint, tmp_path, "whole", episodes=3, concurrency=3)
    assert [(episode.ending, episode.turns, episode.error) for episode in result.episodes] == [
        ("truncated", 4, None)
    ] * 3
    assert result.summary["usage"]["tokens_in"] == 3 * 4 * 10
    assert result.episodes[0].metrics == {"model_calls": 4, "model_errors": 0, "uncounted_calls": 0}
    assert (result.manifest.model.id, result.manifest.model.base_url_class) == ("m", "loopback")
    for said in sidecars:
        prompts = [call["prompt"]["messages"][0]["content"] for call in said["model"]["calls"]]
        assert prompts == [f"turn {turn}" for turn in (1, 2, 3, 4)]


def test_a_program_sees_its_own_key_and_no_other(url, endpoint, tmp_path, monkeypatch):
    for name in ("REAL_KEY", "SOME_COPY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, REAL)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of the user")
    result, sidecars = run(url, endpoint, tmp_path, "environment", model={"api_key_env": "REAL_KEY"})
    told = json.loads(sidecars[0]["output"])
    assert REAL not in json.dumps(told)
    assert not {"REAL_KEY", "SOME_COPY", "ANTHROPIC_AUTH_TOKEN"} & set(told)
    assert told["OPENAI_API_KEY"] == told["ANTHROPIC_API_KEY"]
    assert told["OPENAI_API_KEY"].startswith("sk-agentenvs-000000-")
    assert told["OPENAI_BASE_URL"] == told["ANTHROPIC_BASE_URL"] + "/v1"
    assert result.episodes[0].ending == "abandoned"


def test_a_spent_budget_ends_what_a_program_may_ask(url, endpoint, tmp_path):
    result, sidecars = run(url, endpoint, tmp_path, "whole", tokens=30)
    assert result.episodes[0].turns == 2
    assert "429: the budget of this episode is spent: 30 of 30 tokens" in sidecars[0]["output"]


def test_a_program_killed_in_the_middle_of_a_call_harms_nothing(url, endpoint, tmp_path):
    result, sidecars = run(url, endpoint, tmp_path, "dying", episodes=2, concurrency=2)
    assert [(episode.ending, episode.turns) for episode in result.episodes] == [("abandoned", 2)] * 2
    assert [call["status"] for call in sidecars[0]["model"]["calls"]] == [200, 200, 499]
    assert result.episodes[0].usage["tokens_in"] == 20


def test_a_program_that_its_model_left_alone_is_no_fault_of_the_program(url, tmp_path):
    with serve(words("look"), default=503) as endpoint:
        result, _ = run(url, endpoint, tmp_path, "whole")
    (episode,) = result.episodes
    assert (episode.ending, episode.turns, episode.fault) == ("abandoned", 1, "service")
    assert episode.error == "the program left when its model stayed away"
