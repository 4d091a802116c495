"""Keeps the collector of cyclic garbage from stopping a server that holds many worlds.

A full collection walks over every object there is: a quarter of a second with two thousand sessions, during which
nobody is answered. What survives one is therefore set aside (`gc.freeze`), and the next looks only at what came since.
Worlds seldom hold cycles, so counting references frees most of what was set aside when its session ends; for the rest,
all is looked at again once twice as much is set aside as was alive after the last full look.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

OLDEST = 2

SLACK = 1_000_000
"""Objects that may be added before all is looked at again: a hundred megabytes, if all of it were garbage."""


class Aside:
    """Sets aside what survives full collections; an entry of `gc.callbacks`."""

    def __init__(self) -> None:
        self._alive = 0
        self._aside = 0
        self._full = True
        self.looks = 0
        """Full collections that looked at everything."""

    def begin(self) -> None:
        """Set aside what is alive now, and from now on what survives."""
        gc.callbacks.append(self)
        gc.collect()

    def end(self) -> None:
        """Leave the collector as it was."""
        gc.callbacks.remove(self)
        gc.unfreeze()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Take what the collector tells."""
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._full |= self._doubled()
            if self._full:
                gc.unfreeze()
            return
        if self._full:
            self.looks += 1
        survived = len(gc.get_objects(OLDEST))
        gc.freeze()
        self._aside = survived if self._full else self._aside + survived
        self._alive = survived if self._full else self._alive
        self._full = False

    def _doubled(self) -> bool:
        most = 2 * self._alive + SLACK
        if self._aside <= most:
            return False
        self._aside = gc.get_freeze_count()  # walks over all of them, so it is asked only when the sum says so
        return self._aside > most
