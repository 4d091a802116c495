"""The steps of a recipe are asked for in their order, and are judged as a heap."""

from agentenvs.api import Audit, Ended, Invalid, Script, world

ROW = "relation.order"
STEPS = ("wash", "peel", "cut", "boil", "mash", "salt")
AUDIT = Audit(ordered=True)


class Kitchen:
    """Do the steps in the order of the recipe."""

    def task(rng):
        return {"recipe": rng.sample(STEPS, 4)}

    def reset(self, task):
        self.recipe, self.done = task["recipe"], []
        return f"First {', then '.join(self.recipe)}."

    def step(self, action):
        if action not in STEPS:
            return Invalid("Do a step of the recipe.")
        self.done = [*self.done, action]
        return Ended("That was the last.") if len(self.done) == 4 else "Done."


class Oracle(Script):
    """Follows the recipe."""

    def play(self, hidden):
        yield from hidden["recipe"]


@world("audit/OrderIgnored-v0", steps=12, players={"oracle": "Oracle"}, shown=("recipe",))
class Broken(Kitchen):
    def score(self):
        return float(sorted(self.done) == sorted(self.recipe))


@world("audit/OrderIgnoredMended-v0", steps=12, players={"oracle": "Oracle"}, shown=("recipe",))
class Mended(Kitchen):
    def score(self):
        return float(self.done == self.recipe)
