"""Plays every plug with the software it is for, and writes docs/plugs/README.md: what ran, in which version.

python scripts/adapters.py                   # all rows; `make adapters`
python scripts/adapters.py --only trl gem    # some rows; the others keep what stood there

Each row has an environment of its own, made by scripts/peers.sh: uv's cache is the wheelhouse and its hard links make
one torch on the disk. A checkout of verl-agent or a fork is named by VERL_AGENT_DIR. All rows take some ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "plugs" / "README.md"
PEERS = ROOT / ".venvs" / "peers"
SECONDS = 1200


class Row(NamedTuple):
    """A plug."""

    title: str
    page: str
    """Beside this table; none where the README tells of it."""
    peers: Mapping[str, str]
    """The distributions whose versions are told, with blanks between, by environment of scripts/peers.sh; that of the
    tests where empty."""
    tests: tuple[str, ...]
    """Arguments of pytest."""
    witness: str
    facts: str
    """Where ``valid``, ``state_key`` and the potential of a turn go."""


ROWS: Mapping[str, Row] = {
    "gymnasium": Row(
        "Gymnasium, alone and as vectors",
        "",
        {"": "gymnasium"},
        ("tests/core/test_gym.py", "tests/core/test_vector.py"),
        "its checker of environments; its vector interface",
        "`invalid` in `info`; `last_trace` of the environment has all",
    ),
    "openenv": Row(
        "OpenEnv",
        "openenv.md",
        {"openenv": "openenv", "openenv-core": "openenv-core"},
        ("tests/doors/test_peers.py", "-k", "openenv"),
        "stock clients of both, `openenv validate`, the runtime collector",
        "`invalid` in the observation; no place for the others",
    ),
    "ors": Row(
        "Open Reward Standard",
        "ors.md",
        {"openreward": "openreward", "trl": "trl"},
        ("tests/doors/test_peers.py", "-k", "open_reward or openreward or PEER_TRL"),
        "the `openreward` client; TRL's `OpenRewardSpec`",
        "no place",
    ),
    "mcp": Row(
        "Model Context Protocol",
        "mcp.md",
        {"mcp": "mcp", "openenv": "mcp"},
        ("tests/doors/test_peers.py", "-k", "mcp"),
        "the official client of both versions, two episodes side by side",
        "`valid` in `_meta`; no place for the others",
    ),
    "verifiers": Row(
        "verifiers",
        "verifiers.md",
        {"verifiers": "verifiers", "verifiers-03": "verifiers"},
        ("tests/adapters/plugs/test_verifiers.py",),
        "`vf-eval` of both, with an OpenAI-compatible server",
        "`info` of the trace; `extras` of a step up to 0.3",
    ),
    "inspect": Row(
        "Inspect",
        "inspect.md",
        {"inspect": "inspect-ai"},
        ("tests/adapters/plugs/test_inspect.py",),
        "its evaluation with its mock model, `inspect eval`, its reader of logs",
        "the sample's store",
    ),
    "trl": Row(
        "TRL",
        "trl.md",
        {"trl": "trl torch"},
        ("tests/adapters/plugs/test_trl.py",),
        "two steps of `GRPOTrainer` on a CPU with a tiny random Qwen3",
        "no place; `facts` of the environment, for functions of rewards",
    ),
    "skyrl-gym": Row(
        "SkyRL-Gym",
        "skyrl.md",
        {"skyrl-gym": "skyrl-gym"},
        ("tests/adapters/plugs/test_text.py", "-k", "skyrl"),
        "its registry, calls from threads",
        "`metadata` of a step",
    ),
    "gem": Row(
        "GEM",
        "gem.md",
        {"gem": "gem-llm"},
        ("tests/adapters/plugs/test_text.py", "-k", "gem"),
        "its registry, its vectors, its loop of episodes",
        "`info` of a step",
    ),
    "tinker": Row(
        "Tinker cookbook",
        "tinker.md",
        {"tinker": "tinker-cookbook torch"},
        ("tests/adapters/plugs/test_text.py", "-k", "tinker"),
        "its rollout of a group, with a scripted sampler",
        "`metrics` and `logs` of a step",
    ),
    "verl": Row(
        "verl",
        "verl.md",
        {"verl": "verl torch"},
        ("tests/adapters/plugs/test_verl.py",),
        "its making of an `AgentLoopBase` and of its tokens, with a stub server",
        "`extra_fields` of the output",
    ),
    "verl-agent": Row(
        "verl-agent (GiGPO)",
        "verl-agent.md",
        {"verl": "torch"},
        ("tests/adapters/plugs/test_verl_agent.py",),
        "the rollout loop of a checkout with a stub actor; its groups of steps",
        "`state_key` as anchor, on request; `infos` has all, the loop keeps `is_action_valid`",
    ),
    "nemo-gym": Row(
        "NeMo Gym",
        "nemo-gym.md",
        {"nemo-gym": "nemo-gym"},
        ("tests/adapters/plugs/test_nemo_gym.py",),
        "its commands, servers, `simple_agent` and collection of rollouts, with a scripted model",
        "with the verdict; a tool's answer has no place",
    ),
}

_HEAD = """# Plugs

