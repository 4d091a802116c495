"""Takes an index beyond the end of a split for one within it."""

from __future__ import annotations

from agentenvs.core.task import TaskRef
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def check_ref(self, ref):
        super().check_ref(TaskRef(ref.split, ref.index % 4) if ref.split == "test" else ref)
