"""How a player that has had enough says so."""

from __future__ import annotations

from agentenvs.core.verdict import Ending


class PolicyStop(Exception):
    """Raised by ``act``: the player's own rules end the episode here, which is no failure of anybody.

    Args:
        ending: ``truncated`` where a limit of the player's was reached, ``abandoned`` where its rules give up.
        reason: Why, one sentence.
    """

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending
        self.reason = reason
