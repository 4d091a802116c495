"""The verdict says another reward than was paid."""

from __future__ import annotations

from dataclasses import replace

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def finish(self, ending):
        verdict = super().finish(ending)
        return replace(verdict, reward=verdict.reward / 2)
