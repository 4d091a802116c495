"""The discount is no discount."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", gamma=2.0)
