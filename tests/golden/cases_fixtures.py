"""Golden cases of the fixture worlds: long and heavy, a dialogue; the hosted one where processes can be had."""

from __future__ import annotations

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from tests.envs.fixtures import register_fixtures


def digests() -> dict[str, str]:
    """Return the digests of the fixtures."""
    found = {}
    for env_id in register_fixtures():
        spec = registry.spec(env_id)
        env = registry.make(env_id)
        found[f"{spec.slug}/oracle"] = play(env, resolve("oracle", spec)(), TaskRef("train", 7)).summary.record
        env.close()
    found["slow_tool/undone"] = digest(_undone())
    return found


def _undone() -> str:
    """Return a record with a crash and a failure in it."""
    recorded = Recorded(registry.make("slow_tool"))
    recorded.reset(TaskRef("train", 7))
    for action in ("add", "crash", "explode", "peek"):
        recorded.step({"tool": action, "arguments": {"count": 2} if action == "add" else {}})
    recorded.finish("abandoned")
    recorded.env.close()
    return recorded.to_bytes().decode()
