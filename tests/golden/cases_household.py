"""Golden cases of the household.

Every built-in room, loaded, proved and played, in each profile and both texts; generated rooms of every split and rung
of the difficulty ladder, with their proofs.
"""

from __future__ import annotations

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.environment import Environment
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.streams import Stream, scenario_key, sealed_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.household.propose import propose
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from agentenvs_scenarios.household.furnish import layout_digest
from agentenvs_scenarios.household.generate import SEALED, SPLITS
from agentenvs_scenarios.household.ladder import MIXED, RUNGS

_ROOMS = range(12)
_SECRET = bytes(range(16))


def digests() -> dict[str, str]:
    """Return the digests of the household."""
    found = {"household/scenarios": digest(_scenarios())}
    for player in ("oracle", "expert", "prior", "random", "noop"):
        found[f"household/{player}"] = digest([_episode(player, index) for index in _ROOMS])
    for profile in ("original", "compat", "native"):
        for text in ("0.3", "0.4"):
            found[f"household/walks/{profile}/{text}"] = digest([_walk(profile, text, index) for index in _ROOMS])
    for split in SPLITS:
        found[f"household/generated/{split}"] = digest([_generated(split, index, MIXED) for index in range(40)])
    for rung in RUNGS:
        found[f"household/generated/{rung}"] = digest([_generated("train", index, rung) for index in range(20)])
    return found


def _generated(split: str, index: int, difficulty: str) -> list[object]:
    key = sealed_key(_SECRET, "household", index) if split == SEALED else scenario_key("household", split, index)
    made = propose(key, split, difficulty)
    return [made.scenario.digest, layout_digest(made.scenario.receptacles), list(made.proof.plan), made.rung]


def _scenarios() -> list[object]:
    env = registry.make("household")
    rows: list[object] = []
    for index in _ROOMS:
        env.reset(TaskRef("builtin", index))
        rows.append([env.scenario("builtin", index).digest, dict(env.labels())])
    return rows


def _episode(player: str, index: int) -> str:
    env = registry.make("household", admissible=True)
    return play(env, resolve(player, env.spec)(), TaskRef("builtin", index)).summary.record


def _walk(profile: str, text: str, index: int) -> list[object]:
    """Return the record of a random walk with shaping, its traces, and a snapshot half way."""
    env = registry.make("household", profile=profile, text=text, admissible=True, shaping=True)
    recorded = Recorded(env)
    recorded.reset(TaskRef("builtin", index))
    stream = Stream(scenario_key("household", "golden", index), f"walk/{profile}/{text}")
    traces: list[object] = []
    snapshot = b""
    while env.ending is None:
        recorded.step(_choose(env, stream))
        traces.append(None if env.last_trace is None else env.last_trace.to_json())
        if env.turn == 25:
            snapshot = env.snapshot()
    return [parse_records(recorded.to_bytes())[0].digest, digest(traces), snapshot.decode()]


def _choose(env: Environment, stream: Stream) -> object:
    if stream.chance(1, 10):
        return stream.choice(["", "look around", "Go to fridge 1", {"tool": "open_receptacle", "arguments": {}}, 7])
    return stream.choice(env.observation.admissible or ("look",))
