"""The tiers: how much of a row is proved, and by what. The one place where they are named and explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TierName = Literal["self-reported", "replayed", "hosted", "attested"]


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier."""

    name: TierName
    level: int
    """Higher is better proved."""
    ranked: bool
    how: str
    """How a row gets it."""
    proves: str
    not_proved: str


TIERS: tuple[Tier, ...] = (
    Tier(
        "self-reported",
        0,
        False,
        "Somebody told the numbers; no record was played again. Figures of score cards, tokens and money are of this "
        "kind.",
        "Nothing.",
        "That the episodes were played at all.",
    ),
    Tier(
        "replayed",
        1,
        False,
        "The board played every record again in a clean process, from the scenario and the actions, and compared every "
        "digest, reward and verdict. The numbers shown are its own.",
        "These actions, in these scenarios, lead to this score under this scoring; no episode is missing or doubled.",
        "Who chose the actions. The scenarios are public: a player may have practised on them, tried many times and "
        "sent its best play, or be a person. The name of agent and model is what the contestant says.",
    ),
    Tier(
        "hosted",
        2,
        True,
        "The agent played on the board's own server, on sealed scenarios nobody else can make, each once; the server "
        "kept the records, and they were played again.",
        "All that replaying proves, and that the actions were chosen turn by turn, in scenarios that nobody could make "
        "without the operator's secret: one attempt each a ticket, an episode that was left counts 0.",
        "Which model chose the actions, and with what help: the agent ran elsewhere. That no contestant told another "
        "what was in the scenarios, and the operator nobody the secret.",
    ),
    Tier(
        "attested",
        3,
        True,
        "Hosted, and whoever ran the server signed a receipt over contestant, board and records with a key the board "
        "knows.",
        "All that hosting proves, to anybody who trusts that key, wherever the row is shown.",
        "Which model chose the actions: a signature says who ran the worlds, not who played them.",
    ),
)

BY_NAME: dict[str, Tier] = {tier.name: tier for tier in TIERS}
