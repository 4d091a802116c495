"""Reads tasks, tools and rewards through TRL's ``OpenRewardSpec``, and plays rollouts as its trainer would."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import inspect
import os
import sys

from trl.experimental.openreward import OpenRewardSpec

URL = sys.argv[1]
os.environ["OPENREWARD_SESSION_URL"] = os.environ["OPENREWARD_API_URL"] = URL  # else it puts names before the host

spec = OpenRewardSpec(URL, split="dev", num_tasks=2)
rows = spec.train_dataset
assert rows["task_index"] == [0, 1], rows
assert rows["split"] == ["dev", "dev"], rows
make = spec.environment_factory
environments = [make() for _ in range(4)]
firsts = [env.reset(**rows[number // 2]) for number, env in enumerate(environments)]
assert firsts[0] == firsts[1]
assert firsts[2] == firsts[3]
assert firsts[0] != firsts[2]
for env in environments:
    assert "receptacle" in inspect.signature(env.go_to).parameters
    assert "arrive" in str(env.go_to(receptacle="fridge 1")) or "Nothing" in str(env.go_to(receptacle="fridge 1"))
    assert "middle of a room" in str(env.look()) or "facing" in str(env.look())
rewards = spec.reward_funcs(environments)
assert rewards == [0.0] * 4, rewards
again = environments[0].reset(**rows[0])
assert again == firsts[0]
print("played")
