"""Five thousand episodes, 64 at a time, over HTTP: none is lost, doubled or mixed up."""

import json
import subprocess
import sys
import time

import pytest

from agentenvs.core.record import read_records
from agentenvs.core.replay import env_for, replay, rescore
from agentenvs.harness.run import RunConfig, evaluate

EPISODES = 5_000


@pytest.fixture
def url(tmp_path):
    file = tmp_path / "url"
    command = [sys.executable, "-m", "agentenvs.cli", "serve", "household", "--port", "0", "--url-file", str(file)]
    with subprocess.Popen([*command, "--retention", "86400"]) as server:
        try:
            while not file.exists():
                assert server.poll() is None
                time.sleep(0.1)
            yield file.read_text().strip()
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_episode_of_a_large_run_over_http_is_accounted_for(url, tmp_path):
    out = tmp_path / "run"
    config = RunConfig("household", "expert", split="train", episodes=EPISODES, concurrency=64, url=url, out=out)
    result = evaluate(config)
    assert result.clean
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert sorted(line["index"] for line in lines) == list(range(EPISODES))
    assert {line["ending"] for line in lines} <= {"terminated", "truncated"}
    wanted = {line["record"]: line for line in lines}
    assert len(wanted) == EPISODES
    env = None
    for record in read_records(out):
        env = env or env_for(record)
        line = wanted.pop(record.digest)
        assert (record.ref.index, record.footer["turns"]) == (line["index"], line["turns"])
        assert replay(record, env).equal
        assert rescore(record, env).equal
    assert not wanted
