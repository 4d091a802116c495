"""Guests that hang, leak, crash, lie and grow, each in a worker process."""

from __future__ import annotations

import os
import time

from agentenvs.api import Capabilities, Ended, Invalid, world
from agentenvs.core.simple import Simple

_KEPT: list[bytes] = []


class Guest:
    """Say go three times."""

    def task(rng):
        return {"number": rng.below(10)}

    def reset(self, task):
        self.count = 0
        return "Go."

    def step(self, action):
        if action == "go":
            self.count += 1
            return Ended("Done.") if self.count == 3 else self.gone()
        return self.odd() if action == "odd" else Invalid("Say go.")

    def gone(self):
        return "On."

    def odd(self):
        return Invalid("Say go.")

    def score(self):
        return float(self.count == 3)

    def legal(self):
        return ["go"] if type(self).odd is Guest.odd else ["go", "odd"]


class Hangs(Guest):
    def odd(self):
        while True:
            time.sleep(1)


class Leaks(Guest):
    def reset(self, task):
        _KEPT.append(b"x" * 6 * 2**20)
        return super().reset(task)


class Crashes(Guest):
    def odd(self):
        os._exit(3)


class Lies(Guest):
    def gone(self):
        return f"On, {os.urandom(4).hex()}."


class Grows(Guest):
    def odd(self):
        kept = []
        while True:
            kept.append(bytes(2**24))


class Spins(Guest):
    def odd(self):
        while True:
            pass


class Careless(Crashes):
    """Does not say that it may crash."""


class Frozen(Guest):
    """Never begins, and does not say so."""

    def reset(self, task):
        while True:
            time.sleep(1)


def _guest(plain: type[Guest], **limits: float | str) -> type[Simple]:
    promised = Capabilities(**{"execution": "process", "step_seconds": 5.0, "memory_mb": 300, **limits})
    made = world(f"guests/{plain.__name__}-v0", steps=9, capabilities=promised)(plain)
    globals()[f"World{plain.__name__}"] = made
    object.__setattr__(made.spec, "entry_point", f"{__name__}:World{plain.__name__}")
    return made


GUESTS = {
    "hangs": _guest(Hangs, step_seconds=0.4),
    "leaks": _guest(Leaks, memory_mb=1000),
    "crashes": _guest(Crashes),
    "lies": _guest(Lies),
    "grows": _guest(Grows),
    "careless": _guest(Careless, execution="inline"),
    "frozen": _guest(Frozen, execution="inline"),
    "spins": _guest(Spins, step_seconds=60.0, cpu_seconds=1.0),
}
