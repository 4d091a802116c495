"""How fast the web shop is: steps per CPU-second with searching, start from a prepared index, memory.

Walks are recorded first (uniform over what can be clicked, a search of words from a product's title where there is a
search bar, junk now and then) and then played again under the clock, so that choosing an action is not measured. Each
round begins with nothing remembered of earlier searches. Figures are CPU time of this process, the best of several
rounds; start and memory are those of a process of its own.

    python benchmarks/webshop.py                 # 1,000 and 10,000 products
    python benchmarks/webshop.py --million       # a million: building, memory, searching; takes many minutes
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import agentenvs
from agentenvs.core.environment import Environment
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop import shops
from agentenvs.envs.webshop.propose import propose
from agentenvs.envs.webshop.prove import title_query
from agentenvs.envs.webshop.spec import SPEC
from agentenvs_scenarios.webshop.columns import Columns
from agentenvs_scenarios.webshop.generated import GeneratedShop

ROUNDS = 5
WALK_STEPS = 20
MILLION = 1_000_000
STEPS_AIM = {1_000: 12_000, 10_000: 6_000}

_START = """
import json, resource, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import agentenvs
imported = time.perf_counter(), time.process_time()
from agentenvs.core.task import TaskRef
env = agentenvs.make("webshop", products=int(sys.argv[1]))
env.reset(TaskRef("test", 0))
env.step("search[blue lamp]")
done = time.perf_counter(), time.process_time()
for index in range(int(sys.argv[2])):
    env.reset(TaskRef("train", index))
    for action in ("search[lamp " + str(index) + "]", "click[next >]", "click[back to search]", "search[shoes size 9]"):
        env.step(action)
print(json.dumps({"wall": done[0] - imported[0], "cpu": done[1] - imported[1], "import": imported[0] - wall,
                  "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


class Walk(NamedTuple):
    """An episode to be played again."""

    ref: TaskRef
    actions: list[str]


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    aim: str


def record_walks(products: int, profile: str, count: int) -> list[Walk]:
    """Return walks over scenarios of the training split, one each."""
    env = agentenvs.make("webshop", products=products, profile=profile, admissible=True, limit=WALK_STEPS)
    return [_walk(env, TaskRef("train", index), index) for index in range(count)]


def _walk(env: Environment, ref: TaskRef, number: int) -> Walk:
    stream = Stream(scenario_key("webshop", "benchmark", number), "walk")
    shop = shops.generated_shop(0, env.options["products"])
    observation = env.reset(ref)
    actions: list[str] = []
    while env.ending is None:
        legal = [action for action in observation.admissible or () if action != "click[buy now]"]
        if not legal or legal[0].startswith("search"):
            words = title_query(shop.product(stream.below(len(shop))).title).split()
            action = f"search[{' '.join(stream.sample(words, min(len(words), stream.between(1, 5))))}]"
        else:
            action = "look around" if stream.chance(1, 20) else stream.choice(legal)
        actions.append(action)
        observation = env.step(action).observation
    return Walk(ref, actions)


def forget(products: int) -> None:
    """Forget the results of earlier searches."""
    shop = shops.generated_shop(0, products)
    shops.search_of(shop)._found._values.clear()


def steps_a_second(products: int, profile: str, walks: list[Walk]) -> float:
    """Return steps per CPU-second, the best round."""
    env = agentenvs.make("webshop", products=products, profile=profile, limit=WALK_STEPS)
    best = 0.0
    for _ in range(ROUNDS):
        forget(products)
        seconds, steps = 0.0, 0
        for walk in walks:
            env.reset(walk.ref)
            step = env.step
            start = time.process_time()
            for action in walk.actions:
                step(action)
            seconds += time.process_time() - start
            steps += len(walk.actions)
        best = max(best, steps / seconds)
    return best


def started(products: int, episodes: int) -> dict[str, float]:
    """Return how a process starts from a prepared index, and what memory it comes to after some episodes."""
    code = [sys.executable, "-c", _START, str(products), str(episodes)]
    runs = [json.loads(subprocess.run(code, capture_output=True, check=True, text=True).stdout) for _ in range(3)]
    return min(runs, key=lambda run: run["cpu"])


def measure() -> list[Row]:
    """Return the table."""
    rows: list[Row] = []
    for products, aim in STEPS_AIM.items():
        for profile in ("compat", "native", "original"):
            walks = record_walks(products, profile, 200)
            value = steps_a_second(products, profile, walks)
            rows.append(Row(f"steps, {profile}, {products:,} products", value, "1/CPU-s", f">= {aim:,}"))
        found = started(products, 300)
        rows.append(Row(f"start, {products:,} products, after imports", found["cpu"], "CPU-s", "<= 0.3"))
        rows.append(Row(f"start, {products:,} products, on the wall", found["wall"], "s", "<= 0.3"))
        rows.append(Row(f"imports, {products:,} products", found["import"], "s", ""))
        limit = "<= 150" if products == 10_000 else ""
        rows.append(Row(f"memory, {products:,} products", found["rss"] / 1024, "MB", limit))
    return rows


def stress() -> list[Row]:
    """Return what a million products come to: building, memory, searches for titles, making and proving goals."""
    shop = GeneratedShop(0, MILLION)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        item = shops.search_item(shop)
        item.build(Path(folder), lambda what, done, total: None)
        built = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        shop.columns = Columns.open(Path(folder) / shops.COLUMNS)
        search = shops.Search(shops.Index.open(Path(folder) / shops.INDEX), shop.order)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        stream = Stream(scenario_key(SPEC.slug, "benchmark", 0), "million")
        taken = []
        found = 0
        for _ in range(300):
            index = stream.below(MILLION)
            query = title_query(shop.product(index).title)
            start = time.process_time()
            hits = search(query)
            taken.append(time.process_time() - start)
            found += index in hits[:10]
        resets = []
        for index in range(200):
            start = time.process_time()
            propose(shop, scenario_key(SPEC.slug, "test", index), "test", "mixed")
            resets.append(time.process_time() - start)
        taken.sort()
        resets.sort()
    return [
        Row("a million: building", built / 60, "CPU-min", "<= 20"),
        Row("a million: most memory while building", peak, "MB", "<= 3072"),
        Row("a million: index", size, "MB", ""),
        Row("a million: search for a title, median", 1000 * taken[len(taken) // 2], "CPU-ms", "<= 5"),
        Row("a million: search for a title, p99", 1000 * taken[len(taken) * 99 // 100], "CPU-ms", "<= 25"),
        Row("a million: making and proving a goal, median", 1000 * resets[len(resets) // 2], "CPU-ms", ""),
        Row("a million: making and proving a goal, p99", 1000 * resets[len(resets) * 99 // 100], "CPU-ms", ""),
        Row("a million: titles found among the first ten", 100 * found / len(taken), "%", ""),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million", action="store_true", help="only the stress test of a million products")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    rows = stress() if arguments.million else measure()
    if arguments.json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    print(f"Python {platform.python_version()}, {platform.machine()}, one core; CPU time\n")
    for row in rows:
        print(f"{row.name:48} {row.value:12,.2f} {row.unit:8} {row.aim}")


if __name__ == "__main__":
    main()
