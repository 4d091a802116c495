"""A tool is called ``reset``; the spec's own check was got around."""

from __future__ import annotations

from dataclasses import replace

from tests.check.broken.sound import OPEN, Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")


object.__setattr__(Broken.spec, "tools", (OPEN, replace(OPEN, name="reset")))
