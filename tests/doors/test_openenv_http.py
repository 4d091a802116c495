"""OpenEnv over HTTP: the episode is kept between requests; the documents; the list of tasks; JSON-RPC."""

from __future__ import annotations

import httpx
import pytest
from openapi_spec_validator import validate as validate_document

TOKEN = "a-token-of-enough-length"


def test_the_episode_is_kept_by_cookie(server):
    with server.client() as http:
        assert http.post("/room/step", json={"action": {"text": "look"}}).status_code == 409
        first = http.post("/room/reset", json={"split": "few", "index": 1, "episode_id": "mine"})
        assert first.json()["observation"]["text"] == "A room."
        assert "HttpOnly" in first.headers["set-cookie"]
        assert http.post("/room/step", json={"action": {"text": "look"}}).json()["metadata"]["turn"] == 1
        state = http.get("/room/state").json()
        assert (state["episode_id"], state["step_count"], state["index"]) == ("mine", 1, 1)
        done = http.post("/room/step", json={"action": {"text": "win"}, "timeout_s": 3.0}).json()
        assert (done["reward"], done["done"]) == (1.0, True)
        assert http.post("/room/step", json={"action": {"text": "look"}}).json()["code"] == "episode_ended"
        again = http.post("/room/reset", json={})
        assert again.headers["x-session-id"] == first.headers["x-session-id"]


def test_the_episode_is_kept_by_header_and_by_address(server):
    first = httpx.post(f"{server.url}/room/reset", json={})
    name = first.headers["x-session-id"]
    step = {"action": {"text": "look"}}
    assert httpx.post(f"{server.url}/step", json=step, headers={"X-Session-ID": name}).json()["metadata"]["turn"] == 1
    assert httpx.post(f"{server.url}/s/{name}/step", json=step).json()["metadata"]["turn"] == 2
    with server.client() as http:
        http.cookies.set("agentenvs_session", name)
        assert http.get("/state").json()["step_count"] == 2
    assert httpx.get(f"{server.url}/state").json()["code"] == "not_begun"
    assert httpx.get(f"{server.url}/s/nobody/state").status_code == 404


def test_a_cookie_of_a_session_that_is_over_begins_another(server):
    with server.client() as http:
        first = http.post("/room/reset", json={}).headers["x-session-id"]
        assert http.delete(f"/v1/sessions/{first}").status_code == 200
        assert http.post("/room/step", json={"action": {"text": "look"}}).status_code == 410
        assert http.post("/room/reset", json={}).headers["x-session-id"] != first
        assert http.post("/room/reset", json={}, headers={"X-Session-ID": first}).status_code == 410


@pytest.mark.parametrize("body", [{}, {"action": "look"}, []])
def test_a_step_has_an_action(server, body):
    with server.client() as http:
        http.post("/room/reset", json={})
        assert http.post("/room/step", json=body).json()["code"] == "invalid_request"
        assert http.get("/room/state").json()["step_count"] == 0


def test_the_documents(server):
    with server.client() as http:
        assert http.get("/metadata").json()["name"] == "household"
        assert http.get("/ledger/metadata").json()["name"] == "ledger"
        assert http.get("/ledger/health").json() == {"status": "healthy"}
        schema = http.get("/schema").json()
        assert set(schema) == {"action", "observation", "state"}
        assert schema["action"]["required"] == ["text"]
        assert http.get("/ledger/schema").json()["action"]["title"] == "CallToolAction"
        document = http.get("/openapi.json").json()
        validate_document(document)
        assert {"/reset", "/step", "/state", "/v1/sessions", "/call"} <= set(document["paths"])
        assert http.get("/ledger/openapi.json", follow_redirects=True).json() == document
        assert http.get("/reset").status_code == 405
        assert http.get("/reset").headers["allow"] == "POST"


def test_observations_are_what_the_schema_says(server):
    from jsonschema import validate

    for env, actions in {
        "household": [{"text": "look"}, {"type": "list_tools"}, {"type": "call_tool", "tool_name": "look"}],
        "ledger": [{"type": "call_tool", "tool_name": "next_invoice", "arguments": {}}, {"nonsense": 1}],
        "clerk": [{"text": "hello"}],
    }.items():
        with server.client() as http:
            schema = http.get(f"/{env}/schema").json()
            validate(http.post(f"/{env}/reset", json={"seed": 1}).json()["observation"], schema["observation"])
            for action in actions:
                played = http.post(f"/{env}/step", json={"action": action}).json()
                validate(played["observation"], schema["observation"])
            validate(http.get(f"/{env}/state").json(), schema["state"])


