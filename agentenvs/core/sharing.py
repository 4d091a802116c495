"""What an environment shares between episodes: things made once, opened once, and searched by anybody.

Hooks with defaults that fit an environment whose episodes share nothing; :class:`~agentenvs.core.environment
.Environment` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenvs.core.library import Library
    from agentenvs.core.prepared import Item
    from agentenvs.core.task import TaskRef


class Sharing:
    """The hooks."""

    @classmethod
    def preparations(cls, options: Mapping[str, Any], splits: Sequence[str]) -> Iterable[Item]:
        """Return what ``agentenvs prepare`` makes ahead; nothing where episodes need nothing.

        Args:
            options: Every option with its value.
            splits: The splits it is made for; where empty, those whose number of scenarios is finite.
        """
        return ()

    def describe(self, ref: TaskRef) -> str:
        """Return a scenario in words, answer and all, for authors and auditors; empty where there are none.

        Args:
            ref: Its address.

        Raises:
            SplitError: No such scenario.
        """
        return ""

    def warm(self) -> None:
        """Open what all episodes share, so that the first is as fast as any. A server is not ready before."""

    def libraries(self) -> tuple[str, ...]:
        """Return the names of the document collections that may be searched without an episode."""
        return ()

    def library(self, name: str) -> Library | None:
        """Return the collection of a name; None where there is none."""
        return None
