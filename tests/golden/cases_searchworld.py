"""Golden cases of the search worlds: universes, their indices, questions of every rung with their proofs, episodes."""

from __future__ import annotations

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.search import build_from_words
from agentenvs.core.streams import Stream, derive, scenario_key, sealed_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.searchworld.holdings import Holding, UniverseShelf
from agentenvs.envs.searchworld.library import TOKENIZER, Library
from agentenvs.envs.searchworld.propose import propose
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from agentenvs_scenarios.searchworld.build import build
from agentenvs_scenarios.searchworld.ladder import DIFFICULTIES, deck

_SECRET = bytes(range(16))
_PEOPLE = 500


def digests() -> dict[str, str]:
    """Return the digests of the search worlds."""
    found: dict[str, str] = {}
    for split in ("train", "dev", "test", "sealed"):
        key = sealed_key(_SECRET, "searchworld", 0) if split == "sealed" else scenario_key("searchworld", split, 0)
        holding = _holding(key)
        found[f"searchworld/universe/{split}"] = holding.library.digest
        for difficulty in DIFFICULTIES if split == "train" else ("mixed",):
            found[f"searchworld/questions/{split}/{difficulty}"] = digest(_questions(key, holding, difficulty))
    for player in ("oracle", "expert", "one_query", "two_query", "frequent", "random"):
        found[f"searchworld/{player}"] = digest([_episode(player, index) for index in range(12)])
    for dialect in ("plain", "tags"):
        found[f"searchworld/walks/{dialect}"] = digest([_walk(dialect, index) for index in range(4)])
    return found


def _holding(key: bytes) -> Holding:
    made, words = build(key, _PEOPLE)
    ids = [str(number) for number in range(len(made))]
    index = build_from_words(ids, words.numbers, words.ends, words.vocabulary, tokenizer=TOKENIZER)
    shelf = UniverseShelf(made)
    return Holding(Library(shelf, index), shelf)


def _questions(key: bytes, holding: Holding, difficulty: str) -> list[object]:
    rows: list[object] = []
    for number, card in enumerate(deck(key, difficulty)[:24]):
        assert holding.shelf is not None
        made = propose(holding, holding.shelf, derive(key, f"question/{number}"), card, "golden")
        rows.append([made.scenario.digest, made.scenario.question.sentence, list(made.proof.answers)])
    return rows


def _episode(player: str, index: int) -> str:
    env = registry.make("searchworld", people=str(_PEOPLE))
    return play(env, resolve(player, env.spec)(), TaskRef("train", index)).summary.record


def _walk(dialect: str, index: int) -> list[object]:
    """Return the record of a random walk, its traces, and a snapshot on the way."""
    env = registry.make("searchworld", people=str(_PEOPLE), dialect=dialect, noise=20, limit=16)
    recorded = Recorded(env)
    recorded.reset(TaskRef("train", index))
    stream = Stream(scenario_key("searchworld", "golden", index), f"walk/{dialect}")
    traces: list[object] = []
    snapshot = b""
    while env.ending is None:
        recorded.step(_choose(env.observation.text, stream))
        traces.append(None if env.last_trace is None else env.last_trace.to_json())
        if env.turn == 8:
            snapshot = env.snapshot()
    return [parse_records(recorded.to_bytes())[0].digest, digest(traces), snapshot.decode()]


def _choose(seen: str, stream: Stream) -> object:
    words = seen.replace("[", " ").replace("]", " ").split()
    some = " ".join(stream.sample(words, min(3, len(words))))
    if stream.chance(1, 8):
        return stream.choice(["", "look", "answer", {"tool": "read", "arguments": {}}, 7])
    if stream.chance(1, 2):
        return {"tool": "search", "arguments": {"query": some, "k": stream.between(1, 10)}}
    return stream.choice(
        [f"search: {some}", f"read: {stream.choice(words)}", f"<think>hm</think><search>{some}</search>"]
    )
