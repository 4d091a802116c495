"""Inspect: a ``Task`` of a split of a world; the verdict is the score.

The dataset holds addresses, the solver plays the episodes in turn with the model, and the scorer writes the verdict
down. A sample's store has the facts of its turns, so that a log tells them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agentenvs.adapters.plugs.episode import Episode
from agentenvs.adapters.plugs.lazy import needed
from agentenvs.core.canon import JSON
from agentenvs.core.task import TaskRef

STORE = "agentenvs"
"""Where a sample's store holds facts and verdict."""


def world_task(
    env: str = "household", split: str = "", start: int = 0, count: int = 100, url: str = "", **options: Any
) -> Any:
    """Return a task of Inspect over scenarios of a world.

    Args:
        env: As :func:`agentenvs.make` takes it.
        split: The split for evaluations, else the default one, where empty.
        start: The first scenario of the split.
        count: How many, at the most.
        url: A server; in process where empty.
        **options: Options of the environment.

    Raises:
        MissingExtraError: There is no Inspect here.
        UserError: As for :func:`agentenvs.make`.
    """
    ai, dataset = needed("inspect_ai", "inspect-ai"), needed("inspect_ai.dataset", "inspect-ai")
    episode = Episode(env, url=url or None, **options)
    try:
        spec = episode.spec
        refs = episode.tasks(split or spec.eval_split or None, start, count)
    finally:
        episode.close()
    samples = [
        dataset.Sample(input=f"{spec.id} {name}", id=name, metadata=ref.to_json())
        for name, ref in ((f"{ref.split}/{ref.index}", ref) for ref in refs)
    ]
    return ai.Task(
        dataset=dataset.MemoryDataset(samples, name=f"{spec.slug}/{refs[0].split}"),
        solver=_solver(env, url, options),
        scorer=_scorer(),
        name=f"{spec.slug}_{refs[0].split}",
        metadata={"env": spec.id, "release": spec.release, "spec": spec.digest},
    )


def _solver(env: str, url: str, options: dict[str, Any]) -> Any:
    solvers, models = needed("inspect_ai.solver", "inspect-ai"), needed("inspect_ai.model", "inspect-ai")

    @solvers.solver(name="agentenvs_episode")  # type: ignore[untyped-decorator]
    def play() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            episode = await asyncio.to_thread(Episode, env, url=url or None, **options)
            turns: list[JSON] = []
            try:
                ref = TaskRef(state.metadata["split"], state.metadata["index"])
                first = await asyncio.to_thread(episode.begin, ref)
                state.messages = [
                    models.ChatMessageSystem(content=episode.system),
                    models.ChatMessageUser(content=first),
                ]
                heard = None
                while not state.completed and (heard is None or not heard.done):
                    state = await generate(state)
                    heard = await episode.asay(state.output.completion)
                    turns.append({**heard.facts, "reward": heard.reward})
                    state.messages.append(models.ChatMessageUser(content=heard.text))
            finally:
                verdict = await asyncio.to_thread(episode.verdict)
                state.store.set(STORE, {"turns": turns, "verdict": verdict.to_json()})
                await asyncio.to_thread(episode.close)
            return state

        return solve

    return play()


def _scorer() -> Any:
    scorers = needed("inspect_ai.scorer", "inspect-ai")

    @scorers.scorer(name="verdict", metrics=[scorers.mean(), scorers.stderr()])  # type: ignore[untyped-decorator]
    def verdict() -> Any:
        async def score(state: Any, target: Any) -> Any:
            found = state.store.get(STORE)["verdict"]
            return scorers.Score(
                value=found["reward"], explanation="\n".join(found["reasons"]), metadata={"verdict": found}
            )

        return score

    return verdict()
