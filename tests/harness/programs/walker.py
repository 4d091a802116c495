"""A player in a process of its own: looks around until told to stop, or as its arguments say."""

# ruff: noqa: T201 - what a program prints is part of what is tested

import json
import os
import subprocess
import sys
import time
import urllib.request

KIND = sys.argv[1]
HEADERS = {"Authorization": f"Bearer {os.environ['AGENTENVS_AGENT_KEY']}", "Content-Type": "application/json"}


def call(path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(os.environ["AGENTENVS_URL"] + path, data, HEADERS)) as answer:
        return json.load(answer)


def play(turns: int) -> None:
    for turn in range(1, turns + 1):
        call("/v1/agent/step", {"turn": turn, "action": "look"})


print(json.dumps({name: value for name, value in os.environ.items() if name.startswith("AGENTENVS_")}))
print(call("/v1/agent")["task"]["instruction"], flush=True)
if KIND == "whole":
    play(int(os.environ["AGENTENVS_TURNS"]))
elif KIND == "lingering":
    play(int(os.environ["AGENTENVS_TURNS"]))
    time.sleep(600)
elif KIND == "leaving":
    play(3)
elif KIND == "failing":
    play(2)
    print("x" * 200_000)
    sys.exit("out of ideas")
elif KIND == "hanging":
    play(1)
    marker = ["-c", f"import time; {sys.argv[2]!r}; time.sleep(600)"]
    subprocess.Popen([sys.executable, *marker])
    subprocess.Popen([sys.executable, *marker], start_new_session=True)
    print("children started", flush=True)
    time.sleep(600)
elif KIND == "relaying":
    play(1)
    if os.fork():
        time.sleep(0.3)
        sys.exit()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.002)
elif KIND == "cleaning":
    play(1)
    sleep = f"{sys.executable} -c 'import time; time.sleep(600)' {sys.argv[2]} &"
    subprocess.run(["env", "-i", "setsid", "sh", "-c", sleep], check=True)
