"""What the trainer does on a GPU: sampled and trained tokens a second, MFU, memory, and one whole iteration.

The model has the shape of Qwen2.5-0.5B and random weights, which cost what trained ones do; conversations are made-up
tokens, so that no environment and no tokenizer is in the way. It takes a few minutes on one GPU, and writes a table and
a JSON file; each phase begins only while there is time. MFU counts the products of matrices and of attention that are
needed, forward and back, the head at trained positions alone, and nothing computed again, over ``--peak``.

    python benchmarks/gpu.py --out gpu.json
    python benchmarks/gpu.py --shape tiny --device cpu --rows 4 --turns 2 --length 256     # does it run at all?
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

from agentenvs.core.task import TaskRef
from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import Draw, Sampling, losses
from agentenvs.train.records import Episode, EpisodeWriter

SHAPES: dict[str, dict[str, int]] = {
    "0.5b": {"vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
             "num_attention_heads": 14, "num_key_value_heads": 2},
    "1.5b": {"vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2},
    "tiny": {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2},
}  # fmt: skip
SAID, SEEN, PROMPT = 24, 72, 200
"""Tokens of a turn, of an observation, and before the first turn."""
H200_PEAK = 989e12
"""Dense bfloat16 operations a second of an H200 by its data sheet."""


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str


class Bench:
    """The phases, and what they found."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.rows = asked, [Row("seconds of imports and model", 0.0, "s")]
        self.began = time.perf_counter()
        torch.manual_seed(0)
        config = transformers.Qwen2Config(
            **SHAPES[asked.shape], max_position_embeddings=32_768, tie_word_embeddings=True, bos_token_id=None,
            eos_token_id=None,
        )  # fmt: skip
        with torch.device(asked.device):
            self.model: Any = transformers.Qwen2ForCausalLM(config)
        self.half = "bfloat16" if asked.device != "cpu" else "float32"
        self.rows[0] = Row("making the model", time.perf_counter() - self.began, "s")

    def left(self) -> bool:
        """Whether there is time for another phase."""
        return time.perf_counter() - self.began < self.asked.seconds

    def timed(self, work: Callable[[], Any]) -> float:
        """Return the seconds of some work, to its end on the device."""
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        """Wait for the device."""
        if self.asked.device != "cpu":
            torch.cuda.synchronize()

    def memory(self, name: str) -> None:
        """Note the most memory that was taken, and begin to count anew."""
        if self.asked.device != "cpu":
            self.rows.append(Row(f"{name}: most memory", torch.cuda.max_memory_allocated() / 2**30, "GiB"))
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def engine(self, *, graphs: bool = False, compile_: bool = False) -> TorchEngine:
        """Return an engine around the model."""
        sampler = SamplerConfig(self.asked.rows, self.asked.length, self.half, graphs)
        budget = max(self.asked.budget, self.asked.length)
        learner = LearnerConfig(lr=1e-6, token_budget=budget, precision=self.half, compile=compile_)
        return TorchEngine(self.model, sampler, learner)

    def ids(self, count: int) -> list[int]:
        """Return made-up tokens."""
        return torch.randint(0, self.model.config.vocab_size, (count,)).tolist()

    # ---- phases ----------------------------------------------------------------------------------------------------

    def played(self, engine: TorchEngine) -> Batch:
        """Play conversations: every row takes its turns, each behind all that stands before it."""
        asked = self.asked
        episodes = [Episode("bench", TaskRef("train", row // 8), row // 8, row % 8) for row in range(asked.rows)]
        writers = [EpisodeWriter(one) for one in episodes]
        for writer in writers:
            writer.prompt(self.ids(PROMPT))
        for turn in range(asked.turns):
            draws = [Draw(list(one.ids), row, row * asked.turns + turn) for row, one in enumerate(writers)]
            for writer, found in zip(writers, engine.sample(draws, Sampling(max_tokens=SAID)), strict=True):
                writer.sampled(found.ids, found.logps, engine.used)
                writer.prompt([*writer.ids, *self.ids(SEEN)])
        for writer in writers:
            writer.finish()
        engine.release(range(asked.rows))
        batch = Batch(episodes)
        for index in range(asked.rows):
            batch.paint(index, float(index % 2) * 2 - 1)
        return batch

    def sample(self, name: str, engine: TorchEngine) -> Batch:
        """Measure sampling, prefixes and observations taken in included."""
        self.played(engine)  # warms up
        found: list[Batch] = []
        seconds = self.timed(lambda: found.append(self.played(engine)))
        tokens = sum(episode.tokens for episode in found[0].episodes)
        self.rows.append(Row(f"{name}: sampled", tokens / seconds, "tokens/s"))
        self.memory(name)
        return found[0]

    def train(self, name: str, engine: TorchEngine, batch: Batch) -> None:
        """Measure updates."""
        loss, rows = losses.make("ppo-clip"), range(self.asked.rows)
        engine.train(batch, loss, rows)  # warms up
        seconds = self.timed(lambda: engine.train(batch, loss, rows))
        tokens = sum(len(one) for episode in batch.episodes for one in episode.segments)
        self.rows.append(Row(f"{name}: trained", tokens / seconds, "tokens/s"))
        self.rows.append(Row(f"{name}: MFU", 100 * self.operations(batch) / seconds / self.asked.peak, "%"))
        self.memory(name)

    def operations(self, batch: Batch) -> float:
        """Return the operations an update needs: 6 a weight and token, and 6 L d n a token of n before it (causal)."""
        config = self.model.config
        head = config.vocab_size * config.hidden_size
        blocks = sum(one.numel() for one in self.model.parameters()) - head
        lengths = [len(one) for episode in batch.episodes for one in episode.segments]
        attention = 6 * config.num_hidden_layers * config.hidden_size * sum(length**2 for length in lengths)
        return float(6 * blocks * sum(lengths) + 6 * head * sum(one.tokens for one in batch.episodes) + attention)

    def iteration(self, engine: TorchEngine) -> None:
        """Measure a whole iteration: play, train, publish."""
        parts: list[float] = []
        found: list[Batch] = []
        parts.append(self.timed(lambda: found.append(self.played(engine))))
        parts.append(self.timed(lambda: engine.train(found[0], losses.make("ppo-clip"), range(self.asked.rows))))
        parts.append(self.timed(engine.publish))
        for name, seconds in zip(("sampling", "training", "publishing"), parts, strict=True):
            self.rows.append(Row(f"iteration of {self.asked.rows} episodes: {name}", seconds, "s"))
        self.rows.append(Row(f"iteration of {self.asked.rows} episodes: whole", sum(parts), "s"))

    def run(self) -> None:
        """Do all phases there is time for."""
        engine = self.engine()
        batch = self.sample("plain", engine)
        self.train("plain", engine, batch)
        if self.left():
            self.iteration(engine)
        del engine
        self.memory("iteration")
        if self.asked.device != "cpu" and self.left():
            engine = self.engine(graphs=True)
            self.sample("graphs", engine)
            if self.left():
                self.iteration(engine)
            del engine
        if self.asked.device != "cpu" and self.left():
            self.train("compiled", self.engine(compile_=True), batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="0.5b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=256, help="conversations side by side")
    parser.add_argument("--turns", type=int, default=14)
    parser.add_argument("--length", type=int, default=2048, help="the most tokens of a conversation")
    parser.add_argument("--budget", type=int, default=32_768, help="tokens of a micro-batch")
    parser.add_argument("--seconds", type=float, default=420, help="no phase is begun after these")
    parser.add_argument("--peak", type=float, default=H200_PEAK, help="operations a second that MFU is a share of")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    asked = parser.parse_args()
    bench = Bench(asked)
    bench.run()
    device = torch.cuda.get_device_name() if asked.device != "cpu" else platform.processor() or "cpu"
    form = {"device": device, "torch": torch.__version__, "shape": asked.shape, "rows": asked.rows,
            "turns": asked.turns, "results": [row._asdict() for row in bench.rows]}  # fmt: skip
    asked.out.write_text(json.dumps(form, indent=2) + "\n", encoding="utf-8")
    print(f"| {device}, shape {asked.shape} | |\n|---|---:|")
    for row in bench.rows:
        print(f"| {row.name} | {row.value:,.2f} {row.unit} |")


if __name__ == "__main__":
    main()
