"""A game of three letters whose policy is a table, so that every advantage is known by enumeration."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from agentenvs.core.environment import Environment
from agentenvs.core.simple import Ended, Invalid, world
from agentenvs.core.task import TaskRef
from agentenvs.train.engine.chance import uniform
from agentenvs.train.interfaces import Assignment, Draw, Sampled, Sampling
from agentenvs.train.records import Episode
from agentenvs.train.rollout import RolloutConfig, Rollouts
from agentenvs.train.worlds import World

LETTERS = "abc"
SEEN, ACT, END = 10, 11, 12
TURNS = 4


def _share(*parts: object) -> float:
    data = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(data, "big") / 2.0**64


@world("tests/Letters-v0", steps=TURNS)
class Letters:
    "Say letters."

    def task(rng):
        return {"number": rng.between(1, 999)}

    def reset(self, task):
        self.number, self.path = task["number"], ""
        return "go"

    def step(self, text):
        if text not in LETTERS:
            return Invalid("no letter")
        self.path += text
        if len(self.path) >= 2 and _share("end", self.number, self.path) < 0.2:
            return Ended("over")
        return "on" if _share("word", self.number, self.path) < 0.5 else "go"

    def score(self):
        return float(_share("score", self.number, self.path) < 0.4)


class LetterTemplate:
    stop: tuple[int, ...] = (END,)

    def begin(self, head: str, observation: str) -> list[int]:
        return self.next(observation)

    def next(self, observation: str) -> list[int]:
        return [SEEN, *(ord(one) for one in observation), ACT]

    def turn(self, text: str) -> list[int]:
        return [*(LETTERS.index(one) for one in text), END]

    def text(self, ids: Sequence[int]) -> str:
        return "".join(LETTERS[one] for one in ids if one < len(LETTERS))


def chances(ids: Sequence[int]) -> list[float]:
    """Return the policy: the probability of each letter behind a prefix."""
    weights = [0.1 + _share("policy", list(ids), letter) ** 2 for letter in LETTERS]
    return [one / sum(weights) for one in weights]


class TableEngine:
    """Samples by the table, one letter and an end a turn."""

    used = version = 0
    provides: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._waiting: dict[int, Draw] = {}

    def submit(self, draw: Draw) -> None:
        self._waiting[draw.slot] = Draw(list(draw.ids), draw.slot, draw.seed, draw.legal)

    def advance(self, sampling: Sampling) -> list[tuple[int, Sampled]]:
        done = []
        for slot, draw in self._waiting.items():
            heights = np.cumsum(chances(draw.ids))
            letter = min(int(np.searchsorted(heights, uniform(draw.seed, 0), side="right")), 2)
            done.append((slot, Sampled([letter, END], [math.log(chances(draw.ids)[letter]), 0.0])))
        self._waiting = {}
        return done

    def release(self, slots: Sequence[int]) -> None:
        """Keep nothing anyway."""


def rollouts(make: type[Environment] = Letters, seed: int = 0, slots: int = 16) -> Rollouts:
    config = RolloutConfig(max_turn_tokens=2, max_length=200)
    return Rollouts(TableEngine(), {"letters": World("letters", make, slots)}, LetterTemplate(), config, seed)


def played(over: Rollouts, groups: int, size: int) -> list[Episode]:
    return over.play([Assignment("letters", TaskRef("train", index)) for index in range(groups)], size, 0)


def exact(env: Environment, ids: list[int]) -> tuple[float, list[float]]:
    """Return the value before a turn and that of each letter."""
    worth = []
    for letter in LETTERS:
        fork = env.fork()
        result = fork.step(letter)
        value = result.reward
        if not (result.terminated or result.truncated):
            behind = [*ids, *LetterTemplate().turn(letter), *LetterTemplate().next(result.observation.text)]
            value += exact(fork, behind)[0]
        worth.append(value)
    return sum(p * q for p, q in zip(chances(ids), worth, strict=True)), worth


def advantages(episode: Episode) -> list[float]:
    """Return the exact advantage of each turn of an episode."""
    env, found = Letters(), []
    env.reset(episode.ref)
    for turn in episode.turns:
        value, worth = exact(env, episode.segments[0].ids[: turn.start].tolist())
        found.append(worth[LETTERS.index(turn.text)] - value)
        env.step(turn.text)
    return found
