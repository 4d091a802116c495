"""OpenEnv's own checks of a server that runs: its validator, its runtime collector with the graders over it."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from openenv.validation.graders.runtime import basic
from openenv.validation.manifest import RewardDeclaration
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import RuntimePlan
from openenv.validation.types import CheckStatus

URL = sys.argv[1]
PLANS = {
    "": [{"text": "look"}, {"text": "nonsense"}, {"type": "call_tool", "tool_name": "look", "arguments": {}}],
    "/ledger": [
        {"type": "call_tool", "tool_name": "next_invoice", "arguments": {}},
        {"type": "call_tool", "tool_name": "fly", "arguments": {}},
        {"type": "call_tool", "tool_name": "close_books", "arguments": {}},
        {"type": "call_tool", "tool_name": "close_books", "arguments": {}},
    ],
    "/clerk": [{"text": "hello"}, {"text": "done", "end": True}],
}

for where, actions in PLANS.items():
    command = [str(Path(sys.executable).parent / "openenv"), "validate", "--url", URL + where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS ") == 6, done.stdout
    reset = {"seed": 7, "episode_id": "probe", "options": {}}
    plan = RuntimePlan.model_validate({"plan_schema_version": "1", "reset": reset, "actions": actions})
    evidence = collect_runtime_evidence(URL + where, plan, episode_timeout_s=60)
    assert evidence.failure_reason is None, evidence
    reward = RewardDeclaration(range=(0.0, 1.0), floor_margin=0.5)
    subject = SimpleNamespace(runtime_evidence=evidence, manifest=SimpleNamespace(reward=reward))
    for grader in (basic.RewardWellFormedGrader(), basic.ObservationSchemaGrader(), basic.StateContractGrader()):
        result = grader.run(subject)
        assert result.status is CheckStatus.PASS, (where, result)
print("checked")
