"""The trainer beside TRL's ``GRPOTrainer``: tokens sampled and trained a CPU-second, on the same model and episodes.

Each side, in a process of its own, plays groups of the household for twenty turns and takes one optimizer step of
GRPO on them, with the same model of random weights, the same tokenizer and one thread. A turn is as many tokens as a
call of the tool ``look`` has, sampled in earnest; then the call stands in their place, on both sides, so that every
episode has all its turns. TRL gets its tools by ``environment_factory``, and its prompt, tools and all, is ours too.
It generates with plain ``generate`` and a cache; its paged sampling needs a GPU. Others of its settings were not tried.

    AGENTENVS_PEER_TRL=…/bin/python python benchmarks/trainer.py --out trainer.jsonl      # scripts/peers.sh makes it

It goes on where it was stopped: each finished step of a side is a line of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
ANSWER = "<|im_start|>user\n<tool_response>\n{seen}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>",
         "</tool_response>", "<think>", "</think>"]  # fmt: skip


def words() -> Any:
    """Return the tokenizer of both sides: byte-level BPE of what the household says, with Qwen 3's marks."""
    from agentenvs.train.tokenizer import train_tokenizer

    texts = [
        "You are in the middle of a room. Looking around you, you see a cabinet 1, a shelf 2, a fridge 1.",
        "Your task is to: put some mug in shelf.",
        '"type": "function", "description": "parameters"',
        CALL,
    ]
    made = train_tokenizer(texts * 20, 600)
    made.add_special_tokens({"additional_special_tokens": MARKS[:3]})
    made.add_tokens(MARKS[3:])
    made.eos_token, made.pad_token = "<|im_end|>", "<|endoftext|>"
    return made


def model(size: int, tokens: Any) -> Any:
    """Return the model of both sides, about a million weights of Qwen 3's shape."""
    from agentenvs.train.models import Shape, build

    shape = Shape(hidden=160, layers=3, heads=5, key_value_heads=5, feed_forward=448, length=32_768)
    made = build(shape, size, 0)
    for settings in (made.config, made.generation_config):
        settings.eos_token_id, settings.pad_token_id = tokens.eos_token_id, tokens.pad_token_id
    return made


