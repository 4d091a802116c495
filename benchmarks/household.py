"""How fast the household is: CPU time a step, a reset, a fork, and memory an episode, on one core.

Walks are recorded first (uniform over the admissible commands, with junk now and then) and then played again under the
clock, so that choosing an action is not measured. Every figure is CPU time of this process (``time.process_time``),
the best of several rounds, because other work on the machine only ever adds. Peers run in the same process where they
are installed: ``alfworld`` on the same game files, ``textworld_express`` on a game of its own.

    python benchmarks/household.py                      # generated rooms (and what it costs to make them)
    python benchmarks/household.py --data json_2.1.1    # real game files
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import agentenvs
from agentenvs.core.environment import Environment
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.household.propose import propose

ROUNDS = 5
WALK_STEPS = 50


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    aim: str


class Walk(NamedTuple):
    """An episode to be played again."""

    ref: TaskRef
    actions: list[str]


def record_walks(data: str | None, split: str, count: int) -> list[Walk]:
    """Return walks of up to 50 steps over the scenarios of a split, one each."""
    env = agentenvs.make("household", data=data, admissible=True, limit=WALK_STEPS)
    size = env.splits()[split].size or count
    return [_walk(env, TaskRef(split, index % size), index) for index in range(count)]


def _walk(env: Environment, ref: TaskRef, number: int) -> Walk:
    stream = Stream(scenario_key("household", "benchmark", number), "walk")
    observation = env.reset(ref)
    actions: list[str] = []
    while env.ending is None:
        admissible = observation.admissible or ("look",)
        action = "take everything" if stream.chance(1, 20) else stream.choice(admissible)
        actions.append(action)
        observation = env.step(action).observation
    return Walk(ref, actions)


def play(env: Environment, walks: list[Walk], trace: bool) -> tuple[float, int]:
    """Play the walks; return CPU seconds in steps alone, and the number of steps."""
    seconds, steps = 0.0, 0
    for walk in walks:
        env.reset(walk.ref)
        step = env.step
        start = time.process_time()
        if trace:
            for action in walk.actions:
                step(action)
                env.last_trace  # noqa: B018 - computing it is what is measured
        else:
            for action in walk.actions:
                step(action)
        seconds += time.process_time() - start
        steps += len(walk.actions)
    return seconds, steps


def steps_per_second(walks: list[Walk], data: str | None, trace: bool = False, **options: Any) -> float:
    """Return steps a CPU-second through the contract: parse, play, state key, goal, observation."""
    env = agentenvs.make("household", data=data, limit=WALK_STEPS, **options)
    play(env, walks, trace)
    return max(steps / seconds for seconds, steps in (play(env, walks, trace) for _ in range(ROUNDS)))


def microseconds(action: Callable[[], object], count: int) -> float:
    """Return the CPU time of one call in microseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(count):
            action()
        best = min(best, (time.process_time() - start) / count)
    return best * 1e6


