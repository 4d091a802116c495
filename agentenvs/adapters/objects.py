"""Plain objects with ``reset`` and ``step``, of any of the forms that are about.

``reset(seed=…)``, ``reset()`` → observation, ``(observation, info)`` or a mapping; ``step(action)`` → Gymnasium's five,
the older four, ``(observation, reward, done)``, a mapping or object with ``observation``, ``reward``, ``done`` (or
``terminated``, ``truncated``), or the observation alone. Either may be a coroutine function. What it raises ends the
episode; what it blocks is cut by the worker process it lives in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from agentenvs.adapters.foreign import EngineError, Reply
from agentenvs.adapters.gymnasium import plain
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON

_WORDS = ("observation", "obs", "state", "text")


class ObjectEngine:
    """An object with ``reset`` and ``step``.

    Args:
        make: Makes it, without arguments.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        try:
            self._object = make()
            self._seeded = _takes_seed(self._object.reset)
        except Exception as error:
            raise EngineError(f"{type(error).__name__} when it was made: {error}") from error

    def reset(self, seed: int) -> Reply:
        """Begin an episode; the seed is given where ``reset`` has an argument of that name."""
        given = self._call(self._object.reset, **({"seed": seed} if self._seeded else {}))
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
            given = given[0]
        return Reply(plain(_field(given, _WORDS, given)))

    def step(self, action: JSON) -> Reply:
        """Play an action."""
        return reply_of(self._call(self._object.step, action))

    def close(self) -> None:
        """Close it, where it can be closed."""
        close = getattr(self._object, "close", None)
        if callable(close):
            self._call(close)

    def _call(self, what: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            given = what(*arguments, **named)
            return run_sync(cast("Coroutine[Any, Any, Any]", given)) if inspect.isawaitable(given) else given
        except Exception as error:
            raise EngineError(f"{type(error).__name__} in {what.__name__}") from error


def reply_of(given: Any) -> Reply:
    """Return a reply of what a step returned; see the module.

    Raises:
        EngineError: It has none of the known forms.
    """
    if isinstance(given, tuple):
        return _of_tuple(given)
    shown = _field(given, _WORDS, given)
    ended = bool(_field(given, ("terminated", "done"), False))
    cut = bool(_field(given, ("truncated",), False))
    return Reply(plain(shown), _number(_field(given, ("reward",), 0.0)), ended, cut)


def _of_tuple(given: tuple[Any, ...]) -> Reply:
    if len(given) == 5:
        return Reply(plain(given[0]), _number(given[1]), bool(given[2]), bool(given[3]))
    if len(given) in (3, 4):
        return Reply(plain(given[0]), _number(given[1]), bool(given[2]))
    if len(given) == 2:
        return Reply(plain(given[0]), _number(given[1]))
    raise EngineError(f"step returned {len(given)} values")


def _field(given: Any, names: tuple[str, ...], otherwise: Any) -> Any:
    for name in names:
        if isinstance(given, Mapping):
            if name in given:
                return given[name]
        elif not isinstance(given, str) and hasattr(given, name):
            return getattr(given, name)
    return otherwise


def _number(value: Any) -> float:
    try:
        return float(value or 0.0)
    except (TypeError, ValueError) as error:
        raise EngineError(f"a reward is {value!r}") from error


def _takes_seed(reset: Callable[..., Any]) -> bool:
    parameters = inspect.signature(reset).parameters.values()
    return any(item.name == "seed" or item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
