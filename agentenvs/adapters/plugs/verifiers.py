"""verifiers from 0.4 on: a taskset of a world's scenarios, and an environment that plays the user.

verifiers takes both from the module that ``vf-eval`` names, which lists them in ``__all__``; see docs/plugs. What is
configured is the taskset: world, split, first scenario, how many, server. Facts of each turn stand in the trace's
``info``; reward and outcome are recorded by name.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON
from agentenvs.core.task import TaskRef

__all__ = ["WorldEnv", "WorldTaskset"]  # noqa: F822 - made on first use


@functools.cache
def _made() -> tuple[type, type]:
    vf = needed("verifiers.v1", "verifiers>=0.4")

    class WorldData(vf.TaskData):  # type: ignore[misc, name-defined]
        world: str
        url: str
        split: str
        index: int
        options: dict[str, Any]

    class WorldConfig(vf.TasksetConfig):  # type: ignore[misc, name-defined]
        env: str = "household"
        url: str = ""
        split: str = ""
        start: int = 0
        count: int = 100
        options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it

    class WorldTask(vf.Task[WorldData]):  # type: ignore[misc, name-defined]
        pass

    class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):  # type: ignore[misc, name-defined]
        """Scenarios of a world; ``--env.taskset.env``, ``url``, ``split``, ``start``, ``count`` and ``options``."""

        def load(self) -> Iterator[Any]:
            """Yield the tasks; the first observation comes when an episode begins."""
            config = self.config
            episode = Episode(config.env, url=config.url or None, **config.options)
            try:
                refs, system = episode.tasks(config.split or None, config.start, config.count), episode.system
            finally:
                episode.close()
            for ref in refs:
                fields = {"world": config.env, "url": config.url, "split": ref.split, "index": ref.index}
                name = f"{config.env}/{ref.split}/{ref.index}"
                data = WorldData(name=name, system_prompt=system, options=config.options, **fields)
                yield WorldTask(data, config.task)

    class WorldEnvConfig(vf.EnvConfig):  # type: ignore[misc, name-defined]
        player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})  # type: ignore[name-defined]

    WorldEnvConfig.model_rebuild(_types_namespace={"vf": vf})

    class WorldEnv(vf.Env[WorldEnvConfig]):  # type: ignore[misc, name-defined]
        """Plays the user: says what the world shows, hears what the model says, records what it was worth."""

        async def run(self, task: Any, agents: Any) -> None:
            """Play one episode."""
            data = task.data
            episode = await asyncio.to_thread(Episode, data.world, url=data.url or None, **data.options)
            try:
                await _play(episode, TaskRef(data.split, data.index), agents.player.interaction(task))
            finally:
                await asyncio.to_thread(episode.close)

    return WorldTaskset, WorldEnv


async def _play(episode: Episode, ref: TaskRef, interaction: Any) -> None:
    """Play an episode within an interaction of verifiers, and record it there."""
    shown = await asyncio.to_thread(episode.begin, ref)
    turns: list[dict[str, JSON]] = []
    async with interaction as talk:
        segment = await talk.turn(shown)
        while not segment.terminated:
            heard = await episode.asay(segment.last_reply)
            turns.append({**heard.facts, "reward": heard.reward})
            if heard.done:
                break
            segment = await talk.turn(heard.text)
    verdict = await asyncio.to_thread(episode.verdict)
    trace = talk.trace
    trace.info["agentenvs"] = {"turns": turns, "reasons": list(verdict.reasons)}
    trace.record_reward("verdict", verdict.reward)
    trace.record_metrics({**outcome(verdict), "turns": float(len(turns))})


__getattr__ = attributes(__name__, {"WorldTaskset": lambda: _made()[0], "WorldEnv": lambda: _made()[1]}, globals())
