"""SkyRL-Gym's registry makes the plug, and it is played as SkyRL's generator plays one."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv

from agentenvs.adapters.plugs.skyrl import ID, TextEnv, register, rows

ENV, SPLIT, URL, LINES = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

register()
register()
assert issubclass(TextEnv, BaseTextEnv)


def play(row, max_turns=60):
    extras = {**row["extra"], "max_turns": max_turns}
    env = skyrl_gym.make(row["env_class"], env_config={}, extras=extras)
    chat, info = env.init(row["prompt"])
    first, facts, total = chat[-1]["content"], [], 0.0
    done, turn = False, 0
    while not done:
        output = env.step(LINES[min(turn, len(LINES) - 1)])
        chat += output["observations"]
        total, done, turn = total + output["reward"], output["done"], turn + 1
        facts.append(output["metadata"])
    metrics = env.get_metrics()
    env.close()
    return first, info["state_key"], facts, total, metrics


table = rows(ENV, SPLIT, 0, 2, url=URL)
with ThreadPoolExecutor(4) as pool:
    made = list(pool.map(play, [table[0], table[0], table[1], table[1]]))
assert made[0] == made[1]
assert made[2] == made[3]
assert ENV != "household" or made[0][0] != made[2][0]
first, key, facts, total, metrics = made[0]
assert URL or facts[0]["state_before"] == key
assert {"valid", "state_key", "potential"} <= facts[-1].keys()
assert play(table[0], 2)[3] == 0.0, "max_turns cuts an episode"
print("means", TextEnv.aggregate_metrics([one[4] for one in made]))
print("played", ID, [one[3] for one in made], skyrl_gym.__name__)
