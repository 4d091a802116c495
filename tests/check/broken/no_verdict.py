"""Nobody is judged whose episode was truncated."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _judge(self, ending):
        return None if ending == "truncated" else super()._judge(ending)
