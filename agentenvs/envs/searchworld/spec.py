"""What the search worlds say of themselves; data only, so that listing them loads no rules."""

from __future__ import annotations

from agentenvs.core.prepared import OPTION as PREPARED
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec
from agentenvs.envs.searchworld.actions import TOOLS

_PLAYERS = "agentenvs.envs.searchworld.players"

SPEC = EnvSpec(
    id="agentenvs/SearchWorld-v0",
    slug="searchworld",
    release="0",
    since="0.1.0",
    entry_point="agentenvs.envs.searchworld.env:SearchWorldEnv",
    title="Search worlds",
    description=(
        "Questions over a collection of articles that take several searches. The articles are of invented universes "
        "that share no fact with ours, generated without end, or of a real corpus (option data)."
    ),
    accepts=("text", "tool"),
    tools=TOOLS,
    splits=(
        SplitSpec("train", None, "generated universes without end, 300 questions each; every whole number is a seed"),
        SplitSpec("dev", 300, "generated universes to choose and tune on"),
        SplitSpec("test", 600, "generated universes to report on, each question once"),
        SplitSpec("sealed", 600, "generated universes that only the holder of a secret can make", sealed=True),
    ),
    default_split="train",
    eval_split="dev",
    budgets={"steps": 64, "searches": 32},
    options=(
        OptionSpec("people", "str", "5000", "people of a universe", choices=("500", "5000", "50000")),
        OptionSpec(
            "difficulty",
            "str",
            "mixed",
            "rung of the ladder that questions are made for, or dealt over all but the easiest",
            choices=("mixed", "easiest", "easy", "medium", "hard", "hardest"),
        ),
        OptionSpec(
            "dialect",
            "str",
            "plain",
            "how the task is put: plain, or tags for <search> and <answer>; actions are understood in both",
            choices=("plain", "tags"),
        ),
        OptionSpec(
            "reward", "str", "exact", "1 for exactly the right set of answers, or its F1", choices=("exact", "f1")
        ),
        OptionSpec("evidence", "bool", False, "pay nothing unless every article the answer rests on was opened"),
        OptionSpec("results", "int", 3, "articles that a search in tags brings back whole, at most 10", minimum=1),
        OptionSpec("noise", "int", 0, "percent of what a search would find that it misses", minimum=0),
        OptionSpec("searches", "int", 32, "searches of an episode", minimum=0),
        OptionSpec("limit", "int", 64, "steps after which an episode is truncated; 0 is no limit", minimum=0),
        OptionSpec(
            "engine",
            "str",
            "bm25",
            "what searches a corpus (option data): the own engine, or SQLite's, slower and in less memory",
            choices=("bm25", "fts5"),
        ),
        OptionSpec("data", "str", None, "folder of a corpus with questions, or of several such folders", secret=True),
        PREPARED,
    ),
    max_observation_bytes=16_384,
    players={
        "oracle": f"{_PLAYERS}:oracle",
        "expert": f"{_PLAYERS}:expert",
        "one_query": f"{_PLAYERS}:one_query",
        "two_query": f"{_PLAYERS}:two_query",
        "frequent": f"{_PLAYERS}:frequent",
        "random": f"{_PLAYERS}:random",
        "noop": f"{_PLAYERS}:noop",
    },
)
