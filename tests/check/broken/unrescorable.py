"""The verdict knows more than its facts say."""

from __future__ import annotations

from dataclasses import replace

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _judge(self, ending):
        verdict = super()._judge(ending)
        return replace(verdict, components={"opened": float(len(self.world["open"]))})
