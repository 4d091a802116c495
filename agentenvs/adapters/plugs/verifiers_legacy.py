"""verifiers up to 0.3: ``load_environment`` returns a ``MultiTurnEnv`` over a world's scenarios.

The facts of a turn stand in ``extras`` of its trajectory step. The episode of a rollout lives as long as the rollout:
it hangs on its state under a name, since states are copied and written to files.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import needed
from agentenvs.core.canon import JSON
from agentenvs.core.task import TaskRef

_NAME = "agentenvs_episode"


def load_environment(
    env: str = "household", split: str = "", start: int = 0, count: int = 100, url: str = "", **options: Any
) -> Any:
    """Return a world as an environment of verifiers.

    Args:
        env: As :func:`agentenvs.make` takes it.
        split: The environment's default where empty.
        start: The first scenario of the split.
        count: How many, at the most.
        url: A server; in process where empty.
        **options: Options of the environment.

    Raises:
        MissingExtraError: There is no verifiers here, or one without that interface.
        UserError: As for :func:`agentenvs.make`.
    """
    vf, datasets = needed("verifiers", "verifiers<0.4"), needed("datasets", "datasets")
    episode = Episode(env, url=url or None, **options)
    try:
        refs, system = episode.tasks(split or None, start, count), episode.system
    finally:
        episode.close()
    rows = [{"question": f"{env}/{ref.split}/{ref.index}", "answer": "", "info": ref.to_json()} for ref in refs]
    world = _class(vf)(
        lambda: Episode(env, url=url or None, **options),
        dataset=datasets.Dataset.from_list(rows),
        system_prompt=system,
        rubric=vf.Rubric(funcs=[verdict]),
    )
    world.add_rubric(vf.Rubric(funcs=[success, turns], weights=[0.0, 0.0]))
    return world


async def verdict(state: Any) -> float:
    """Return the reward of the verdict."""
    return float(state["verdict"]["reward"])


async def success(state: Any) -> float:
    """Return whether the task was done."""
    return float(state["verdict"]["success"])


async def turns(state: Any) -> float:
    """Return how many turns were played."""
    return float(len(state["facts"]))


def _class(vf: Any) -> Any:
    class WorldEnv(vf.MultiTurnEnv):  # type: ignore[misc]
        """Plays the user."""

        def __init__(self, make: Any, **arguments: Any) -> None:
            super().__init__(**arguments)
            self._make, self._names = make, itertools.count()
            self._episodes: dict[str, Episode] = {}

        async def setup_state(self, state: Any) -> Any:
            """Begin the episode; its first observation takes the place of the question."""
            name = state[_NAME] = str(next(self._names))
            episode = self._episodes[name] = await asyncio.to_thread(self._make)
            ref = TaskRef(state["info"]["split"], state["info"]["index"])
            shown = await asyncio.to_thread(episode.begin, ref)
            state["facts"], state["verdict"] = [], {"reward": 0.0, "success": False}
            state["prompt"] = [vf.SystemMessage(content=episode.system), vf.UserMessage(content=shown)]
            return state

        async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
            """Play what the model said."""
            episode = self._episodes[state[_NAME]]
            heard = await episode.asay(str(messages[-1].content or ""))
            facts: dict[str, JSON] = {**heard.facts, "reward": heard.reward}
            state["facts"].append(facts)
            state["trajectory"][-1]["extras"]["agentenvs"] = facts
            answer = [vf.UserMessage(content=heard.text)]
            if heard.done:
                state["final_env_response"] = answer
            return answer

        @vf.cleanup  # type: ignore[untyped-decorator]
        async def judge(self, state: Any) -> None:
            """Reach the verdict and give up the episode."""
            episode = self._episodes.pop(state.get(_NAME, ""), None)
            if episode is None:
                return
            try:
                reached = await asyncio.to_thread(episode.verdict)
                state["verdict"] = {"reward": reached.reward, **outcome(reached)}
            finally:
                await asyncio.to_thread(episode.close)

    return WorldEnv
