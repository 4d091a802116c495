"""Shows a budget nobody declared."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _budgets(self):
        return {**super()._budgets(), "coins": 5}
