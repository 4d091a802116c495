"""Golden cases of the web shop.

Products of two generated shops, with what a search in them finds; goals of every split and rung, with their proofs;
what players do; random walks in each profile and both texts, with traces and a snapshot half way.
"""

from __future__ import annotations

from dataclasses import asdict

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.streams import Stream, scenario_key, sealed_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop.propose import propose
from agentenvs.envs.webshop.shops import generated_shop, search_of
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from agentenvs_scenarios.webshop.generate import SEALED, SPLITS
from agentenvs_scenarios.webshop.ladder import MIXED, RUNGS

_PRODUCTS = 1000
_SECRET = bytes(range(16))
_QUERIES = ("blue lamp", "running shoes size 8", "the", "gluten free protein bars, pack of 12", "2.5 inch", "zzz")


def digests() -> dict[str, str]:
    """Return the digests of the web shop."""
    found = {}
    for seed in (0, 7):
        shop = generated_shop(seed, _PRODUCTS)
        products = [asdict(shop.product(index)) for index in range(0, _PRODUCTS, 7)]
        found[f"webshop/shop/{seed}"] = digest(_listed([shop.digest, products]))
        found[f"webshop/search/{seed}"] = digest([list(search_of(shop)(query)) for query in _QUERIES])
    for split in SPLITS:
        found[f"webshop/goals/{split}"] = digest([_goal(split, index, MIXED) for index in range(30)])
    for rung in RUNGS:
        found[f"webshop/goals/{rung}"] = digest([_goal("train", index, rung) for index in range(15)])
    for player in ("oracle", "shopper", "first", "first-options", "random", "noop"):
        found[f"webshop/{player}"] = digest([_episode(player, index) for index in range(10)])
    for profile in ("original", "compat", "native"):
        for text in ("text", "text_rich"):
            found[f"webshop/walks/{profile}/{text}"] = digest([_walk(profile, text, index) for index in range(6)])
    return found


def _listed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _goal(split: str, index: int, difficulty: str) -> list[object]:
    key = sealed_key(_SECRET, "webshop", index) if split == SEALED else scenario_key("webshop", split, index)
    made = propose(generated_shop(0, _PRODUCTS), key, split, difficulty)
    return [made.scenario.digest, [list(found) for found in made.proof.satisfying], list(made.proof.near)]


def _episode(player: str, index: int) -> str:
    env = registry.make("webshop", admissible=True, products=_PRODUCTS)
    return play(env, resolve(player, env.spec)(), TaskRef("test", index)).summary.record


def _walk(profile: str, text: str, index: int) -> list[object]:
    """Return the record of a random walk, its traces, and a snapshot half way."""
    env = registry.make(
        "webshop",
        profile=profile,
        observation=text,
        admissible=True,
        products=_PRODUCTS,
        attributes_page=index % 2 == 0,
    )
    recorded = Recorded(env)
    recorded.reset(TaskRef("dev", index))
    stream = Stream(scenario_key("webshop", "golden", index), f"walk/{profile}/{text}")
    traces: list[object] = []
    snapshot = b""
    while env.ending is None:
        recorded.step(_choose(env, stream))
        traces.append(None if env.last_trace is None else env.last_trace.to_json())
        if env.turn == 10:
            snapshot = env.snapshot()
    return [parse_records(recorded.to_bytes())[0].digest, digest(traces), snapshot.decode()]


def _choose(env: Environment, stream: Stream) -> object:
    if stream.chance(1, 6):
        return stream.choice(
            ["", "search[blue]", "search[<r>]", "Search[x]", {"tool": "search", "arguments": {"query": "Red"}}, 7]
        )
    legal = [action for action in env.observation.admissible or () if action != "click[buy now]" or env.turn > 15]
    return stream.choice(legal or ["search[lamp]"])
