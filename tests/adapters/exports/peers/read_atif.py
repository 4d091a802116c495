"""Run by a Python that has harbor: holds documents against Harbor's models with its validator.

python read_atif.py FOLDER -> JSON: a list with a row for each document
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator


def told(path: Path) -> dict[str, Any]:
    validator = TrajectoryValidator()
    if not validator.validate(path):
        return {"errors": validator.errors}
    read = Trajectory.model_validate_json(path.read_text())
    assert read.to_json_dict(exclude_none=False)["steps"][-1]["step_id"] == len(read.steps)
    return {
        "errors": [],
        "steps": [[step.source, step.message] for step in read.steps],
        "calls": [[call.function_name, call.arguments] for step in read.steps for call in step.tool_calls or []],
        "tokens": read.final_metrics.total_prompt_tokens,
        "cost": read.final_metrics.total_cost_usd,
        "ending": read.extra["state"]["ending"],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([told(path) for path in sorted(Path(sys.argv[1]).rglob("*.json"))]))
