"""GEM's registry makes the plug, alone and as its vectors; its own loop plays it."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import json
import sys

import gem
from gem.core import Env
from gem.utils.debug import run_and_print_episode

from agentenvs.adapters.plugs.gem import WorldEnv, register

ENV, SPLIT, URL, LINES = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

name = register(ENV, split=SPLIT, url=URL)
assert register(ENV) == name
assert issubclass(WorldEnv, Env)

env = gem.make(name)
first, info = env.reset(seed=0)
assert env.reset(seed=0)[0] == first
assert ENV != "household" or env.reset(seed=1)[0] != first
env.reset(seed=0)
done, total, turn = False, 0.0, 0
while not done:
    shown, reward, terminated, truncated, told = env.step(LINES[min(turn, len(LINES) - 1)])
    done, total, turn = terminated or truncated, total + reward, turn + 1
assert {"valid", "state_key", "potential"} <= told.keys()
print("alone", total, told["outcome"])

run_and_print_episode(env.spawn(), lambda _: env.sample_random_action(), max_steps=3)
for asynchronous in (False, True):
    vector = gem.make_vec([name] * 3, async_mode=asynchronous, vec_kwargs=[{"seed": 4}] * 3)
    shown, _ = vector.reset(seed=7)
    answer = vector.step([LINES[0]] * 3)
    assert len(answer[0]) == 3
print("played", gem.__name__)
