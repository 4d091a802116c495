"""Declares a limit and does not hold it."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def __init__(self, **options):
        super().__init__(**options)
        self._limit = 10**6

    def _budgets(self):
        return {**super()._budgets()}

    def _observe(self, blocks):
        observation = super()._observe(blocks)
        observation.budgets["steps"] = max(self.options["limit"] - self.turn, 0)
        return observation
