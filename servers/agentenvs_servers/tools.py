"""What the sessions of a server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentenvs_servers.journal.rows import lookup
from agentenvs_servers.metering import Metrics
from agentenvs_servers.names import Names
from agentenvs_servers.settings import Settings
from agentenvs_servers.worlds import Caller

if TYPE_CHECKING:
    from agentenvs_servers.sessions import Session


class Tools:
    """What the sessions of a server share.

    Args:
        settings: The limits.
        caller: Calls environments.
        clock: Seconds that never go back.
        metrics: Where is counted.
    """

    def __init__(self, settings: Settings, caller: Caller, clock: Callable[[], float], metrics: Metrics) -> None:
        self.settings = settings
        self.caller = caller
        self.names = Names()
        self.clock = clock
        self.metrics = metrics
        self.agents: dict[bytes, tuple[Session, str]] = {}
        """Session and episode of each agent key, by digest."""
        self.kept_bytes = 0
        """What records and past sessions take."""
        self.make_room: Callable[[], None] = lambda: None
        """Forgets closed sessions, the oldest first, as far as is needed."""

    @property
    def is_full(self) -> bool:
        """Whether more is kept than may be."""
        return self.kept_bytes > self.settings.retained_bytes

    def make_names(self) -> tuple[str, str]:
        """Return a new episode id and agent key."""
        return self.names.episode(), self.names.agent()

    def register_agent(self, key: str, session: Session, episode: str) -> None:
        """Let the holder of a key play an episode."""
        digest = lookup(key)
        self.agents[digest] = (session, episode)
        session.agents.append(digest)
        if len(session.agents) > self.settings.kept_episodes:
            self.agents.pop(session.agents.pop(0), None)
