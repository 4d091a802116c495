"""SkyRL-Gym: a ``BaseTextEnv``; the row of the dataset says which scenario.

SkyRL has no seeds: ``extras`` are what a row holds beside its prompt, so world, split and index stand there and equal
rows are equal starts. The facts of a turn are its ``metadata``.
"""

from __future__ import annotations

from typing import Any

from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON

ID = "agentenvs"
"""The name under which :func:`register` makes it known; ``env_class`` of a row."""


def register(name: str = ID) -> None:
    """Make it known to SkyRL-Gym's registry, once a process.

    Raises:
        MissingExtraError: There is no SkyRL-Gym here.
    """
    gym = needed("skyrl_gym", "skyrl-gym")
    if name not in gym.envs.registration.registry:
        gym.register(id=name, entry_point=f"{__name__}:TextEnv")


def rows(env: str, split: str = "", start: int = 0, count: int = 100, url: str = "") -> list[dict[str, JSON]]:
    """Return rows of a dataset: ``prompt``, ``env_class``, and what :class:`TextEnv` reads in ``extra``.

    Raises:
        UserError: As for :func:`agentenvs.make`.
    """
    episode = Episode(env, url=url or None)
    try:
        return [
            {"prompt": [], "env_class": ID, "extra": {"env": env, "url": url, **ref.to_json()}}
            for ref in episode.tasks(split or None, start, count)
        ]
    finally:
        episode.close()


def _text_env() -> type:
    base = needed("skyrl_gym.envs.base_text_env", "skyrl-gym").BaseTextEnv

    class TextEnv(base):  # type: ignore[misc, valid-type]
        """A world; ``extras`` hold ``env``, ``split``, ``index``, and ``url`` and ``options`` where there are any."""

        def __init__(self, env_config: Any = None, extras: Any = None) -> None:
            super().__init__()
            found = {**dict(env_config or {}), **dict(extras or {})}
            found.update(dict(found.get("extra") or {}))
            self.max_turns = int(found.get("max_turns") or 0)
            self.episode = Episode(
                found.get("env", "household"), url=found.get("url") or None, **dict(found.get("options") or {})
            )
            self._asked = found.get("split") or None, int(found.get("index", 0))

        def init(self, prompt: Any) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
            """Begin the episode; its messages follow those of the prompt."""
            ref = self.episode.address(*self._asked)
            messages = self.episode.messages(ref)
            self.turns = 0
            return [*prompt, *messages], {**ref.to_json(), "state_key": self.episode.anchor}

        def step(self, action: str) -> dict[str, Any]:
            """Play what the model said."""
            self.turns += 1
            heard = self.episode.say(action)
            cut = not heard.done and 0 < self.max_turns <= self.turns
            reward = self.episode.verdict().reward if cut else heard.reward
            shown = [] if heard.done or cut else [{"role": "user", "content": heard.text}]
            return {"observations": shown, "reward": reward, "done": heard.done or cut, "metadata": heard.facts}

        def get_metrics(self) -> dict[str, float]:
            """Return the numbers of the verdict."""
            return {**outcome(self.episode.verdict()), "turns": float(self.turns)}

        def close(self) -> None:
            """Give up the episode."""
            self.episode.close()

    return TextEnv


__getattr__ = attributes(__name__, {"TextEnv": _text_env}, globals())
