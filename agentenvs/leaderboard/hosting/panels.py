"""Which sealed scenarios a ticket gives out, and in what order.

All contestants of a board are given the same shared panel, so that they are compared scenario by scenario; each in an
order of its own, so that none can tell another what comes next. A ticket may have a panel of its own besides: who has
learned the shared panel by heart does worse there. Both follow from the secret and the ticket's public name, so that
everybody can see afterwards that nothing was chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

from agentenvs.core.canon import digest
from agentenvs.core.errors import ConfigError
from agentenvs.core.streams import Stream, derive

Panel = Literal["shared", "own"]

SHARED: Final[Panel] = "shared"
OWN: Final[Panel] = "own"


def name_of(board: str, secret: str, contestant: str, attempt: int) -> str:
    """Return the public name of a ticket: it follows from whose it is, so that nobody can draw for a better order.

    Args:
        board: Id of the board.
        secret: Name of the operator's secret.
        contestant: Whose ticket it is.
        attempt: Which of the contestant's.
    """
    return f"tk-{digest([board, secret, contestant, attempt])[:24]}"


def order(secret: bytes, ticket: str, shared: int, own: int, size: int) -> tuple[int, ...]:
    """Return the indices of a ticket's scenarios, in the order in which they are given out.

    Args:
        secret: The operator's.
        ticket: Public name of the ticket.
        shared: How many scenarios all contestants have in common: those of the lowest indices.
        own: How many more the ticket has for itself.
        size: Of the sealed split.

    Raises:
        ConfigError: The split does not hold so many.
    """
    if shared < 0 or own < 0 or shared + own < 1:
        raise ConfigError("a ticket without scenarios is none", fix="give one or more")
    if shared + own > size:
        raise ConfigError(
            f"the sealed split holds {size} scenarios, not {shared} and {own} more",
            fix="give fewer --episodes or --own",
        )
    stream = Stream(derive(hashlib.sha256(secret).digest(), "ticket"), ticket)
    numbers = [*range(shared), *stream.sample(range(shared, size), own)]
    stream.shuffle(numbers)
    return tuple(numbers)


def place_of(number: int, numbers: Sequence[int], shared: int) -> tuple[Panel, int]:
    """Return the panel of a scenario of a ticket, and its place in it; in the shared one the same for everybody."""
    if number < shared:
        return SHARED, number
    return OWN, sum(shared <= other < number for other in numbers)
