"""A player in a process of its own that asks the model it was given, and plays what that says."""

# ruff: noqa: T201 - what a program prints is part of what is tested

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

KIND = sys.argv[1]


def send(url: str, body: object, key: str, *, quiet: bool = False) -> dict:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if not quiet:
            raise
        return {"status": error.code, **json.load(error)}


def ask(text: str) -> dict:
    body = {"model": os.environ["AGENTENVS_MODEL"], "messages": [{"role": "user", "content": text}]}
    return send(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, os.environ["OPENAI_API_KEY"], quiet=True)


def step(turn: int, action: str) -> dict:
    body = {"turn": turn, "action": action}
    return send(os.environ["AGENTENVS_URL"] + "/v1/agent/step", body, os.environ["AGENTENVS_AGENT_KEY"])


if KIND == "environment":
    print(json.dumps(dict(os.environ)))
elif KIND == "dying":
    for turn in (1, 2):
        step(turn, ask(str(turn))["choices"][0]["message"]["content"])
    threading.Thread(target=ask, args=("hang",), daemon=True).start()
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
else:
    for turn in range(1, 1 + int(os.environ["AGENTENVS_TURNS"])):
        answer = ask(f"turn {turn}")
        if "error" in answer:
            sys.exit(f"{answer['status']}: {answer['error']['message']}")
        step(turn, answer["choices"][0]["message"]["content"])
