"""One address gives two scenarios."""

from __future__ import annotations

from itertools import count

from tests.check.broken.sound import Boxes, Room, spec_of

_NUMBERS = count()


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def scenario(self, split, index):
        room = super().scenario(split, index)
        return Room(f"{room.name} #{next(_NUMBERS)}", room.boxes, room.treasure, room.word)
