"""Shaping pays for coming nearer and takes nothing for going away."""

from dataclasses import replace

from agentenvs.api import Ended, Invalid, OptionSpec, Script, world

ROW = "shaping.telescopes"
_SHAPING = OptionSpec("shaping", "bool", False, "pay the difference of the potential")


class Corridor:
    """Walk to the end of the corridor."""

    def task(rng):
        return {"end": rng.between(4, 9)}

    def reset(self, task):
        self.end, self.at = task["end"], 0
        return f"The end is {self.end} steps away."

    def step(self, action):
        if action not in ("on", "back"):
            return Invalid("Go on, or back.")
        self.at = max(self.at + (1 if action == "on" else -1), 0)
        return Ended("You are there.") if self.at == self.end else "You walk."

    def score(self):
        return float(self.at == self.end)

    def legal(self):
        return ["on", "back"]


class Oracle(Script):
    """Walks on."""

    def play(self, hidden):
        yield from ["on"] * hidden["end"]


def _shaped(name):
    cls = world(f"audit/{name}-v0", steps=30, players={"oracle": "Oracle"}, shown=("end",))(
        type(name, (Corridor,), {"__module__": __name__})
    )
    cls.spec = replace(cls.spec, options=(*cls.spec.options, _SHAPING))
    cls._potential = lambda self: self.world.at / self.world.end
    return cls


class Broken(_shaped("ShapingPays")):
    def _shaped(self, terminated):
        return max(super()._shaped(terminated), 0.0)


Mended = _shaped("ShapingPaysMended")
