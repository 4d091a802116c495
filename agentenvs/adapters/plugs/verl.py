"""verl: an ``AgentLoopBase`` whose environment is a world; chosen by a row's ``agent_name``.

verl's Continuous Token path makes the tokens: what the model said stays as it was sampled, what the world shows is
masked. A row's ``extra_info`` holds the address, and world, server and options where they are not the configured ones.
Facts of turns are ``extra_fields`` of the output.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON

NAME = "agentenvs"
"""``agent_name`` of a row."""

_LOOPS = "verl.experimental.agent_loop.agent_loop"


def _loop() -> type:
    loops = needed(_LOOPS, "verl")

    class WorldAgentLoop(loops.AgentLoopBase):  # type: ignore[misc, name-defined]
        """One episode; ``env``, ``url`` and ``options`` are defaults for rows that do not say."""

        def __init__(self, *args: Any, env: str = "household", url: str = "", options: Any = None, **more: Any) -> None:
            super().__init__(*args, **more)
            self._defaults = {"env": env, "url": url, "options": dict(options or {})}

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            """Play the episode of a row."""
            told = {**self._defaults, **dict(row.get("extra_info") or {})}
            episode = await asyncio.to_thread(Episode, told["env"], url=told["url"] or None, **dict(told["options"]))
            try:
                return await self._play(episode, told, sampling_params, int(row.get("priority", 0)))
            finally:
                await asyncio.to_thread(episode.close)

        async def _play(self, episode: Episode, told: dict[str, Any], sampling: dict[str, Any], priority: int) -> Any:
            ref = episode.address(told.get("split") or None, int(told.get("index", 0)))
            messages = await asyncio.to_thread(episode.messages, ref)
            ids = await self.ct_build_initial_tokens(messages)
            mask: list[int] = []
            logprobs: list[float] | None = None
            turns: list[dict[str, JSON]] = []
            name, most = uuid.uuid4().hex, int(self.rollout_config.response_length)
            while True:
                output = await self.server_manager.generate(
                    request_id=name, prompt_ids=ids, sampling_params=sampling, priority=priority
                )
                merged, mask, logprobs = await self.ct_merge_assistant_token(
                    ids, output.token_ids, mask, logprobs or ([] if output.log_probs else None),
                    assistant_logprobs=output.log_probs or None,
                )  # fmt: skip
                ids = merged.token_ids
                words = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
                heard = await episode.asay(words)
                turns.append({**heard.facts, "reward": heard.reward})
                if heard.done or len(mask) >= most:
                    break
                before = [*messages, {"role": "assistant", "content": words}]
                messages = [*before, {"role": "user", "content": heard.text}]
                merged, longer, logged = await self.ct_merge_context_msg(before, messages, ids, mask, logprobs or None)
                if len(longer) >= most:
                    break
                ids, mask, logprobs = merged.token_ids, longer, logged
            verdict = await asyncio.to_thread(episode.verdict)
            begin = len(ids) - len(mask)
            return loops.AgentLoopOutput(
                prompt_ids=ids[:begin],
                response_ids=ids[begin : begin + most],
                response_mask=mask[:most],
                response_logprobs=logprobs[:most] if logprobs else None,
                reward_score=verdict.reward,
                num_turns=2 * len(turns),
                metrics={},
                extra_fields={
                    "turn_scores": [float(turn["reward"]) for turn in turns],
                    "tool_rewards": [],
                    "agentenvs": {"turns": turns, "outcome": outcome(verdict), **ref.to_json()},
                },
            )

    return WorldAgentLoop


__getattr__ = attributes(__name__, {"WorldAgentLoop": _loop}, globals())
