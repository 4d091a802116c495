"""Words that the original's search takes for commands: some list products by hidden labels, one draws, one crashes.

Only ``original`` has them; everywhere else they are words.
"""

from __future__ import annotations

from agentenvs.core.streams import Stream
from agentenvs.envs.webshop.rules import MOST_RESULTS
from agentenvs_scenarios.webshop.model import Shop

RANDOM = "<r>"
ATTRIBUTE = "<a>"
CATEGORY = "<c>"
QUERY = "<q>"


def crashes(query: str) -> bool:
    """Return whether the original would fail at a query; here the turn is invalid."""
    words = query.split(" ")
    return words[0] == ATTRIBUTE or (words[0] == CATEGORY and len(words) < 2)


def hidden_results(shop: Shop, query: str, drawn: Stream) -> tuple[int, ...] | None:
    """Return what a command finds; None where the query is words.

    Args:
        shop: The shop.
        query: The query, in lower case.
        drawn: Where chance comes from, which the original has without a seed.
    """
    words = query.split(" ")
    if words[0] == RANDOM:
        return tuple(drawn.sample(range(len(shop)), min(MOST_RESULTS, len(shop))))
    if words[0] == CATEGORY:
        return tuple(at for at in range(len(shop)) if shop.product(at).category == words[1].strip())
    if words[0] == QUERY:
        wanted = " ".join(words[1:]).strip()
        return tuple(at for at in range(len(shop)) if shop.product(at).query == wanted)
    return None
