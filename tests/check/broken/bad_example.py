"""A tool's example does not fit its schema."""

from __future__ import annotations

from dataclasses import replace

from tests.check.broken.sound import OPEN, Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", tools=(replace(OPEN, examples=({"box": "one"},)),))
