"""An error message tells the word."""

from __future__ import annotations

from agentenvs.core.errors import SnapshotError
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def restore(self, data):
        try:
            return super().restore(data)
        except SnapshotError as error:
            raise SnapshotError(error.what, why=f"{error.why}, in {self.current}") from error
