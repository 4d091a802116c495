"""A contestant's agent: plays its episode from where it stands, and tries what is forbidden."""

# ruff: noqa: T201 - what a program prints is part of what is tested

import json
import os
import sys
import time
import urllib.error
import urllib.request

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
"""Between two turns."""
PATIENCE = 120.0
KEY = os.environ["AGENTENVS_AGENT_KEY"]


def call(path: str, body: object = None, method: str | None = None) -> tuple[int, dict]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["AGENTENVS_URL"] + path, data, headers, method=method)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)
        except (OSError, ValueError):  # the server is away: what was asked may be asked again
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


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


def stands() -> tuple[int, bool]:
    """Return the turn of the episode, and whether it is over; another process may be playing it too."""
    status, said = call("/v1/agent")
    return (said["turn"], said["ended"]) if status == 200 else (0, True)


_, seen = call("/v1/agent")
probe(seen["episode"])
print(json.dumps(sorted(name for name in os.environ if name.startswith("AGENTENVS_"))), flush=True)
turn, over = stands()
while not over:
    time.sleep(SECONDS)
    status, said = call("/v1/agent/step", {"turn": turn + 1, "action": "look"})
    turn, over = (turn + 1, said["terminated"] or said["truncated"]) if status == 200 else stands()
