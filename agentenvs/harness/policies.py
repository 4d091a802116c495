"""Finds the policy a name stands for.

A name is one of an environment's own players (``oracle``, ``expert`` …), ``noop`` or ``random`` where it has none of
that name, ``openai`` for a model behind an OpenAI-compatible endpoint, ``hf:PATH`` for one in a folder, or
``MODULE:FACTORY``: something callable, in an importable module or in the working folder, that returns an object with
``reset`` and ``act``.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentenvs.core import registry
from agentenvs.core.actions import End, Message, ToolCall
from agentenvs.core.canon import digest
from agentenvs.core.errors import ContractError, MissingExtraError, PolicyError, UserError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import Task
from agentenvs.harness.stopping import PolicyStop

PolicyFactory = Callable[[], Policy]


UNLIMITED_TURNS = 1_000
"""Turns after which a built-in player stops where the environment sets no limit of its own."""


class NoOp:
    """Does nothing: the floor every reward must hold. Says nothing until a limit, or ends where it cannot say that."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Choose the kind of nothing the environment takes."""
        self._turns = 0
        self._nothing: Any = ""
        if "text" not in spec.accepts:
            self._nothing = End() if "end" in spec.accepts else Message("")

    def act(self, observation: Observation) -> Any:
        """Return nothing."""
        self._turns = _counted(self._turns, observation)
        return self._nothing


class Random:
    """Draws among the admissible actions where they are listed, else among the examples of the tools."""

    wants: Mapping[str, Any] = MappingProxyType({"admissible": True})

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Seed the draw with the task, so that a run can be made again."""
        self._turns = 0
        self._stream = Stream(scenario_key(spec.slug, task.ref.split, task.ref.index), "player.random")
        self._calls: list[Any] = [
            ToolCall(tool.name, example) for tool in spec.tools for example in tool.examples or ({},)
        ] or [Message("Hello.") if "message" in spec.accepts else ""]

    def act(self, observation: Observation) -> Any:
        """Return one action, all equally likely."""
        self._turns = _counted(self._turns, observation)
        return self._stream.choice(observation.admissible or self._calls)


def _counted(turns: int, observation: Observation) -> int:
    if "steps" not in observation.budgets and turns >= UNLIMITED_TURNS:
        raise PolicyStop("truncated", f"the environment sets no limit, so this player stops after {turns} turns")
    return turns + 1


_FALLBACKS: dict[str, PolicyFactory] = {"noop": NoOp, "random": Random}

SCHEMES: Mapping[str, tuple[str, str, str]] = MappingProxyType({"hf": ("agentenvs.train.playing", "opened", "train")})
"""What stands before the colon of ``hf:PATH`` -> module and function of a room above this one, and its extra. The
function is called with what follows the colon, the environment's spec and the settings, and returns what makes a
policy."""


def resolve(name: str, spec: EnvSpec, settings: Any = None) -> PolicyFactory:
    """Return what makes a fresh policy.

    Args:
        name: See the module.
        spec: The environment it will play.
        settings: For ``openai`` and ``hf:PATH``: the model's settings.

    Raises:
        PolicyError: No such policy, or what it names is none.
    """
    if name == "openai":
        from agentenvs.harness.openai import factory

        return lambda: factory(spec, settings)
    if name in spec.players:
        return _checked(name, _load(spec.players[name]))
    if name in _FALLBACKS:
        return _FALLBACKS[name]
    scheme, _, rest = name.partition(":")
    if rest and scheme in SCHEMES:
        return _of_scheme(scheme, rest, spec, settings)
    if ":" in name:
        return _checked(name, _import(name))
    known = [*dict.fromkeys([*spec.players, *_FALLBACKS, "openai"])]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if not spec.players:
        hint += "players of a file are known where FILE.py is named, and not its id; "
    raise PolicyError(
        f"{spec.slug} has no policy {name!r}",
        fix=f"{hint}known: {', '.join(known)}, hf:PATH, or MODULE:FACTORY of your own",
    )


def _of_scheme(scheme: str, rest: str, spec: EnvSpec, settings: Any) -> PolicyFactory:
    module, function, extra = SCHEMES[scheme]
    try:
        make: Callable[[str, EnvSpec, Any], PolicyFactory] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the policy {scheme}:{rest} needs {error.name}", fix=f'pip install "agentenvs[{extra}]"'
        ) from error
    return make(rest, spec, settings)


def policy_names(spec: EnvSpec) -> list[str]:
    """Return the names :func:`resolve` knows for an environment."""
    return [*dict.fromkeys([*spec.players, *_FALLBACKS, "openai"])]


def wanted_options(policy: Policy, spec: EnvSpec) -> dict[str, Any]:
    """Return the options a policy would have its environment made with: its attribute ``wants``.

    They are a policy's share in what it is shown, such as ``{"admissible": True}``; an environment that has no such
    option is played as it is, and what the caller asks for goes first.

    Raises:
        PolicyError: It is no mapping.
    """
    known = {option.name for option in spec.options}
    wants: object = getattr(policy, "wants", None) or {}
    if not isinstance(wants, Mapping):
        raise PolicyError(f"the policy's wants is a {type(wants).__name__}", fix="name options: {'admissible': True}")
    return {name: value for name, value in wants.items() if name in known}


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
    return _load(name)


def _load(target: str) -> Any:
    """Import ``module:attribute`` of a policy.

    Raises:
        PolicyError: It is not there, or its module fails when it is imported.
    """
    try:
        return registry.load(target)
    except ContractError as error:
        raise PolicyError(f"the policy {target!r} cannot be found", why=error.what, fix=error.fix) from error
    except ModuleNotFoundError as error:
        raise PolicyError(
            f"the policy {target!r} cannot be imported", why=str(error), fix="run where its module is, or install it"
        ) from error
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"the module of the policy {target!r} fails when it is imported",
            why=f"{_place(error)}{type(error).__name__}: {error}",
        ) from error


def _place(error: BaseException) -> str:
    """Return the innermost place of an error, as ``file:line: ``."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def _checked(name: str, factory: Any) -> PolicyFactory:
    if not callable(factory):
        raise PolicyError(
            f"{name!r} is a {type(factory).__name__}",
            why="a policy factory must be callable",
            fix="name a class, or a function that makes a policy",
        )

    def make() -> Policy:
        try:
            made = factory()
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            raise PolicyError(
                f"{name!r} cannot make a policy",
                why=f"{_place(error)}{type(error).__name__}: {error}",
                fix="a factory takes no arguments",
            ) from error
        missing = [part for part in ("reset", "act") if not callable(getattr(made, part, None))]
        if missing:
            raise PolicyError(
                f"{name!r} made a {type(made).__name__} without {' and '.join(missing)}",
                fix="a policy has reset(spec, task) and act(observation)",
            )
        return made  # type: ignore[no-any-return]

    return make
