"""Plays a run on a Ray cluster of two nodes on this machine, kills the one that plays it under load, and tells.

Run as ``ray_run.py FOLDER``; the slow policy below is named ``ray_run:Slow``, so its folder must be on the path.
"""

# ruff: noqa: T201 - the test reads what is printed

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent


class Slow:
    """Looks, slowly, so that a node can be killed in the middle of an episode."""

    def reset(self, spec: object, task: object) -> None:
        pass

    def act(self, observation: object) -> str:
        time.sleep(0.15)
        return "look"


def main(folder: Path) -> None:
    from ray.cluster_utils import Cluster

    from agentenvs.harness.run import RunConfig, evaluate

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    killed: list[int] = []

    def kill(done: int, planned: int, won: int) -> None:
        if done >= 4 and not killed:
            killed.append(done)
            threading.Thread(target=cluster.remove_node, args=(second, False)).start()

    config = RunConfig(
        "household",
        "ray_run:Slow",
        split="dev",
        episodes=12,
        concurrency=3,
        options={"limit": 8},
        out=folder,
        backend="ray",
        address=cluster.address,
    )
    result = evaluate(config, kill)
    nodes = {"killed_after": killed, "episodes": [asdict(one) for one in result.episodes], "summary": result.summary}
    print(json.dumps({**nodes, "complete": result.complete}))
    cluster.shutdown()


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(HERE))
    main(Path(sys.argv[1]))
