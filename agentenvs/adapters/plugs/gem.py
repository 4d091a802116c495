"""GEM: an ``Env`` of strings; a seed is the number of a scenario.

GEM seeds the generators of the whole process in ``reset``. The worlds here draw from none of them, so episodes are the
same in any number of threads, and this plug leaves those generators alone. Facts of a turn are in its ``info``.
"""

from __future__ import annotations

from typing import Any

from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed

PREFIX = "agentenvs:"


def register(env: str, **options: Any) -> str:
    """Make a world known to GEM's registry, and return its id there.

    Args:
        env: As :func:`agentenvs.make` takes it.
        **options: ``split``, ``url``, and options of the environment.

    Raises:
        MissingExtraError: There is no GEM here.
    """
    gem = needed("gem", "gem-llm")
    name = PREFIX + env
    if name not in needed("gem.envs.registration", "gem-llm").ENV_REGISTRY:
        gem.register(name, f"{__name__}:WorldEnv", env=env, **options)
    return name


def _world_env() -> type:
    core = needed("gem.core", "gem-llm")

    class WorldEnv(core.Env):  # type: ignore[misc, name-defined]
        """A world; its actions are the replies of a model."""

        def __init__(
            self, env: str = "household", split: str = "", url: str = "", seed: int = 0, **options: Any
        ) -> None:
            super().__init__()
            options.pop("max_turns", None)
            self._made = {"env": env, "split": split, "url": url, **options}
            self._next = seed
            self.episode = Episode(env, url=url or None, **options)
            self._split = split or None

        def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
            """Begin the episode of a seed; without one, of the next number."""
            self._next = self._next + 1 if seed is None else seed
            ref = self.episode.address(self._split, self._next)
            shown = self.episode.begin(ref)
            return shown, {**ref.to_json(), "system": self.episode.system, "state_key": self.episode.anchor}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            """Play what the model said."""
            text, reward, terminated, truncated, facts = self.episode.say(action)
            info = dict(facts)
            if terminated or truncated:
                info["outcome"] = outcome(self.episode.verdict())
            return text, reward, terminated, truncated, info

        def sample_random_action(self) -> str:
            """Return an example of a reply."""
            tools = self.episode.spec.tools
            admissible = self.episode.env.admissible()
            return f"Action: {admissible[0] if admissible else (tools[0].name if tools else 'look')}"

        def spawn(self, same_state: bool = False, **changed: Any) -> Any:
            """Return another one, by itself.

            Raises:
                NotImplementedError: ``same_state`` is asked for.
            """
            if same_state:
                raise NotImplementedError("a world behind this plug is forked by agentenvs, not by GEM")
            return type(self)(**{**self._made, "seed": self._next, **changed})

        def close(self) -> None:
            """Give up the episode."""
            self.episode.close()

    return WorldEnv


__getattr__ = attributes(__name__, {"WorldEnv": _world_env}, globals())
