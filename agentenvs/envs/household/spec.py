"""What the household says of itself; data only, so that listing it loads no rules."""

from __future__ import annotations

from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec
from agentenvs.envs.household.actions import TOOLS
from agentenvs_scenarios.household.ladder import DIFFICULTIES, MIXED

_PLAYERS = "agentenvs.envs.household.players"

SPEC = EnvSpec(
    id="agentenvs/Household-v0",
    slug="household",
    release="0",
    since="0.1.0",
    entry_point="agentenvs.envs.household.env:HouseholdEnv",
    title="Household",
    description=(
        "A text household in the ALFWorld tradition: find, carry, clean, heat, cool, light and place things in a "
        "furnished room. Rooms are generated without end, or read from real game files (option data)."
    ),
    accepts=("text", "tool"),
    tools=TOOLS,
    splits=(
        SplitSpec("train", None, "generated rooms without end; every whole number is a seed"),
        SplitSpec("dev", 200, "generated rooms to choose and tune on"),
        SplitSpec("test", 500, "generated rooms to report on, each once"),
        SplitSpec("sealed", 500, "generated rooms that only the holder of a secret can make", sealed=True),
        SplitSpec("builtin", 12, "hand-made rooms, two of each task type"),
    ),
    default_split="train",
    eval_split="dev",
    budgets={"steps": 50},
    options=(
        OptionSpec(
            "profile",
            "str",
            "compat",
            "rules: the original with its defects, the same words with holes closed, or mended",
            choices=("original", "compat", "native"),
        ),
        OptionSpec(
            "text",
            "str",
            "auto",
            "words of the data release: 0.3 (put X in/on Y), 0.4 (move X to Y), or what the scenario says",
            choices=("auto", "0.3", "0.4"),
        ),
        OptionSpec(
            "difficulty",
            "str",
            MIXED,
            "rung of the ladder that generated rooms are made for, or one drawn for each",
            choices=DIFFICULTIES,
        ),
        OptionSpec("limit", "int", 50, "steps after which an episode is truncated; 0 is no limit", minimum=0),
        OptionSpec("admissible", "bool", False, "list the admissible commands with each observation"),
        OptionSpec("aliases", "bool", False, "take put X in/on Y and move X to Y in both texts"),
        OptionSpec("shaping", "bool", False, "pay the potential difference of the distance to the goal each step"),
        OptionSpec(
            "data", "str", None, "folder json_2.1.1 of real games, or its parent ($ALFWORLD_DATA if set)", secret=True
        ),
    ),
    max_observation_bytes=16_384,
    gamma=1.0,
    players={
        "oracle": f"{_PLAYERS}:oracle",
        "expert": f"{_PLAYERS}:expert",
        "prior": f"{_PLAYERS}:prior",
        "random": f"{_PLAYERS}:random",
        "noop": f"{_PLAYERS}:noop",
    },
)
