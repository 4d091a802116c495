"""The ten mistakes of docs/rewards.md, each made in a small world that is sound without it."""

from __future__ import annotations

import random
import time
from typing import ClassVar

from agentenvs.api import Ended, Invalid, Script, world
from tests.check.broken.sound import Boxes, spec_of

PLACES = ["attic", "cellar", "garden", "kitchen"]


class Hunt:
    """Find the coin: look into places, and take it from where it is."""

    def task(rng):
        return {"place": rng.choice(PLACES)}

    def reset(self, task):
        self.place, self.looked, self.tries, self.taken = task["place"], [], 2, False
        return "There are an attic, a cellar, a garden and a kitchen. Say: look PLACE, or: take PLACE."

    def step(self, action):
        verb, _, place = action.partition(" ")
        if verb not in ("look", "take") or place not in PLACES:
            return Invalid("Say: look PLACE, or: take PLACE.")
        return self.take(place) if verb == "take" else self.look(place)

    def look(self, place):
        self.looked.append(place)
        return "The coin is here." if place == self.place else "It is not here."

    def take(self, place):
        self.taken, self.tries = place == self.place, self.tries - 1
        return Ended("You have it.") if self.taken else Ended("No more tries.") if not self.tries else "It is not here."

    def score(self):
        return float(self.taken)

    def legal(self):
        return [f"{verb} {place}" for verb in ("look", "take") for place in PLACES]


class Oracle(Script):
    def play(self, hidden):
        yield f"look {hidden['place']}"
        yield f"take {hidden['place']}"


class PaysForBeingThere(Hunt):
    def score(self):
        return 0.2 + 0.8 * self.taken


class ShowsTheGoal(Hunt):
    def reset(self, task):
        return f"{super().reset(task)} (debug: {task['place']})"


class PaysForWords(Hunt):
    def step(self, action):
        self.taken = action.startswith("take ") and self.place in action
        return Ended("You have it.") if self.taken else super().step(action)


class CannotBeSolved(Hunt):
    def task(rng):
        return {"place": rng.choice(["moon", *PLACES[:1]])}


class PaysEachTime(Hunt):
    def score(self):
        return 0.4 * len(self.looked)


class DrawsLuck(Hunt):
    def look(self, place):
        return super().look(place) if random.random() < 0.5 else "It is too dark."


class ReadsTheClock(Hunt):
    def look(self, place):
        return f"{super().look(place)} It is {time.strftime('%Y')}."


class Remembers(Hunt):
    seen: ClassVar[set[str]] = set()

    def look(self, place):
        known = " You know it well." if place in self.seen else ""
        self.seen.add(place)
        return super().look(place) + known


class FallsOverJunk(Hunt):
    def step(self, action):
        verb, place = action.split(" ")
        return super().step(f"{verb} {place}")


class JunkMoves(Hunt):
    def step(self, action):
        self.tries = max(self.tries - 1, 1)
        return super().step(action)


class PaysForTheClock(Boxes):
    spec = spec_of(__name__, "PaysForTheClock")

    @classmethod
    def rejudge(cls, scenario, facts, ending):
        verdict = super().rejudge(scenario, facts, ending)
        return type(verdict)(0.5, False, facts=facts) if ending == "truncated" else verdict


class AsksAJudge(Hunt):
    def score(self):
        opinion = random.random()  # what a model said that was asked, and is not written down
        return float(self.taken) * opinion


PLAYERS = {"oracle": "Oracle"}


def _made(plain):
    plain.__qualname__ = f"World{plain.__name__}"
    globals()[plain.__qualname__] = world(f"mistakes/{plain.__name__}-v0", steps=12, players=PLAYERS)(plain)
    return globals()[plain.__qualname__]


SOUND = _made(Hunt)

MISTAKES = {
    1: (_made(PaysForBeingThere),),
    2: (_made(ShowsTheGoal),),
    3: (_made(PaysForWords),),
    4: (_made(CannotBeSolved),),
    5: (_made(PaysEachTime),),
    6: (_made(DrawsLuck), _made(ReadsTheClock)),
    7: (_made(Remembers),),
    8: (_made(FallsOverJunk), _made(JunkMoves)),
    9: (PaysForTheClock,),
    10: (_made(AsksAJudge),),
}
