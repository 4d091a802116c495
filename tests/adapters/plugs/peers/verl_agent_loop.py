"""verl-agent's own rollout loop with a stub actor, and GiGPO's own groups of steps; from a checkout on the path."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import runpy
import sys

import numpy as np
import torch
from agent_system.environments.base import EnvironmentManagerBase
from agent_system.multi_turn_rollout.rollout_loop import TrajectoryCollector
from gigpo.core_gigpo import build_step_group
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl import DataProto

from agentenvs.adapters.plugs.verl_agent import WorldEnvironmentManager, build_world_envs, world_projection

ENV, SPLIT, URL, ACTIONS = sys.argv[1], sys.argv[2], sys.argv[3] or None, json.loads(sys.argv[4])
PRINTED = sys.argv[5:]  # a file with a make_envs of its own
NUM, GROUP, WIDTH = 2, 2, 400

letters = pre_tokenizers.ByteLevel.alphabet()
bytes_ = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(sorted(letters))}, merges=[]))
bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="</s>", pad_token="<pad>")
tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def spoken(action) -> str:
    return action if isinstance(action, str) else json.dumps(action)


class Actor:
    """Says what the script holds; every second of a group says nonsense in its second turn."""

    world_size = 1

    def __init__(self) -> None:
        self.turn = 0
        self.prompts = []

    def generate_sequences(self, batch: DataProto) -> DataProto:
        self.prompts.append(tokenizer.batch_decode(batch.batch["input_ids"], skip_special_tokens=True))
        rows = []
        for place in range(len(batch)):
            said = f"<think>So.</think><action>{spoken(ACTIONS[min(self.turn, len(ACTIONS) - 1)])}</action>"
            words = "nonsense" if self.turn == 1 and place % 2 else said
            ids = tokenizer.encode(words, add_special_tokens=False)
            rows.append(ids + [tokenizer.pad_token_id] * (WIDTH - len(ids)))
        self.turn += 1
        kept = {name: batch.batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
        return DataProto.from_dict({"responses": torch.tensor(rows), **kept})


def collect(anchor: str):
    config = OmegaConf.create(
        {
            "env": {"rollout": {"n": GROUP}, "max_steps": len(ACTIONS) + 1, "history_length": 2},
            "data": {
                "train_batch_size": NUM,
                "val_batch_size": 1,
                "max_prompt_length": 6000,
                "truncation": "left",
                "apply_chat_template_kwargs": {},
            },
            "algorithm": {"filter_groups": {"enable": False}},
        }
    )
    if PRINTED:
        manager, judged = runpy.run_path(PRINTED[0])["make_envs"](config)
        judged.envs.close()
    else:
        envs = build_world_envs(ENV, 0, NUM, GROUP, split=SPLIT, url=URL, anchor=anchor)
        manager = WorldEnvironmentManager(envs, world_projection, config)
    assert isinstance(manager, EnvironmentManagerBase)
    size = NUM  # the loop repeats each row for its group
    given = DataProto.from_dict(
        {"input_ids": torch.zeros((size, 1), dtype=torch.long)},
        non_tensors={
            "raw_prompt": np.array([[{"role": "user", "content": ""}]] * size, dtype=object),
            "data_source": np.array(["agentenvs"] * size, dtype=object),
        },
    )
    actor = Actor()
    collector = TrajectoryCollector(config, tokenizer)
    found = collector.multi_turn_loop(given, actor, manager, is_train=True)
    manager.envs.close()
    return actor, found


actor, batch = collect("state_key")
firsts = actor.prompts[0]
assert firsts[0] == firsts[1]
assert ENV != "household" or firsts[0] != firsts[2]
facts = batch.non_tensor_batch
valid = facts["is_action_valid"]
assert not valid.all(), "the format's mistakes are told"
groups = build_step_group(facts["anchor_obs"], facts["uid"])
print("groups", len(set(groups)), "of", len(groups), "anchors", sorted(set(map(len, facts["anchor_obs"]))))
paid = {str(uid): float(won) for uid, won in zip(facts["traj_uid"], facts["episode_rewards"], strict=True)}
print("paid", sorted(paid.values()))
_, words = collect("text")
assert len(set(build_step_group(words.non_tensor_batch["anchor_obs"], words.non_tensor_batch["uid"]))) > 1
print("played", len(actor.prompts), "turns")
assert ENV != "household" or "admissible" in actor.prompts[2][0]
