"""The task tells the word."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _instruction(self) -> str:
        return f"Say the word, {self.current.word}."
