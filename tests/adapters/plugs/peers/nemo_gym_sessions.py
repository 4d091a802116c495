"""NeMo Gym's resources server by its HTTP alone: sessions by cookie, nonsense, calls after the end, two verdicts."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys
from unittest.mock import MagicMock

from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.server_utils import ServerClient

from agentenvs.adapters.plugs.nemo_gym import WorldResourcesServer, rows
from agentenvs.core.errors import ConfigError

CALLS = json.loads(sys.argv[1])
(row,) = rows("household", "agent", split="dev", count=1)
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
RESPONSE |= {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}


def server(**more):
    config = WorldResourcesServer.model_fields["config"].annotation
    given = {"host": "127.0.0.1", "port": 1, "entrypoint": "", "name": "world", **more}
    return WorldResourcesServer(config=config(**given), server_client=MagicMock(spec=ServerClient))


assert issubclass(WorldResourcesServer, SimpleResourcesServer)
made = server(most_sessions=2)
app = made.setup_webserver()
one, two, three = (TestClient(app) for _ in range(3))
assert one.post("/look", json={}).status_code == 404, "no episode before /seed_session"
for client in (one, two):
    assert client.post("/seed_session", json=row).status_code == 200
for name, body in (("fly", {}), ("go_to", []), ("go_to", {"receptacle": "x" * 100_000}), ("ключ", {"a": 1})):
    said = two.post(f"/{name}", json=body).json()
    assert said["observation"], said
    assert not said["done"]
for call in CALLS:
    last = one.post(f"/{call['name']}", json=call["arguments"]).json()
assert last["done"]
assert "error" in one.post("/look", json={}).json()
verdicts = [one.post("/verify", json={**row, "response": RESPONSE}).json() for _ in range(2)]
assert verdicts[0] == verdicts[1]
assert verdicts[0]["reward"] == 1.0
assert verdicts[0]["index"] == row["index"], "what the row holds comes back"
three.post("/seed_session", json=row)
assert one.post("/verify", json={**row, "response": RESPONSE}).status_code == 200, "one was asked last but one"
assert two.post("/look", json={}).status_code == 404, "two was given up"
refused = ""
try:
    server(num_workers=2).setup_webserver()
except ConfigError as error:
    refused = str(error)
assert "one process" in refused
print("played", verdicts[0]["agentenvs"]["turns"][-1]["turn"], "turns")