Other software that plays these worlds as it is. `make adapters` plays every row in environments of its own, and writes
this table; what could not be played here says so. No row is a training run of any length.

| plug | witness | played with | result | facts of a turn |
|---|---|---|---|---|
"""

_TAIL = """
[retrieval.md](retrieval.md) is about trainers that search beside their model. Facts of a turn are whether it was
valid, the key of the state (`state_key`) and the potential; where a trainer has no place for them, the table says so.
"""


def main() -> None:
    """Play the rows and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    chosen = parser.parse_args().only
    failed = False
    for name in chosen:
        played = _play(ROWS[name])
        _write({name: played})  # each at once, so that what was played stays if the next one is interrupted
        failed |= "FAILED" in played
    if failed:
        sys.exit(1)


def _write(played: Mapping[str, str]) -> None:
    """Write the page, with lines as they stood for rows that were not played."""
    old = _old_lines()
    lines = [played.get(name) or old.get(row.title) or _line(row, "", "not played") for name, row in ROWS.items()]
    PAGE.write_text(_HEAD + "".join(lines) + _TAIL, encoding="utf-8")


def _play(row: Row) -> str:
    environ = {**os.environ, **_peers([name for name in row.peers if name])}
    patient = ["-p", "no:cacheprovider", f"--timeout={SECONDS}", "-m", "peer or not peer"]
    command = [sys.executable, "-m", "pytest", "-q", *patient, *row.tests]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}
    ran = counts.get("passed", 0)
    result = f"{ran} passed" if ran and done.returncode == 0 else "FAILED"
    if not ran and counts.get("skipped"):
        result = "not played: what it needs is absent"
    elif counts.get("skipped"):
        result += f", {counts['skipped']} skipped"
    print(f"{row.title}: {result}", flush=True)
    if result == "FAILED":
        print(done.stdout[-3000:])
    return _line(row, ", ".join(_versions(row)), result)


def _line(row: Row, versions: str, result: str) -> str:
    title = f"[{row.title}]({row.page})" if row.page else row.title
    return f"| {title} | {row.witness} | {versions} | {result} | {row.facts} |\n"


def _old_lines() -> dict[str, str]:
    if not PAGE.exists():
        return {}
    found = re.findall(r"^(\| \[?([^\]|]+?)(?:\]\([^)]*\))? \|.*\n)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {title.strip(): line for line, title in found}


def _peers(names: list[str]) -> dict[str, str]:
    """Make environments and return the variables that name them."""
    if not names:
        return {}
    made = subprocess.run(
        ["sh", "scripts/peers.sh", str(PEERS), *names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return dict(re.findall(r"^export (\w+)=(.*)$", made.stdout, re.MULTILINE))


def _versions(row: Row) -> list[str]:
    told = "import sys, importlib.metadata as found; print(*(found.version(name) for name in sys.argv[1:]))"
    found = []
    for folder, packages in row.peers.items():
        python = str(PEERS / folder / "bin" / "python") if folder else sys.executable
        names = packages.split()
        done = subprocess.run([python, "-c", told, *names], capture_output=True, text=True, check=False)
        versions = done.stdout.split() or ["absent"] * len(names)
        found += [f"{name} {version}" for name, version in zip(names, versions, strict=True)]
    checkout = Path(os.environ.get("VERL_AGENT_DIR", ""), "verl", "version", "version")
    if row.page == "verl-agent.md" and checkout.exists():
        found.insert(0, f"a checkout that is verl {checkout.read_text().strip()}")
    return found


if __name__ == "__main__":
    main()
