"""An episode as a program: what was played by hand, to be played again by Python or by curl."""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Mapping
from typing import Any

from agentenvs.core.canon import JSON
from agentenvs_servers.doors.play_story import Story

TOKEN = "$AGENTENVS_TOKEN"


def python(story: Story, url: str) -> str:
    """Return a program for the Python client.

    Args:
        story: The episode.
        url: Of the server.
    """
    ref, actions = story.task["ref"], [line["action"] for line in story.turns]
    options = "".join(f", {name}={value!r}" for name, value in _changed(story).items())
    return f"""import agentenvs

# The token of a server that asks for one is read from {TOKEN}.
env = agentenvs.make({story.world.spec.id!r}, url={url!r}{options})
observation = env.reset(agentenvs.TaskRef({ref["split"]!r}, {ref["index"]}))
print(observation.text)
for action in {_listed(actions)}:
    observation, reward, terminated, truncated, info = env.step(action)
    print(observation.text)
print(env.verdict)
env.close()
"""


def curl(story: Story, url: str, *, token: bool) -> str:
    """Return a program for a shell.

    Args:
        story: The episode.
        url: Of the server.
        token: Whether the server asks for one.
    """
    ref = story.task["ref"]
    create = {
        "env": story.world.spec.id,
        "task": {"split": ref["split"], "index": ref["index"]},
        "options": _changed(story),
    }
    bearer = f' --header "Authorization: Bearer {TOKEN}"' if token else ""
    steps = [
        f"step {turn} {shlex.quote(json.dumps(line['action'], ensure_ascii=False))}"
        for turn, line in enumerate(story.turns, 1)
    ]
    lines = [
        f"URL={shlex.quote(url)}",
        f"""post() {{ curl --silent --show-error --fail-with-body{bearer} \\
  --header 'Content-Type: application/json' --data "$2" "$URL$1"; }}""",
        """field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }""",
        f"CREATE={shlex.quote(json.dumps(create, ensure_ascii=False)[:-1])}",
        """MADE=$(post /v1/sessions "$CREATE, \\"key\\": \\"$(date +%s)-$$\\"}")""",
        """SESSION=$(printf %s "$MADE" | field session) EPISODE=$(printf %s "$MADE" | field episode)""",
        """step() { post "/v1/sessions/$SESSION/step" \\
  "{\\"episode\\": \\"$EPISODE\\", \\"turn\\": $1, \\"action\\": $2}"; echo; }""",
        "",
        *steps,
        f'curl --silent --show-error{bearer} --request DELETE "$URL/v1/sessions/$SESSION"; echo',
        f'curl --silent --show-error{bearer} "$URL/v1/sessions/$SESSION/record" > record.jsonl',
    ]
    return "\n".join(lines) + "\n"


def _changed(story: Story) -> dict[str, JSON]:
    """Return the options that are not what this server plays with in any case."""
    defaults: Mapping[str, Any] = story.world.public_options
    return {
        name: value
        for name, value in story.task["options"].items()
        if name not in defaults or defaults[name] != value or type(defaults[name]) is not type(value)
    }


def _listed(actions: list[JSON]) -> str:
    if not actions:
        return "[]"
    return "[\n" + "".join(f"    {_literal(action)},\n" for action in actions) + "]"


def _literal(action: JSON) -> str:
    """Return an action as Python writes it."""
    return pprint.pformat(action, width=100_000, compact=True, sort_dicts=False)
