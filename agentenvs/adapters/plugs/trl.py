"""TRL: classes for ``GRPOTrainer(environment_factory=…)``; their methods are the tools that the model may call.

TRL makes an instance a rollout, resets each with its row of the dataset again and again, and never closes one. So the
rows hold addresses: equal rows are equal starts, which is what a group of GRPO needs. The session of an instance idles
while the optimizer works; on a server it is given an hour for that, and longer by ``settings``. A call after the end is
an error, which TRL shows the model as one. TRL asks ``get_reward`` once a rollout.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from agentenvs.adapters.plugs.calls import Call, calls
from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import needed
from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class World:
    """One episode after the other, as TRL wants it; :func:`environment` makes subclasses with the tools of a world."""

    _make: Callable[[], Episode]

    def __init__(self) -> None:
        self._episode = type(self)._make()
        self._facts: list[dict[str, JSON]] = []
        self._reset_with: dict[str, Any] = {}
        weakref.finalize(self, self._episode.close)

    def reset(self, **row: Any) -> str:
        """Begin the episode of a row of the dataset: ``split`` and ``index``, or ``seed``."""
        index = row.get("index", row.get("seed"))
        self._facts, self._reset_with = [], row
        first = self._episode.begin(self._episode.address(row.get("split"), 0 if index is None else int(index)))
        return f"{self._episode.system}\n\n{first}"

    def get_reward(self) -> float:
        """Return the reward of the verdict; an episode that still runs was cut off."""
        return self._episode.verdict().reward

    @property
    def facts(self) -> list[dict[str, JSON]]:
        """What is known of each turn, for functions of rewards of one's own: TRL has no place for it."""
        return list(self._facts)

    @property
    def outcome(self) -> dict[str, float]:
        """The numbers of the verdict."""
        return outcome(self._episode.verdict())

    def _played(self, action: Any) -> str:
        heard = self._episode.play(action)
        self._facts.append({**heard.facts, "reward": heard.reward})
        return heard.text


def environment(env: str, *, url: str | None = None, **options: Any) -> type[World]:
    """Return the class to be given to TRL as ``environment_factory``.

    Args:
        env: As :func:`agentenvs.make` takes it.
        url: A server; ``token`` and ``settings`` are then those of :class:`agentenvs.client.RemoteEnv`.
        **options: Options of the environment.

    Raises:
        UserError: As for :func:`agentenvs.make`.
    """

    def make() -> Episode:
        return Episode(env, url=url, tools=True, **options)

    episode = make()
    try:
        spec = episode.spec
    finally:
        episode.close()
    return type(f"{spec.title.replace(' ', '')}World", (World,), {"_make": staticmethod(make), **_methods(spec)})


def dataset(env: str, split: str = "", start: int = 0, count: int = 100, *, url: str | None = None) -> Any:
    """Return rows for TRL: a prompt to which the first observation is appended, and an address.

    Raises:
        MissingExtraError: The package ``datasets`` is not installed.
        UserError: As for :func:`agentenvs.make`.
    """
    rows = needed("datasets", "datasets")
    episode = Episode(env, url=url)
    try:
        refs = episode.tasks(split or None, start, count)
    finally:
        episode.close()
    return rows.Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], **ref.to_json()} for ref in refs])


def _methods(spec: EnvSpec) -> dict[str, Any]:
    return {name: _method(call) for name, call in calls(spec).items()}


def _method(tool: Call) -> Callable[..., str]:
    """Return a method with the signature and docstring from which TRL tells the model of the tool."""
    properties: Mapping[str, Mapping[str, JSON]] = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", []))
    names = sorted(properties, key=lambda name: name not in required)

    def method(self: World, **arguments: Any) -> str:
        return self._played(tool.action({name: value for name, value in arguments.items() if value is not None}))

    kinds = {name: _TYPES.get(str(properties[name].get("type")), str) for name in names}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name in names:
        default = inspect.Parameter.empty if name in required else None
        kind = kinds[name] if name in required else kinds[name] | None
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    told = [f"    {name}: {properties[name].get('description') or name}" for name in names]
    lines = [tool.description, "", *(["Args:", *told, ""] if told else []), "Returns:", "    What happens."]
    method.__name__ = method.__qualname__ = tool.name
    method.__doc__ = "\n".join(lines)
    method.__annotations__ = {each.name: each.annotation for each in parameters[1:]} | {"return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method