def test_the_list_of_tasks(server):
    with server.client() as http:
        assert http.get("/list_environments").json() == ["household", "room", "clerk", "ledger", "slow_tool"]
        splits = http.get("/room/splits").json()
        assert splits == [{"name": "few", "type": "validation"}, {"name": "train", "type": "train"}]
        few = [{"split": "few", "index": index} for index in range(3)]
        assert http.post("/room/tasks", json={"split": "few"}).json() == {"tasks": few, "env_name": "room"}
        assert http.post("/room/num_tasks", json={"split": "few"}).json() == {"num_tasks": 3}
        assert http.post("/room/num_tasks", json={"split": "train"}).json() == {"num_tasks": 1000}
        assert http.post("/room/task", json={"split": "few", "index": -1}).json()["task"] == few[2]
        assert http.post("/room/task", json={"split": "few", "index": 3}).json()["code"] == "task_unknown"
        assert http.post("/room/tasks", json={"split": "vault"}).json()["code"] == "task_unknown"
        part = http.post("/room/task_range", json={"split": "few", "start": 1}).json()["tasks"]
        assert part == few[1:]
        far = http.post("/room/task_range", json={"split": "train", "start": 5000, "stop": 5002}).json()["tasks"]
        assert [task["index"] for task in far] == [5000, 5001]
        assert http.post("/room/task_range", json={"split": "train", "stop": 10**9}).json()["code"] == "invalid_request"


def test_json_rpc(server):
    tools = server.rpc("tools/list", "/ledger/mcp")["result"]["tools"]
    assert tools[0]["name"] == "next_invoice"
    assert tools[0]["inputSchema"] == tools[0]["input_schema"]
    name = server.rpc("openenv/session/create", "/ledger/mcp", seed=1)["result"]["session_id"]
    called = server.rpc("tools/call", "/ledger/mcp", name="balance", arguments={"account": "1000"}, session_id=name)
    assert called["result"]["data"] == {"cents": 0}
    wrong = server.rpc("tools/call", name="fly", arguments={}, session_id=name)["result"]
    assert wrong["is_error"]
    with server.socket(f"/ws?session_id={name}") as socket:
        assert socket.state()["step_count"] == 2
        said = socket.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"})
        assert said["data"]["result"] == {"session_id": name}
        mine = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": name}}
        assert socket.ask("mcp", mine)["data"]["error"]["code"] == -32600
    assert server.rpc("openenv/session/close", session_id=name)["result"] == {"session_id": name, "closed": True}
    assert server.rpc("openenv/session/close", session_id=name)["error"]["code"] == -32602
    assert server.rpc("tools/call", name="balance", session_id=name)["error"]["data"] == {"problem": "closed"}


def test_json_rpc_that_makes_no_sense(server):
    assert server.rpc("tools/call", name="balance")["error"]["code"] == -32602
    assert server.rpc("tools/call", session_id="x")["error"]["code"] == -32602
    assert server.rpc("initialize")["error"]["code"] == -32601
    bad = httpx.post(f"{server.url}/mcp", content=b"{", headers={"content-type": "application/json"})
    assert (bad.status_code, bad.json()["error"]["code"]) == (200, -32700)
    assert httpx.post(f"{server.url}/mcp", json={}).json()["error"]["code"] == -32600


def test_json_rpc_over_a_socket_of_its_own(server):
    import json

    with server.socket("/ledger/mcp") as socket:
        call = {"name": "balance", "arguments": {"account": "1000"}}
        socket.raw.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}))
        assert json.loads(socket.raw.recv(timeout=20))["result"]["data"] == {"cents": 0}


def test_alone_it_is_the_only_door(serve):
    server = serve("household", doors="openenv")
    with server.client() as http:
        assert http.get("/health").json() == {"status": "healthy"}
        assert http.get("/ready").status_code == 200
        for path in ("/v1/envs", "/metrics", "/v1/agent"):
            assert http.get(path).status_code == 404
        assert http.post("/v1/sessions", json={"env": "household", "key": "k"}).status_code == 404
        assert http.post("/v1/steps", json={"items": []}).status_code == 404
        name = http.post("/reset", json={}).headers["x-session-id"]
        step = {"episode": "ep", "turn": 1, "action": "look"}
        assert http.post(f"/v1/sessions/{name}/step", json=step).json()["code"] == "route_unknown"
        assert http.post("/create_session").status_code == 404
        assert http.post("/reset", json={"split": "sealed"}).json()["code"] == "sealed_closed"
        assert http.post("/reset", json={}).status_code == 200
        assert not any(path.startswith("/v1") for path in http.get("/openapi.json").json()["paths"])


def test_no_door_is_open_by_itself(serve):
    server = serve("household")
    with server.client() as http:
        assert http.post("/reset", json={}).status_code == 404
        assert http.get("/list_environments").status_code == 404


def test_who_has_no_token_gets_nothing(serve):
    server = serve("room", doors="openenv,ors", tokens=(TOKEN,))
    with server.client() as http:
        for path in ("/reset", "/step", "/mcp", "/tasks", "/create_session", "/create", "/call"):
            assert http.post(path, json={}).status_code == 401, path
        assert http.get("/state").status_code == 401
        assert http.get("/splits").status_code == 401
        assert http.post("/reset", json={}, headers={"X-API-Key": TOKEN}).status_code == 200
