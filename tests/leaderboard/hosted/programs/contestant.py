"""A contestant's agent: plays its episode from where it stands, at some pace, and may try what it must not."""

# ruff: noqa: T201 - what a program prints is part of what is tested

import json
import os
import sys
import time
import urllib.error
import urllib.request

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
"""Between two turns."""
KEY = os.environ["AGENTENVS_AGENT_KEY"]


def call(path: str, body: object = None, method: str | None = None) -> tuple[int, dict]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["AGENTENVS_URL"] + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def probe(episode: str) -> None:
    """Try what an agent key must not do."""
    for path, body, method in (
        ("/v1/sessions", {"env": "household", "key": "k", "task": {"split": "sealed"}}, None),
        (f"/v1/sessions/{KEY}", None, None),
        (f"/v1/sessions/{KEY}/reset", {"key": "k", "ends": episode}, None),
        (f"/v1/sessions/{KEY}/fork", {"key": "k"}, None),
        (f"/v1/sessions/{KEY}/trace", None, None),
        (f"/v1/sessions/{KEY}/record", None, None),
        (f"/v1/sessions/{KEY}", None, "DELETE"),
        ("/v1/envs", None, None),
        ("/metrics", None, None),
        ("/v1/tickets", None, None),
        ("/v1/tickets/next", None, "POST"),
        ("/v1/tickets/end", {"episode": episode}, None),
        (f"/v1/tickets/record?episode={episode}", None, None),
    ):
        status, said = call(path, body, method)
        print(json.dumps({"path": path.replace(KEY, "KEY"), "status": status, "said": said}))


_, seen = call("/v1/agent")
probe(seen["episode"])
print(json.dumps(sorted(name for name in os.environ if name.startswith("AGENTENVS_"))), flush=True)
turn, over = seen["turn"], seen["ended"]
while not over:
    time.sleep(SECONDS)
    turn += 1
    status, said = call("/v1/agent/step", {"turn": turn, "action": "look"})
    over = status != 200 or said["terminated"] or said["truncated"]
