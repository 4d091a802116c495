"""NeMo Gym, by its own commands: its servers, its agent, its collection of rollouts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.adapters.plugs.calls import calls
from agentenvs.core import registry
from tests.adapters.peers import free_port
from tests.adapters.plugs.conftest import PAGES, PEERS, ROOMS, SECONDS, peer, run
from tests.adapters.plugs.scripts import script
from tests.adapters.plugs.test_trl import call
from tests.docs.blocks import blocks

PYTHON = "AGENTENVS_PEER_NEMO_GYM"
PAGE = PAGES / "nemo-gym.md"
PLACES = ("resources_servers/agentenvs", "responses_api_agents/simple_agent", "responses_api_models/openai_model")
TRIES = 5
"""On a busy machine Ray's parts do not wait long enough for each other, and no setting makes them."""
TOO_BUSY = "The current node timed out during startup"
CLERK = """
clerk_world:
  resources_servers:
    agentenvs: {entrypoint: app.py, domain: agent, env: clerk, url: URL}
clerk_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: clerk_world}
      model_server: {type: responses_api_models, name: policy_model}
"""


@contextlib.contextmanager
def started(command: str, folder: Path, **surroundings: str) -> Iterator[None]:
    """Run ``gym env start`` until all its servers are ready, and end it as a user does."""
    log = folder / "servers.log"
    for _ in range(TRIES):
        with log.open("w") as file:
            environ = {**os.environ, "PYTHONPATH": ROOMS, "RAY_raylet_start_wait_time_s": "30", **surroundings}
            words = ["bash", "-c", f"exec {command}"]
            process = subprocess.Popen(words, cwd=folder, stdout=file, stderr=file, env=environ, start_new_session=True)
        try:
            if _is_ready(process, log):
                yield
                return
        finally:
            _end(process)
    pytest.fail(log.read_text()[-4000:])


def _is_ready(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until the servers are; whether they are, or Ray gave up."""
    until = time.monotonic() + SECONDS
    while "servers ready!" not in (said := log.read_text()):
        if TOO_BUSY in said:
            return False
        assert process.poll() is None, said[-4000:]
        assert time.monotonic() < until, said[-4000:]
        time.sleep(0.5)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def clerk_call(action: dict[str, Any]) -> dict[str, Any]:
    """Return the tool call of an action of clerk's."""
    if "message" in action:
        return {"name": "speak", "arguments": {"text": action["message"]}}
    if "end" in action:
        return {"name": "finish", "arguments": {"reason": action["end"]}}
    return {"name": action["tool"], "arguments": action["arguments"]}


@pytest.mark.peer
@pytest.mark.timeout(1800)
def test_the_example_of_the_page_works_as_printed_beside_a_dialogue(tmp_path, server, responses):
    python = peer(PYTHON, "nemo-gym 0.4")
    yaml, app, dataset, start, collect = printed()
    (tmp_path / PLACES[0]).mkdir(parents=True)
    (tmp_path / PLACES[0] / "app.py").write_text(app)
    (tmp_path / PLACES[0] / "requirements.txt").write_text("agentenvs\n")
    (tmp_path / "household.yaml").write_text(yaml)
    (tmp_path / "clerk.yaml").write_text(CLERK.replace("URL", server))
    run(python, "-c", dataset, cwd=tmp_path)
    talk = dataset.replace("household", "clerk").replace('"dev"', f'"train", url={server!r}')
    run(python, "-c", talk, cwd=tmp_path)
    with (tmp_path / "household.jsonl").open("a") as file:
        file.write((tmp_path / "clerk.jsonl").read_text())
    for place in PLACES:  # the environments that it would make, of packages from elsewhere
        (tmp_path / "venvs" / place).mkdir(parents=True)
        (tmp_path / "venvs" / place / ".venv").symlink_to(python.parent.parent)
    lines = [*map(call, script("household", "dev", 0)), {"name": "fly", "arguments": {}}]
    words = [clerk_call(action) for action in script("clerk", "train", 0)]
    model = responses({"Household": lines, "Clerk": words})
    head = f"++head_server.host=127.0.0.1 ++head_server.port={free_port()}"
    own = f"+skip_venv_if_present=true +uv_venv_dir={tmp_path / 'venvs'} {head} --config clerk.yaml"
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    with started(f"{start.replace('http://127.0.0.1:9000/v1', model).strip()} {own}", tmp_path, PATH=path):
        run("bash", "-c", f"{collect.strip()} {head}", cwd=tmp_path, PATH=path)
    results = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    played = {(row["agent_ref"]["name"], row["index"]): row for row in results}
    won, lost = played["household_agent", 0], played["household_agent", 1]
    assert (won["reward"], won["success"], lost["reward"]) == (1.0, 1.0, 0.0)
    turns = won["agentenvs"]["turns"]
    assert len(turns) == len(lines) - 1  # after the end a call is refused
    assert {"valid", "state_before", "state_key", "potential"} <= turns[-1].keys()
    assert '"error"' in won["response"]["output"][-2]["output"]
    assert not lost["agentenvs"]["turns"][-1]["valid"]  # a tool that is none is a turn
    assert [played["clerk_agent", index]["reward"] for index in (0, 1)] == [1.0, 0.0]


@pytest.mark.peer
def test_sessions_are_episodes(tmp_path):
    calls = json.dumps([call(said) for said in script("household", "dev", 0)])
    said = run(peer(PYTHON, "nemo-gym 0.4"), PEERS / "nemo_gym_sessions.py", calls, cwd=tmp_path)
    assert "played 7 turns" in said


def printed() -> tuple[str, str, str, str, str]:
    """Return the blocks of the page: configuration, program, dataset, and the two commands."""
    yaml = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    app, dataset, start, collect = (block.text for block in blocks(PAGE))
    return yaml, app, dataset, start, collect


def test_every_world_is_a_set_of_tools():
    assert {"go_to", "take", "look"} <= calls(registry.spec("household")).keys()
    found = calls(registry.spec("clerk"))
    assert list(found) == ["refund", "speak", "finish"]
    assert found["speak"].action({"text": "Hello"}).text == "Hello"
    assert found["refund"].action({"order": "A-1"}).arguments == {"order": "A-1"}
