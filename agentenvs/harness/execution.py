"""Plays the episodes of programs: begins one on the server, lets a process play it, and takes the server's record.

What the program says of itself is kept in the sidecar and counts for nothing. A program that leaves before the end has
abandoned its episode; one that overruns its wall-clock budget is ended, and the episode is truncated.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from agentenvs.client import RemoteEnv
from agentenvs.core.errors import ConfigError, PolicyError, ServiceError
from agentenvs.core.task import Task
from agentenvs.harness.program import Program, Run
from agentenvs.harness.rollout import Rollout, guarded
from agentenvs.harness.stopping import PolicyStop

POLL_SECONDS = 0.5
"""How often the server is asked how far an episode is."""

LEAVE_SECONDS = 5.0
"""How long a program may go on after its episode has ended."""


class ProgramRollout(Rollout):
    """One episode of a program; see :class:`~agentenvs.harness.rollout.Rollout`."""

    def _play(self, stop: Callable[[], bool]) -> None:
        env, policy = self.recorded.env, self._policy
        if not isinstance(env, RemoteEnv) or not isinstance(policy, Program):
            raise ConfigError("a program plays over a wire", fix="give --url URL")
        observation = self._world(self.recorded.reset, self._ref)
        self._words.first = observation.text
        policy.reset(env.spec, env.task())
        run = guarded("abandoned", policy.start, self._number, _told(env, policy.seconds))
        try:
            self._watch(run, env, policy, stop)
        finally:
            run.end()
            policy.note(run)

    def _watch(self, run: Run, env: RemoteEnv, policy: Program, stop: Callable[[], bool]) -> None:
        over = False
        while not stop():
            left = run.wait(LEAVE_SECONDS if over else POLL_SECONDS)
            if over:
                return
            over = self._world(env.look)
            if over and not left:
                continue  # it may go on for a moment, to write what it wants to keep
            if over:
                return
            if left:
                guarded("abandoned", _gone, run, policy)
            if run.seconds > policy.seconds:
                raise PolicyStop("truncated", f"the wall limit of {policy.seconds:g} s")


def _gone(run: Run, policy: Program) -> None:
    """Say why a program has left before the end.

    Raises:
        ServiceError: Its model stayed away when it last asked.
        PolicyError: It failed.
        PolicyStop: It did not.
    """
    if away := policy.model_away():
        raise ServiceError("the program left when its model stayed away", why=away, fix="check --base-url")
    if run.exit_code:
        last = run.output().strip().splitlines()[-1:]
        raise PolicyError(f"the program exited with {run.exit_code}", why=last[0][:200] if last else "it said nothing")
    raise PolicyStop("abandoned", "the program left before the end")


def _told(env: RemoteEnv, seconds: float) -> dict[str, str]:
    """Return what a program's environment says of its episode."""
    turns = env.declared_budgets().get("steps")
    return {
        "AGENTENVS_URL": env.url,
        "AGENTENVS_AGENT_KEY": env.agent_key,
        "AGENTENVS_MCP_URL": f"{env.url.rstrip('/')}/v1/agent/{env.agent_key}/mcp",
        "AGENTENVS_TASK": orjson.dumps(_task(env.task())).decode(),
        "AGENTENVS_SECONDS": f"{seconds:g}",
        "AGENTENVS_TURNS": "" if turns is None else str(turns),
    }


def _task(task: Task) -> dict[str, object]:
    return {
        "env": task.env,
        "ref": task.ref.to_json(),
        "options": dict(task.options),
        "instruction": task.instruction,
    }
