"""Objects with ``reset`` and ``step`` that know nothing of this suite."""

from __future__ import annotations

import random
import time


class Door:
    """Asynchronous at the start, a mapping at each step; heeds its seed."""

    actions = ("push", "pull")

    async def reset(self, seed=None):
        self.left = 1 + seed % 3
        return "A door."

    def step(self, action):
        self.left -= action == "pull"
        return {"observation": f"{self.left} to go", "reward": float(self.left == 0), "done": self.left == 0}


class Dice:
    """Heeds no seed."""

    actions = ("roll",)

    def reset(self):
        return "Roll."

    def step(self, action):
        return f"You roll {random.getrandbits(40)}.", 0.0, False


class Wave:
    """Shows fractions."""

    def reset(self, seed=None, options=None):
        self.at = seed / 7
        return self.at, {}

    def step(self, action):
        self.at = self.at / 3
        return self.at, 1, False, self.at < 1, {}


class Crank:
    """Fails as it is told."""

    def reset(self, seed=None):
        return "Turn."

    def step(self, action):
        if action == "raise":
            raise RuntimeError("secret words")
        if action == "odd":
            return (1,)
        if action == "hang":
            time.sleep(60)
        return f"You say {action}."


class Bare:
    """No environment at all."""
