"""The oracle says another word."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, Oracle, spec_of


class Weak(Oracle):
    def reveal(self, scenario) -> None:
        self._script = iter([f"open {scenario.treasure}", "say nothing"])


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", players={"oracle": f"{__name__}:Weak"})
