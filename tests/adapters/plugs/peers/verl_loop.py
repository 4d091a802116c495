"""verl makes the plug's agent loop, with its own token builder; a stub server says what a script holds."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import json
import sys

import hydra
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, DictConfigWrap, ToolListWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

LOOPS, ROW, LINES = OmegaConf.load(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])

letters = pre_tokenizers.ByteLevel.alphabet()
bytes_ = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(sorted(letters))}, merges=[]))
bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="<|im_end|>", pad_token="<pad>")
tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
tokenizer.chat_template = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Server:
    def __init__(self) -> None:
        self.turn, self.prompts = 0, []

    async def generate(self, request_id, prompt_ids, sampling_params, **_) -> TokenOutput:
        self.prompts.append(list(prompt_ids))
        ids = tokenizer.encode(LINES[min(self.turn, len(LINES) - 1)] + "<|im_end|>", add_special_tokens=False)
        self.turn += 1
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason="completed")


async def main() -> None:
    config = OmegaConf.create(
        {
            "actor_rollout_ref": {"rollout": {"prompt_length": 20000, "response_length": 20000}},
            "data": {"apply_chat_template_kwargs": {}},
        }
    )
    (target,) = [loop for loop in LOOPS if loop.name == ROW["agent_name"]]
    server = Server()
    loop = hydra.utils.instantiate(
        config=target,
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        hf_model_type=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([]),
    )
    assert isinstance(loop, AgentLoopBase)
    row = {**ROW, "raw_prompt": ROW["prompt"]}
    output = await loop.run({"temperature": 1.0}, **row)
    assert isinstance(output, AgentLoopOutput)
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    ids = output.prompt_ids + output.response_ids
    assert ids[: len(server.prompts[-1])] == server.prompts[-1], "what was sampled is what is trained on"
    said = [word for word, mine in zip(output.response_ids, output.response_mask, strict=True) if mine]
    assert tokenizer.decode(said, skip_special_tokens=True) == "".join(LINES[: server.turn])
    turns = output.extra_fields["agentenvs"]["turns"]
    assert {"valid", "state_key", "potential"} <= turns[-1].keys()
    print("played", server.turn, "turns, reward", output.reward_score)


asyncio.run(main())
