"""The Open Reward Standard: sessions by name, calls as streams that can be resumed, tools for worlds without any."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings


class Ors:
    """A client of a few lines."""

    def __init__(self, url: str, sid: str | None = None) -> None:
        self.http = httpx.Client(base_url=url, timeout=20, headers={"X-Session-ID": sid or str(uuid.uuid4())})

    def create(self, **body: Any) -> httpx.Response:
        return self.http.post("/create", json=body)

    def call(self, name: str, task_id: str | None = None, **arguments: Any) -> tuple[str, Any]:
        """Return the name of a call, and what came of it."""
        body = {"name": name, "input": arguments, **({} if task_id is None else {"task_id": task_id})}
        answer = self.http.post("/call", json=body)
        assert answer.headers["content-type"] == "text/event-stream", answer.text
        events = [block.split("\ndata: ") for block in answer.text.strip().split("\n\n")]
        named = {event.removeprefix("event: "): data for event, data in events}
        if "error" in named:
            return named.get("task_id", ""), named["error"]
        return named["task_id"], json.loads(named["end"])


@pytest.fixture
def client() -> Iterator[Callable[..., Ors]]:
    """Return a function that makes a client."""
    with ExitStack() as stack:

        def make(url: str, sid: str | None = None) -> Ors:
            made = Ors(url, sid)
            stack.enter_context(made.http)
            return made

        yield make


def test_an_episode(server, client):
    ors = client(server.url)
    assert ors.create(env_name="Clerk", split="train", index=4).json() == {"sid": ors.http.headers["x-session-id"]}
    assert [tool["name"] for tool in ors.http.get("/task_tools").json()["tools"]] == ["refund", "step", "close"]
    assert ors.http.get("/prompt").json()[0]["text"].startswith("Customer: Hello")
    assert ors.http.get("/messages").json()[0]["role"] == "user"
    _, said = ors.call("step", text="What is the order number?")
    output = said["output"]
    assert (said["ok"], output["reward"], output["finished"]) == (True, 0.0, False)
    ors.call("refund", order=output["blocks"][0]["text"].split()[-1].rstrip("."))
    assert ors.call("close")[1]["output"]["reward"] == 1.0
    assert ors.call("close")[1]["reason"] == "episode_finished"
    assert ors.http.post("/ping").status_code == 200
    assert ors.http.post("/delete").status_code == ors.http.post("/delete").status_code == 200
    assert ors.http.post("/ping").status_code == 404
    assert ors.http.post("/call", json={"name": "close", "input": {}}).status_code == 404


def test_a_name_is_given_out(server, client):
    answer = httpx.post(f"{server.url}/create_session", json={})
    name = answer.text.split("data: ")[1].split("\n")[0]
    assert uuid.UUID(name)
    assert client(server.url, name).create(env_name="room", task_spec={"split": "few", "index": 1}).status_code == 200


def test_a_create_asked_again_is_the_same_session(server, client):
    ors = client(server.url)
    body = {"env_name": "room", "split": "few", "index": 1}
    assert ors.create(**body).status_code == ors.create(**body).status_code == 200
    ors.call("look")
    assert ors.create(**body).status_code == 200
    assert ors.call("look")[1]["output"]["metadata"]["turn"] == 2
    assert ors.create(env_name="room", split="few", index=2).json()["code"] == "key_conflict"


def test_a_call_resumed_by_its_name_is_played_once(server, client):
    ors = client(server.url)
    ors.create(env_name="ledger", split="train", index=1)
    name, first = ors.call("balance", account="1000")
    assert ors.call("balance", task_id=name, account="1000") == (name, first)
    assert ors.call("next_invoice")[1]["output"]["metadata"]["turn"] == 2
    assert "turn 1 was played" in ors.call("balance", task_id=name, account="1000")[1]
    assert ors.call("balance", task_id="nonsense")[1] == "unknown task_id"
    assert "another episode" in ors.call("balance", task_id="ep-0.3")[1]


def test_a_call_whose_stream_broke_is_resumed_after_a_restart(tmp_path, client):
    file = str(tmp_path / "kept.db")
    settings = Settings(doors="ors")
    with background(["room"], settings, journal=file) as url:
        ors = client(url)
        ors.create(split="few", index=1)
        name, first = ors.call("look")
    with background(["room"], settings, journal=file) as url:
        again = client(url, ors.http.headers["x-session-id"])
        assert again.call("look", task_id=name) == (name, first)
        assert again.call("win")[1]["output"]["reward"] == 1.0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"split": "few"},
        {"split": "few", "index": "1"},
        {"task_spec": {"split": "few", "index": 1, "more": 2}},
        {"split": "none", "index": 1},
        {"split": "few", "index": 1, "toolset_name": "codex"},
        {"split": "few", "index": 1, "env_name": "nobody"},
    ],
)
def test_a_create_that_makes_no_sense(server, body, client):
    answer = client(server.url).create(**{"env_name": "room", **body})
    assert 400 <= answer.status_code < 500
    assert answer.json()["detail"]


def test_sealed_scenarios_are_not_given_out(server, client):
    answer = client(server.url).create(env_name="room", split="vault", index=0)
    assert answer.json()["code"] == "sealed_closed"


def test_a_session_has_a_name(server):
    assert httpx.post(f"{server.url}/ping").json()["code"] == "invalid_request"
    assert httpx.get(f"{server.url}/prompt", headers={"X-Session-ID": "nobody"}).status_code == 404


def test_nonsense_costs_a_turn(server, client):
    ors = client(server.url)
    ors.create(env_name="ledger", split="train", index=1)
    output = ors.call("fly", high=True)[1]["output"]
    assert output["metadata"]["info"]["invalid"]
    assert output["metadata"]["turn"] == 1


def test_a_failing_environment_ends_the_stream_with_an_error(server, client):
    ors = client(server.url)
    ors.create(env_name="room", split="few", index=1)
    assert "environment failed" in ors.call("raise")[1]


def test_the_documents(server):
    assert httpx.get(f"{server.url}/version").json()["version"]
    assert httpx.get(f"{server.url}/ledger/tools").json()["tools"][0]["name"] == "next_invoice"
