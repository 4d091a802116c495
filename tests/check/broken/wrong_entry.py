"""The spec leads to another class."""

from __future__ import annotations

from tests.check.broken.sound import SPEC, Boxes


class Broken(Boxes):
    spec = SPEC
