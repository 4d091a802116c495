"""Nonsense gives a try back."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _no(self):
        self.world["tries"] += 1
        return super()._no()

    def _key(self) -> str:
        return f"{sorted(self.world['open'])} {self.world['said']}"
