"""The other process of a check: ``python -m agentenvs.harness.check.twin``, job on stdin, turns as JSON on stdout.

The clocks are set ahead before the environment is imported, so that one that has taken a name from ``time`` or
``datetime`` reads the changed one too. Standard output is taken over, because an environment may print.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.clocks import set_ahead


def main() -> None:
    """Read a job, play it, write what came of it."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read())
    set_ahead(job["shift"])
    with answer:
        answer.write(canonical_bytes(played(job)))


def played(job: JSON) -> JSON:
    """Return the turns of each play of a job."""
    from agentenvs.harness.check.episodes import Episode, rows

    found = []
    for play in job["plays"]:
        env = _make(job)
        episode = Episode(env, TaskRef(play["task"]["split"], play["task"]["index"]))
        try:
            fed = play["effects"]
            episode.begin(fed[0])
            for number, action in enumerate(play["actions"], start=1):
                episode.step(action, fed[number])
            found.append(rows(episode.turns))
        finally:
            env.close()
    return found


def _make(job: JSON) -> Any:
    if job["spec"] is not None:
        from agentenvs.harness.check.local import altered_guest

        return altered_guest(
            EnvSpec.from_json(job["spec"]), job["entry_point"], job["options"], {"clock": job["shift"]}
        )
    return registry.load(job["entry_point"])(**job["options"])


if __name__ == "__main__":
    main()
