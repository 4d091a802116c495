"""What the web shop says of itself; data only, so that listing it loads no rules."""

from __future__ import annotations

from agentenvs.core.prepared import OPTION as PREPARED
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec
from agentenvs.envs.webshop.actions import TOOLS

_PLAYERS = "agentenvs.envs.webshop.players"

SPEC = EnvSpec(
    id="agentenvs/WebShop-v0",
    slug="webshop",
    release="0",
    since="0.1.0",
    entry_point="agentenvs.envs.webshop.env:WebShopEnv",
    title="Web shop",
    description=(
        "A shop in the WebShop tradition: search, browse, choose options and buy what a sentence asks for. Products "
        "and goals are generated without end, or read from the field's real files (option data)."
    ),
    accepts=("text", "tool"),
    tools=TOOLS,
    splits=(
        SplitSpec("train", None, "generated goals without end; every whole number is a seed"),
        SplitSpec("dev", 200, "generated goals to choose and tune on"),
        SplitSpec("test", 500, "generated goals to report on, each once"),
        SplitSpec("sealed", 500, "generated goals that only the holder of a secret can make", sealed=True),
    ),
    default_split="train",
    eval_split="dev",
    budgets={"steps": 20},
    options=(
        OptionSpec(
            "profile",
            "str",
            "compat",
            "rules: the original with its defects, the same words with holes closed, or mended",
            choices=("original", "compat", "native"),
        ),
        OptionSpec(
            "observation",
            "str",
            "text",
            "words of the pages in original and compat: joined by [SEP], or lines with marked buttons",
            choices=("text", "text_rich"),
        ),
        OptionSpec(
            "difficulty",
            "str",
            "mixed",
            "rung of the ladder that generated goals are made for, or one drawn for each",
            choices=("mixed", "constraints", "synonyms", "comparisons", "baskets"),
        ),
        OptionSpec("products", "int", 10_000, "products of the generated shop", minimum=1_000),
        OptionSpec("shop", "int", 0, "seed of the generated shop", minimum=0),
        OptionSpec("limit", "int", 20, "steps after which an episode is truncated; 0 is no limit", minimum=0),
        OptionSpec("admissible", "bool", False, "list what can be clicked, and a search, with each observation"),
        OptionSpec("attributes_page", "bool", False, "give products a page of their attributes and hidden labels"),
        OptionSpec("rows", "int", None, "read so many products of the loaded data; all where not given", minimum=1),
        OptionSpec("data", "str", None, "folder of the field's real files ($WEBSHOP_DATA if set)", secret=True),
        PREPARED,
    ),
    max_observation_bytes=65_536,
    gamma=1.0,
    players={
        "oracle": f"{_PLAYERS}:oracle",
        "shopper": f"{_PLAYERS}:shopper",
        "first": f"{_PLAYERS}:first",
        "first-options": f"{_PLAYERS}:first_options",
        "random": f"{_PLAYERS}:random",
        "noop": f"{_PLAYERS}:noop",
    },
)
