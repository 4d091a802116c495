"""A small sound world, from which most of the broken ones differ in one thing: a word is behind one of six doors."""

from __future__ import annotations

from agentenvs.api import Ended, Invalid, Script, world

WORDS = ("apple", "birch", "cedar", "daisy", "elder", "fennel", "ginger", "hazel", "iris", "juniper", "kale", "lily")
DOORS = tuple(str(number) for number in range(1, 7))
PLAYERS = {"oracle": "tests.audit.broken.common:Oracle"}


class Doors:
    """Open doors until you see a word, then say it."""

    def task(rng):
        return {"word": rng.choice(WORDS), "door": rng.choice(DOORS)}

    def reset(self, task):
        self.word, self.door, self.opened, self.said = task["word"], task["door"], [], ""
        return "There are 6 doors. Say the word that is behind one of them."

    def step(self, action):
        verb, _, rest = action.partition(" ")
        if verb == "open" and rest in DOORS:
            return self.open(rest)
        if verb == "say" and rest.isascii() and rest.isalpha():
            return self.say(rest)
        return Invalid("Open a door, or say a word.")

    def open(self, door):
        self.opened = sorted({*self.opened, door})
        return f"Behind door {door} is {f'the word {self.word}' if door == self.door else 'nothing'}."

    def say(self, word):
        self.said = word
        return Ended("You say it.")

    def score(self):
        return float(self.said == self.word)

    def legal(self):
        return [f"open {door}" for door in DOORS]


class Oracle(Script):
    """Opens the right door and says the word."""

    def play(self, hidden):
        yield f"open {hidden['door']}"
        yield f"say {hidden['word']}"


Sound = world("audit/Sound-v0", steps=20, players=PLAYERS)(type("Sound", (Doors,), {"__module__": __name__}))
