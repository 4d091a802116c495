"""A player that the spec names is not there."""

from __future__ import annotations

from tests.check.broken.sound import SPEC, Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", players={**SPEC.players, "expert": f"{__name__}:Expert"})
