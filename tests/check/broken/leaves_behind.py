"""Keeps a list outside its world that only grows."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of

_KEPT: list[bytes] = []


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        _KEPT.append(b"x" * 6 * 2**20)
        if len(_KEPT) > 400:  # a test must not fill a machine
            _KEPT.clear()
        return super()._begin(scenario)
