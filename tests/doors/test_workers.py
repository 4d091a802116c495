"""Two workers on one journal: whichever is asked, the doors play the same session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agentenvs_servers.app import make_app
from agentenvs_servers.doors.opening import open_doors
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.settings import Settings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[list[httpx.AsyncClient]]:
    made, halls = [], []
    for number in range(2):
        journal = Journal(open_journal(str(tmp_path / "j.db"), fresh_epoch=not number), f"{number:08x}", shared=True)
        app = make_app(["room", "ledger"], Settings(doors="openenv,ors"), journal=journal)
        open_doors(app)
        made.append(httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server"))
        halls.append(app.handlers.hall)
    yield made
    for client, hall in zip(made, halls, strict=True):
        await hall.close()
        await client.aclose()


@pytest.mark.anyio
async def test_steps_of_openenv_by_turns(workers):
    first = await workers[0].post("/reset", json={"split": "few", "index": 1})
    assert first.status_code == 200, first.text
    name = {"X-Session-ID": first.headers["x-session-id"]}
    for turn in range(1, 4):
        answer = await workers[turn % 2].post("/step", json={"action": {"text": "look"}}, headers=name)
        assert answer.json()["metadata"]["turn"] == turn, answer.text
    for worker in workers:
        assert (await worker.get("/state", headers=name)).json()["step_count"] == 3
    again = await workers[1].post("/reset", json={"split": "few", "index": 2}, headers=name)
    assert again.status_code == 200, again.text
    answer = await workers[0].post("/step", json={"action": {"text": "win"}}, headers=name)
    assert (answer.json()["reward"], answer.json()["metadata"]["turn"]) == (1.0, 1)


@pytest.mark.anyio
async def test_a_session_of_the_reward_standard_by_turns(workers):
    name = {"X-Session-ID": "a-name-of-mine"}
    made = await workers[0].post("/create", json={"env_name": "room", "split": "few", "index": 1}, headers=name)
    assert made.status_code == 200, made.text
    said = []
    for worker in (workers[1], workers[0]):
        said.append((await worker.post("/call", json={"name": "look", "input": {}}, headers=name)).text)
    task_id = said[1].split("data: ")[1].split("\n")[0]
    assert task_id.endswith(".2")
    again = {"name": "look", "input": {}, "task_id": task_id}
    assert (await workers[1].post("/call", json=again, headers=name)).text == said[1]
    assert (await workers[1].post("/delete", headers=name)).status_code == 200
    assert (await workers[0].post("/ping", headers=name)).status_code == 404
