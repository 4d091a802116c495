"""Episode records that every later version must be able to replay, or name the version that can.

    python tests/records/make.py    # write the records of each environment's present release

A file is ``<slug>-<release>-<what>.jsonl``. Records of earlier releases are never touched: a change that makes a record
diverge needs a new release in the spec, and then new files beside the old ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

sys.path[:0] = [str(ROOT / room) for room in (".", "servers", "scenarios", "scoring")]

from agentenvs.core import registry  # noqa: E402 - the folders above come first where nothing is installed
from agentenvs.core.record import Recorded  # noqa: E402
from agentenvs.core.task import TaskRef  # noqa: E402
from agentenvs.harness.policies import resolve  # noqa: E402
from agentenvs.harness.rollout import play  # noqa: E402
from tests.envs.fixtures import register_fixtures  # noqa: E402

SLUGS = ("household", "searchworld", "webshop", "ledger", "slow_tool", "clerk")
SPLITS = {"household": {"builtin": "", "train": "generated-"}}
"""Split -> prefix in file names, where it is not the default split alone."""

_JUNK: list[Any] = ["", "look\nlook", {"tool": 7}, {"no": "action"}, [], {"message": None}]

WALKS: dict[str, list[Any]] = {
    "household": [
        *_JUNK,
        "look",
        "go to countertop 1",
        {"tool": "go_to", "arguments": {"receptacle": "fridge 1"}},
        "open fridge 1",
        "inventory",
        "go to drawer 1",
        "open drawer 1",
        "take nothing 1 from drawer 1",
    ],
    "searchworld": [
        *_JUNK,
        "search: who was born in the year 400",
        {"tool": "search", "arguments": {"query": "laurels and banners", "k": 2}},
        "<think>Hm.</think><search>the purse of somebody</search>",
        "read: no such article",
        "answer: Nobody; Somebody",
    ],
    "webshop": [
        *_JUNK,
        "search[desk lamp]",
        "click[next >]",
        {"tool": "click", "arguments": {"label": "< prev"}},
        "click[back to search]",
        {"tool": "search", "arguments": {"query": "<q> table lamp"}},
        {"tool": "buy", "arguments": {}},
        "click[nothing there]",
    ],
    "ledger": [
        *_JUNK,
        [{"tool": "next_invoice"}, {"tool": "balance", "arguments": {"account": "1000"}}],
        {"tool": "post", "arguments": {"invoice": 0, "debit": "1000", "credit": "1010", "cents": 5}},
        [{"tool": "balance", "arguments": {"account": "1000"}}] * 9,
        [{"tool": "fly"}, {"tool": "amend", "arguments": {"entry": 6, "note": "Zürich"}}],
        {"tool": "close_books"},
    ],
    "slow_tool": [
        *_JUNK,
        {"tool": "add", "arguments": {"count": 1}},
        {"tool": "crash"},
        {"tool": "explode"},
        {"tool": "talk"},
        {"tool": "nap", "arguments": {"milliseconds": 5_000}},
        {"tool": "add", "arguments": {"count": 1}},
        *[{"tool": "crash"}] * 3,
    ],
    "clerk": [*_JUNK, {"message": "Hm."}, {"message": "Which order?"}, {"message": "Hm."}, {"message": "Hm."}],
}


def records() -> Iterator[tuple[str, bytes]]:
    """Yield the records of the present releases, by file name."""
    register_fixtures()
    for slug in SLUGS:
        spec = registry.spec(slug)
        env = registry.make(slug)
        for split, prefix in SPLITS.get(slug, {spec.default_split: ""}).items():
            stem = f"{slug}-{spec.release}-{prefix}"
            yield f"{stem}oracle.jsonl", play(env, resolve("oracle", spec)(), TaskRef(split, 3)).record
            recorded = Recorded(env)
            recorded.reset(TaskRef(split, 4))
            for action in WALKS[slug]:
                recorded.step(action)
            recorded.finish("abandoned")
            yield f"{stem}walk.jsonl", recorded.to_bytes()
        env.close()


if __name__ == "__main__":
    for name, data in records():
        (HERE / name).write_bytes(data)
