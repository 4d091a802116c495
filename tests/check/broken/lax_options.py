"""Takes options it does not have."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def __init__(self, **options):
        known = {option.name for option in self.spec.options}
        super().__init__(**{name: value for name, value in options.items() if name in known})
