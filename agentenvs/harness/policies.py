"""Finds the policy a name stands for.

A name is one of an environment's own players (``oracle``, ``expert`` …), ``noop`` or ``random`` where it has none of
that name, ``openai`` for a model behind an OpenAI-compatible endpoint, or ``MODULE:FACTORY``: something callable, in an
importable module or in the working folder, that returns an object with ``reset`` and ``act``.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import digest
from agentenvs.core.errors import ContractError, PolicyError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import Task

PolicyFactory = Callable[[], Policy]


class NoOp:
    """Says nothing, forever: the floor every reward must hold."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Choose the kind of nothing the environment takes."""
        self._nothing: Any = "" if "text" in spec.accepts else {"message": ""} if "message" in spec.accepts else []

    def act(self, observation: Observation) -> Any:
        """Return nothing."""
        return self._nothing


class Random:
    """Draws among the admissible actions where they are listed, else among the examples of the tools."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Seed the draw with the task, so that a run can be made again."""
        self._stream = Stream(scenario_key(spec.slug, task.ref.split, task.ref.index), "player.random")
        self._calls: list[Any] = [
            {"tool": tool.name, "arguments": dict(example)} for tool in spec.tools for example in tool.examples
        ] or [""]

    def act(self, observation: Observation) -> Any:
        """Return one action, all equally likely."""
        return self._stream.choice(observation.admissible or self._calls)


_FALLBACKS: dict[str, PolicyFactory] = {"noop": NoOp, "random": Random}


def resolve(name: str, spec: EnvSpec, settings: Any = None) -> PolicyFactory:
    """Return what makes a fresh policy.

    Args:
        name: See the module.
        spec: The environment it will play.
        settings: For ``openai``: its settings.

    Raises:
        PolicyError: No such policy, or what it names is none.
    """
    if name == "openai":
        from agentenvs.harness.openai import factory

        return lambda: factory(spec, settings)
    if name in spec.players:
        return _checked(name, registry.load(spec.players[name]))
    if name in _FALLBACKS:
        return _FALLBACKS[name]
    if ":" in name:
        return _checked(name, _import(name))
    known = [*dict.fromkeys([*spec.players, *_FALLBACKS, "openai"])]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise PolicyError(
        f"{spec.slug} has no policy {name!r}", fix=f"{hint}known: {', '.join(known)}, or MODULE:FACTORY of your own"
    )


def policy_names(spec: EnvSpec) -> list[str]:
    """Return the names :func:`resolve` knows for an environment."""
    return [*dict.fromkeys([*spec.players, *_FALLBACKS, "openai"])]


def source_digest(name: str, spec: EnvSpec) -> str | None:
    """Return the SHA-256 of the file a policy's factory stands in, or None where there is none."""
    target = spec.players.get(name, name)
    if ":" not in target:
        return None
    module = sys.modules.get(target.partition(":")[0])
    file = getattr(module, "__file__", None)
    return digest(Path(file).read_text(encoding="utf-8")) if file else None


def _import(name: str) -> Any:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return registry.load(name)
    except ContractError as error:
        raise PolicyError(f"the policy {name!r} cannot be found", why=error.what, fix="write MODULE:FACTORY") from error
    except ImportError as error:
        raise PolicyError(
            f"the policy {name!r} cannot be imported", why=str(error), fix="run where its module is, or install it"
        ) from error


def _checked(name: str, factory: Any) -> PolicyFactory:
    if not callable(factory):
        raise PolicyError(f"{name!r} is a {type(factory).__name__}", why="a policy factory must be callable")

    def make() -> Policy:
        made = factory()
        missing = [part for part in ("reset", "act") if not callable(getattr(made, part, None))]
        if missing:
            raise PolicyError(
                f"{name!r} made a {type(made).__name__} without {' and '.join(missing)}",
                fix="a policy has reset(spec, task) and act(observation)",
            )
        return made  # type: ignore[no-any-return]

    return make
