"""Pays for being there."""

from __future__ import annotations

from dataclasses import replace

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    @classmethod
    def rejudge(cls, scenario, facts, ending):
        verdict = super().rejudge(scenario, facts, ending)
        return verdict if verdict.success else replace(verdict, reward=0.1)
