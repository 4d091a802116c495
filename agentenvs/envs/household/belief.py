"""What a player can know of a household from what it reads: text in, knowledge out, nothing else.

It reads both text versions, told apart by the first reply to ``go to``. In both, ``go to`` a receptacle at the player's
own place is answered ``Nothing happens.``; that, or its absence from the admissible commands, tells that two
receptacles stand together.
"""

from __future__ import annotations

import re
from typing import Final

from agentenvs_scenarios.household.sentences import Meaning, read

NOTHING: Final = "Nothing happens."

_NAME = r"[a-z][a-z0-9_]* [0-9]+"
_LISTED: Final = re.compile(rf"\ba ({_NAME})")
_ROOM: Final = re.compile(r"Looking quickly around you, you see (.*)\.\s")
_TASK: Final = re.compile(r"Your task is to: (.*)")
_SURFACE: Final = re.compile(rf"On the ({_NAME}), you see (.*)\.$")
_OPEN: Final = re.compile(rf"The ({_NAME}) is open\. In it, you see (.*)\.$")
_CLOSED: Final = re.compile(rf"The ({_NAME}) is closed\.$")
_PLACED: Final = re.compile(rf"(?:put|move) ({_NAME}) (?:in/on|to) ({_NAME})")
_TREATED: Final = re.compile(rf"(clean|heat|cool) ({_NAME}) with ({_NAME})")
_TAKEN: Final = re.compile(rf"take ({_NAME}) from ({_NAME})")


def class_of(name: str) -> str:
    """Return the class in a name: ``mug`` of ``mug 1``."""
    return name.partition(" ")[0]


class Belief:
    """Knowledge of one episode.

    Args:
        opening: The first observation, with or without its banner.

    Attributes:
        receptacles: Names, in the order of the room sentence.
        meaning: What the task sentence asks; None where it follows no template.
        here: A receptacle at the player's place; None while none is known.
        held: The object in the hand, or None.
        contents: Receptacle -> objects last seen in or on it; those never looked into have no entry.
        closed: Receptacles known to be closed.
        treated: Object -> the last thing done to it: ``clean``, ``heat`` or ``cool``.
        version: Text version, once known.
        refused: Commands that were answered ``Nothing happens.``.
    """

    def __init__(self, opening: str) -> None:
        room, task = _ROOM.search(opening), _TASK.search(opening)
        self.receptacles: tuple[str, ...] = tuple(_LISTED.findall(room[1])) if room else ()
        self.meaning: Meaning | None = read(task[1].strip()) if task else None
        self.here: str | None = None
        self.held: str | None = None
        self.contents: dict[str, tuple[str, ...]] = {}
        self.closed: set[str] = set()
        self.treated: dict[str, str] = {}
        self.version: str | None = None
        self.refused: set[str] = set()
        self._together: dict[str, frozenset[str]] = {}

    def update(self, command: str, reply: str, admissible: tuple[str, ...] | None = None) -> None:
        """Take in the reply to a command.

        Args:
            command: What was said.
            reply: What was read.
            admissible: The commands that can be done now, where they are listed.
        """
        if reply == NOTHING:
            self._refuse(command)
        else:
            self._believe(command, reply)
        if admissible is not None and self.here is not None:
            offered = frozenset(admissible)
            self._stand_together([name for name in self.receptacles if f"go to {name}" not in offered])

    def is_here(self, receptacle: str) -> bool:
        """Return whether a receptacle is known to be at the player's place."""
        return self.here is not None and receptacle in self._together.get(self.here, (self.here,))

    def around(self) -> list[str]:
        """Return the receptacles known to be at the player's place, in the order of the room sentence."""
        return [name for name in self.receptacles if self.is_here(name)]

    def find(self, cls: str) -> list[tuple[str, str]]:
        """Return where objects of a class were last seen: ``(object, receptacle)``."""
        return [
            (thing, receptacle)
            for receptacle in self.receptacles
            for thing in self.contents.get(receptacle, ())
            if class_of(thing) == cls
        ]

    def _refuse(self, command: str) -> None:
        self.refused.add(command)
        verb, _, rest = command.partition(" ")
        if verb == "go":
            receptacle = rest.removeprefix("to ")
            self.here = self.here or receptacle
            self._stand_together([self.here, receptacle])
        elif taken := _TAKEN.fullmatch(command):
            thing, receptacle = taken.groups()
            self.contents[receptacle] = tuple(item for item in self.contents.get(receptacle, ()) if item != thing)

    def _stand_together(self, receptacles: list[str]) -> None:
        group = frozenset(receptacles).union(*(self._together.get(name, ()) for name in receptacles))
        for name in group:
            self._together[name] = group

    def _believe(self, command: str, reply: str) -> None:
        verb, _, rest = command.partition(" ")
        if verb == "go":
            self.here = rest.removeprefix("to ")
            self.version = "0.3" if reply.startswith("You arrive at loc ") else "0.4"
        elif taken := _TAKEN.fullmatch(command):
            self.held = taken[1]
            for receptacle, things in self.contents.items():
                self.contents[receptacle] = tuple(item for item in things if item != self.held)
        elif placed := _PLACED.fullmatch(command):
            self.held = None
            self.contents[placed[2]] = (*self.contents.get(placed[2], ()), placed[1])
        elif treated := _TREATED.fullmatch(command):
            self.treated[treated[2]] = treated[1]
        elif verb == "close":
            self.closed.add(rest)
        self._see(reply)

    def _see(self, reply: str) -> None:
        """Take in the description of a receptacle at the end of a reply, where there is one."""
        if found := _SURFACE.search(reply) or _OPEN.search(reply):
            self.contents[found[1]] = tuple(_LISTED.findall(found[2]))
            self.closed.discard(found[1])
        elif found := _CLOSED.search(reply):
            self.closed.add(found[1])