def kib_an_episode(walks: list[Walk], data: str | None, episodes: int = 200) -> float:
    """Return KiB of memory of a live episode at its last turn but one, scenarios loaded before."""
    warm = [_live(walk, data) for walk in walks[:20]]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    live = [_live(walks[number % 20], data) for number in range(episodes)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 1024 / len(live) if warm else 0.0


def _live(walk: Walk, data: str | None) -> Environment:
    env = agentenvs.make("household", data=data, admissible=True, limit=WALK_STEPS)
    env.reset(walk.ref)
    for action in walk.actions[:-1]:
        env.step(action)
    return env


def measure(data: str | None, split: str, count: int) -> list[Row]:
    """Return the table."""
    walks = record_walks(data, split, count)
    env = agentenvs.make("household", data=data, admissible=True)
    env.reset(walks[0].ref)
    return [
        Row("step", steps_per_second(walks, data), "steps/s", "100,000"),
        Row("step, admissible list", steps_per_second(walks, data, admissible=True), "steps/s", "60,000"),
        Row("step, full trace", steps_per_second(walks, data, trace=True), "steps/s", "10,000"),
        Row("step, shaping", steps_per_second(walks, data, shaping=True), "steps/s", "-"),
        *generating(data),
        Row("fork", microseconds(env.fork, 2000), "µs", "<= 20"),
        Row("reset, cached scenario", microseconds(lambda: env.reset(walks[0].ref), 500), "µs", "<= 300"),
        Row("snapshot", microseconds(env.snapshot, 200), "µs", "-"),
        Row("memory of a live episode", kib_an_episode(walks, data), "KiB", "<= 60"),
    ]


def generating(data: str | None, count: int = 100) -> list[Row]:
    """Return what it costs to propose and prove a scenario, by split; nothing where real games are measured."""
    if data is not None:
        return []
    rows = []
    for split in ("train", "dev"):
        keys = iter([scenario_key("household", f"benchmark {split}", index) for index in range(ROUNDS * count)])
        cost = microseconds(lambda keys=keys, split=split: propose(next(keys), split, "mixed"), count)  # type: ignore[misc]
        rows.append(Row(f"propose and prove, {split}", cost, "µs", "<= 3000"))
    return rows


def peers(data: str | None) -> list[Row]:
    """Return a row for each peer that is installed, and say which is not."""
    rows: list[Row] = []
    for name, run in (("alfworld", _alfworld), ("textworld_express", _textworld_express)):
        try:
            rows.append(run(data))
        except ImportError:
            print(f"{name}: not installed, not measured", file=sys.stderr)
    return rows


def _alfworld(data: str | None) -> Row:
    from alfworld.agents.environment import get_environment

    if data is None:
        raise ImportError("alfworld needs --data")
    config = {
        "env": {
            "type": "AlfredTWEnv",
            "task_types": [1, 2, 3, 4, 5, 6],
            "domain_randomization": False,
            "goal_desc_human_anns_prob": 0,
            "expert_type": "handcoded",
            "expert_timeout_steps": 150,
        },
        "dataset": {"data_path": data, "eval_id_data_path": data, "eval_ood_data_path": data, "num_eval_games": 5},
        "general": {"training_method": "dagger"},
        "dagger": {"training": {"max_nb_steps_per_episode": WALK_STEPS}},
    }
    env = get_environment("AlfredTWEnv")(config, train_eval="eval_in_distribution").init_env(batch_size=1)
    stream = Stream(scenario_key("household", "benchmark", 0), "alfworld")
    _, info = env.reset()
    start = time.process_time()
    for _ in range(WALK_STEPS):
        _, _, _, info = env.step([stream.choice(info["admissible_commands"][0])])
    return Row("alfworld step", WALK_STEPS / (time.process_time() - start), "steps/s", "-")


def _textworld_express(_data: str | None) -> Row:
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv(envStepLimit=10_000)
    env.load(gameName="cookingworld", gameParams="")
    stream = Stream(scenario_key("household", "benchmark", 0), "textworld_express")
    _, info = env.reset(seed=1, gameFold="train", generateGoldPath=False)
    # Its work is done in a Java process, which this one's CPU clock does not see: so wall clock, to its advantage.
    start, steps = time.perf_counter(), 500
    for _ in range(steps):
        _, _, _, info = env.step(stream.choice(sorted(info["validActions"])))
    return Row("textworld_express step (wall clock)", steps / (time.perf_counter() - start), "steps/s", "-")


def show(rows: list[Row]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"household, Python {platform.python_version()}, one core, CPU time")
    for heading, justify in (("figure", "left"), ("measured", "right"), ("unit", "left"), ("aim", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row.name, f"{row.value:,.1f}" if row.value < 1000 else f"{row.value:,.0f}", row.unit, row.aim)
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder json_2.1.1 of real games, or its parent")
    parser.add_argument("--split", help="split to walk in (default: train, or valid_train with --data)")
    parser.add_argument("--walks", type=int, default=60, help="number of walks of 50 steps")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    rows = measure(args.data, args.split or ("valid_train" if args.data else "train"), args.walks)
    rows += peers(args.data)
    if args.json:
        print(json.dumps([row._asdict() for row in rows]))
    else:
        show(rows)


if __name__ == "__main__":
    main()