def note(out: Path, line: dict[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# ---- TRL -----------------------------------------------------------------------------------------------------------


def play_trl(asked: argparse.Namespace) -> None:
    """Let TRL train, and note each step; runs where TRL is."""
    import torch
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    from agentenvs.adapters.plugs.trl import dataset, environment

    torch.set_num_threads(1)
    tokens = words()
    tokens.chat_template = qwen3_chat_template
    said = tokens.encode(CALL + "<|im_end|>", add_special_tokens=False)
    done = tokens.encode("Done.<|im_end|>", add_special_tokens=False)
    state: dict[str, Any] = {"turn": 0, "sampled": 0, "seconds": 0.0, "prompt": None}

    class Counted(GRPOTrainer):
        """Samples in earnest, and plays the call in its place."""

        def _generate_single_turn(self, prompt_ids: list[list[int]], *rest: Any, **more: Any) -> Any:
            if state["turn"] == 0 and state["prompt"] is None:
                state["prompt"] = [list(one) for one in prompt_ids]
            self.generation_config.max_new_tokens = len(said)  # of a turn; what is configured is of an episode
            start = time.process_time()
            made = super()._generate_single_turn(prompt_ids, *rest, **more)
            state["seconds"] += time.process_time() - start
            state["sampled"] += sum(len(one) for one in made[0])
            state["turn"] += 1
            ids = said if state["turn"] <= asked.turns else done
            return [list(ids) for _ in prompt_ids], None

        def _generate(self, *rest: Any, **more: Any) -> Any:
            state.update(turn=0, sampled=0, seconds=0.0, begun=time.process_time())
            return super()._generate(*rest, **more)

        def training_step(self, *rest: Any, **more: Any) -> Any:
            found = super().training_step(*rest, **more)
            whole = time.process_time() - state["begun"]
            line = {"side": "TRL", "turns": state["turn"], "sampled": state["sampled"], "sampling": state["seconds"],
                    "whole": whole, "episodes": asked.episodes}  # fmt: skip
            note(asked.out, line)
            asked.out.with_suffix(".prompt.json").write_text(json.dumps(state["prompt"]), encoding="utf-8")
            return found

    world = environment("household", limit=asked.turns + 1)
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder, max_steps=asked.steps, per_device_train_batch_size=asked.episodes,
            num_generations=asked.episodes, use_cpu=True, bf16=False, max_completion_length=20_000,
            generation_kwargs={"min_new_tokens": len(said)}, max_tool_calling_iterations=asked.turns, report_to=[],
            save_strategy="no", learning_rate=1e-4, beta=0.0, gradient_checkpointing=False, disable_tqdm=True,
        )  # fmt: skip
        trainer = Counted(
            model=model(len(tokens), tokens), processing_class=tokens, args=settings,
            train_dataset=dataset("household", "train", 0, asked.steps), environment_factory=world,
        )  # fmt: skip
        trainer.train()


# ---- ours ----------------------------------------------------------------------------------------------------------


def play_ours(asked: argparse.Namespace) -> None:
    """Play and train the same with ours, and note each step."""
    import torch

    import agentenvs
    from agentenvs.core.task import TaskRef
    from agentenvs.train.batch import Batch
    from agentenvs.train.engine.learner import LearnerConfig
    from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
    from agentenvs.train.interfaces import Draw, Sampling, losses
    from agentenvs.train.records import Episode, EpisodeWriter

    torch.set_num_threads(1)
    tokens = words()
    said = tokens.encode(CALL + "<|im_end|>", add_special_tokens=False)
    prompt = json.loads(asked.out.with_suffix(".prompt.json").read_text(encoding="utf-8"))[0]
    length = len(prompt) + (asked.turns + 1) * (len(said) + 200)
    learner = LearnerConfig(lr=1e-4, token_budget=max(16_384, length))
    engine = TorchEngine(model(len(tokens), tokens), SamplerConfig(asked.episodes, length), learner)
    worlds = [agentenvs.make("household", limit=asked.turns + 1) for _ in range(asked.episodes)]
    for step in range(asked.steps):
        begun = time.process_time()
        sampled, seconds = 0, 0.0
        episodes = [Episode("household", TaskRef("train", step), step, row) for row in range(asked.episodes)]
        writers = [EpisodeWriter(one) for one in episodes]
        for world, writer in zip(worlds, writers, strict=True):
            world.reset(TaskRef("train", step))
            writer.prompt(prompt)
        for turn in range(asked.turns + 1):
            start = time.process_time()
            draws = [Draw(list(one.ids), row, (step << 40) + row * 100 + turn) for row, one in enumerate(writers)]
            found = engine.sample(draws, Sampling(max_tokens=len(said)))
            seconds += time.process_time() - start
            sampled += sum(len(one.ids) for one in found)
            for world, writer, one in zip(worlds, writers, found, strict=True):
                writer.sampled(said, one.logps, engine.used)
                if turn < asked.turns:
                    answer = ANSWER.replace("{seen}", world.step("look").observation.text)
                    writer.prompt([*writer.ids, *tokens.encode("\n" + answer, add_special_tokens=False)])
        for writer in writers:
            writer.finish()
        batch = Batch(episodes)
        for row in range(asked.episodes):
            batch.paint(row, float(row % 2) * 2 - 1)
        engine.train(batch, losses.make("ppo-clip"), range(asked.episodes))
        engine.publish()
        whole = time.process_time() - begun
        line = {"side": "ours", "turns": asked.turns + 1, "sampled": sampled, "sampling": seconds, "whole": whole,
                "episodes": asked.episodes}  # fmt: skip
        note(asked.out, line)


# ---- both ----------------------------------------------------------------------------------------------------------


def read(out: Path, side: str) -> list[dict[str, Any]]:
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return [one for one in map(json.loads, lines) if one["side"] == side]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=16, help="of a step, all of one scenario")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("trainer.jsonl"))
    parser.add_argument("--side", choices=["TRL", "ours"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side is not None:
        (play_trl if asked.side == "TRL" else play_ours)(asked)
        return
    pythons = {"TRL": os.environ.get("AGENTENVS_PEER_TRL", sys.executable), "ours": sys.executable}
    for side, python in pythons.items():
        left = asked.steps - len(read(asked.out, side))
        sizes = ["--turns", str(asked.turns), "--episodes", str(asked.episodes), "--steps", str(left)]
        if left > 0:
            subprocess.run([python, __file__, "--side", side, *sizes, "--out", str(asked.out)], check=True)
    print(f"| {asked.episodes} episodes of {asked.turns} turns | sampled tokens a CPU-s | all, trained on, a CPU-s |")
    print("|---|---:|---:|")
    for side in pythons:
        lines = read(asked.out, side)
        sampling = median(one["sampled"] / one["sampling"] for one in lines)
        whole = median(one["sampled"] / one["whole"] for one in lines)
        print(f"| {side} | {sampling:,.0f} | {whole:,.0f} |")


if __name__ == "__main__":
    main()
