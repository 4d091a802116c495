"""The Tinker cookbook's own rollout loop plays a group; the sampler says what a script holds."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import json
import sys

import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_group_rollout
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agentenvs.adapters.plugs.tinker import World, WorldDataset
from agentenvs.core.task import TaskRef

ENV, SPLIT, URL, LINES = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

letters = pre_tokenizers.ByteLevel.alphabet()
bytes_ = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(sorted(letters))}, merges=[]))
bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, bos_token="<s>", eos_token="</s>")
renderer = get_renderer("role_colon", tokenizer)


class Scripted(TokenCompleter):
    async def __call__(self, model_input: tinker.ModelInput, stop, **_) -> TokensWithLogprobs:
        said = tokenizer.decode(model_input.to_ints()).count("Assistant: ")
        words = f" {LINES[min(said, len(LINES) - 1)]}\n\nUser:"
        ids = tokenizer.encode(words, add_special_tokens=False)
        return TokensWithLogprobs(tokens=ids, maybe_logprobs=[-1.0] * len(ids), stop_reason="stop")


async def main() -> None:
    data = WorldDataset(World(ENV, URL), [TaskRef(SPLIT, 0), TaskRef(SPLIT, 1)], renderer, batch=1, group=2)
    assert len(data) == 2
    (builder,) = data.get_batch(0)
    group = await do_group_rollout(builder, Scripted())
    starts = [one.transitions[0].ob.to_ints() for one in group.trajectories_G]
    assert starts[0] == starts[1]
    for one in group.trajectories_G:
        last = one.transitions[-1]
        assert last.episode_done
        assert {"valid", "turn", "success"} <= last.metrics.keys()
        assert "state_key" in last.logs
    print("played", [sum(step.reward for step in one.transitions) for one in group.trajectories_G])


asyncio.run(main())
