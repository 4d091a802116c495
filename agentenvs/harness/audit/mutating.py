"""Mutants of a score: its source with one thing changed, put in place of the original for a moment.

Which functions are a score is found from ``rejudge``: all that it reaches by name in the modules of the score. Each
mutant is one change of one node of the syntax tree (R. DeMillo, R. Lipton and F. Sayward, "Hints on Test Data
Selection", 1978): a comparison, a constant, a Boolean operator, a condition, a branch, a part of what is returned,
least for most. The tree is compiled and the function given the new code in place, so that all who call it call the
mutant.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentenvs.harness.audit import changes

_MOST_TICKS = 100_000


class Endless(Exception):
    """A mutant loops for ever."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function of a score."""

    module: str
    name: str
    """Qualified."""
    function: types.FunctionType

    @property
    def line(self) -> int:
        """The line it begins at."""
        return self.function.__code__.co_firstlineno


@dataclass(frozen=True, slots=True)
class Mutant:
    """A score with one thing changed."""

    label: str
    """Module, function and change; stable as long as the function is."""
    operator: str
    place: str
    """File and line."""
    planted: Callable[[], contextlib.AbstractContextManager[None]]
    """Puts it in place of the original."""


class Sources:
    """The functions and constants of a score, and their mutants.

    Args:
        entry: What computes a verdict again.
        modules: Names of the modules whose functions are mutated.
        home: The module of the environment's class, in which methods are looked for that an inherited entry calls.
    """

    def __init__(self, entry: Any, modules: tuple[str, ...], home: str = "") -> None:
        self._modules = modules
        self._home = home
        self._trees: dict[str, ast.Module] = {}
        self.targets: dict[tuple[str, str], Target] = {}
        self._cached: list[Any] = []
        self._constants: dict[tuple[str, str], None] = {}
        for function in _functions(entry):
            self._reach(function)

    def mutants(self) -> Iterator[Mutant]:
        """Yield all mutants, in the order of the source."""
        seen: dict[str, int] = {}
        for mutant in (*self._of_functions(), *self._of_constants()):
            seen[mutant.label] = number = seen.get(mutant.label, 0) + 1
            label = mutant.label if number == 1 else f"{mutant.label} #{number}"
            yield Mutant(label, mutant.operator, mutant.place, mutant.planted)

    # ---- what a score is -------------------------------------------------------------------------------------------

    def _reach(self, function: types.FunctionType) -> None:
        key = (function.__module__, function.__qualname__)
        if key in self.targets or function.__module__ not in sys.modules or self._node(*key) is None:
            return
        wanted = self._wanted(function.__module__)
        if wanted:
            self.targets[key] = Target(*key, function)
        names = _names(function.__code__)
        module = sys.modules[function.__module__]
        for name in names:
            found = function.__globals__.get(name)
            for called in _functions(found):
                if self._wanted(called.__module__):
                    self._reach(called)
            if wanted and name in vars(module) and not callable(found) and not isinstance(found, types.ModuleType):
                self._constants[function.__module__, name] = None
            if callable(getattr(found, "cache_clear", None)) and found not in self._cached:
                self._cached.append(found)
            self._reach_values(found)
        self._reach_methods(module, names)
        if self._wanted(self._home) and self._home != function.__module__:
            self._reach_methods(sys.modules[self._home], names)

    def _reach_values(self, found: Any) -> None:
        """Reach functions in a table."""
        for value in found.values() if isinstance(found, dict) else ():
            for called in _functions(value):
                if self._wanted(called.__module__):
                    self._reach(called)

    def _reach_methods(self, module: types.ModuleType, names: set[str]) -> None:
        """Reach methods of the names that are used, in classes of the modules of the score."""
        for cls in [value for value in vars(module).values() if inspect.isclass(value)]:
            for kind in dict.fromkeys((cls, getattr(cls, "plain", cls))):
                if inspect.isclass(kind) and self._wanted(kind.__module__):
                    for name, member in list(vars(kind).items()):
                        if name in names:
                            for called in _functions(member):
                                self._reach(called)

    def _wanted(self, module: str) -> bool:
        return module in self._modules

    def _tree(self, module: str) -> ast.Module:
        if module not in self._trees:
            self._trees[module] = tree = ast.parse(inspect.getsource(sys.modules[module]))
            changes.count_loops(tree)
        return self._trees[module]

    def _node(self, module: str, name: str) -> tuple[ast.stmt, ast.AST] | None:
        """Return the top-level statement a function stands in, and the function's node."""
        try:
            tree = self._tree(module)
        except (OSError, TypeError):
            return None
        path = [part for part in name.split(".") if part != "<locals>"]
        top = next((node for node in tree.body if getattr(node, "name", None) == path[0]), None)
        found: ast.AST | None = top
        for part in path[1:]:
            body = getattr(found, "body", [])
            found = next((node for node in body if getattr(node, "name", None) == part), None)
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        return (top, found) if top is not None and isinstance(found, kinds) else None

    # ---- mutants ---------------------------------------------------------------------------------------------------

    def _of_functions(self) -> Iterator[Mutant]:
        for (module, name), target in self.targets.items():
            node = self._node(module, name)
            if node is None:
                continue
            top, function = node
            for change in changes.of_function(function):
                label = f"{module}:{name}: {change.label}"
                planted = self._planter(target, top, change)
                yield Mutant(label, change.operator, f"{module}:{change.line}", planted)

    def _planter(
        self, target: Target, top: ast.stmt, change: changes.Change
    ) -> Callable[[], contextlib.AbstractContextManager[None]]:
        @contextlib.contextmanager
        def planted() -> Iterator[None]:
            with change.made():
                code = _compiled(top, target.name)
            if code is None:
                raise SyntaxError(change.label)
            original = target.function.__code__
            ticks = _ticker()
            self._forget()
            target.function.__globals__[changes.TICK] = ticks
            target.function.__code__ = code
            try:
                yield
            finally:
                target.function.__code__ = original
                target.function.__globals__.pop(changes.TICK, None)
                self._forget()

        return planted

    def _of_constants(self) -> Iterator[Mutant]:
        for module, name in self._constants:
            for statement in self._tree(module).body:
                value = getattr(statement, "value", None)
                if _assigned(statement) == name and value is not None and not _is_data(value):
                    for change in changes.of_value(statement):
                        label = f"{module}:{name}: {change.label}"
                        planted = self._setter(module, name, statement, change)
                        yield Mutant(label, change.operator, f"{module}:{change.line}", planted)

    def _setter(
        self, module: str, name: str, statement: ast.stmt, change: changes.Change
    ) -> Callable[[], contextlib.AbstractContextManager[None]]:
        @contextlib.contextmanager
        def planted() -> Iterator[None]:
            scope = dict(vars(sys.modules[module]))
            original = scope[name]
            with change.made():
                exec(compile(ast.Module([statement], []), f"<mutant of {module}>", "exec"), scope)  # noqa: S102
            holders = [vars(sys.modules[other]) for other in self._modules if other in sys.modules]
            holding = [space for space in holders if space.get(name) is original]
            self._forget()
            for space in holding:
                space[name] = scope[name]
            try:
                yield
            finally:
                for space in holding:
                    space[name] = original
                self._forget()

        return planted

    def _forget(self) -> None:
        for cached in self._cached:
            cached.cache_clear()


_DATA = 24
"""Constants from which on a table is data, whose every entry nobody can be asked to try, and no logic."""


def _is_data(value: ast.expr) -> bool:
    return sum(isinstance(node, ast.Constant) for node in ast.walk(value)) > _DATA


def _ticker() -> Callable[[], None]:
    left = _MOST_TICKS

    def tick() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Endless("a mutant loops for ever")

    return tick


def _compiled(top: ast.stmt, name: str) -> types.CodeType | None:
    """Return the code of a function in a top-level statement."""
    code = compile(ast.Module([_FUTURE, top], []), "<mutant>", "exec", dont_inherit=True)
    return _found(code, name)


_FUTURE = ast.fix_missing_locations(
    ast.ImportFrom(module="__future__", names=[ast.alias(name="annotations")], level=0, lineno=1, col_offset=0)
)


def _found(code: types.CodeType, name: str) -> types.CodeType | None:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_qualname == name:
                return const
            if (found := _found(const, name)) is not None:
                return found
    return None


def _functions(value: Any) -> list[types.FunctionType]:
    """Return the plain functions behind a value: a function, a method, a property, a cached or decorated one."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, types.MethodType):
        value = value.__func__
    if isinstance(value, property):
        return [part for part in (value.fget,) if isinstance(part, types.FunctionType)]
    with contextlib.suppress(ValueError):
        value = inspect.unwrap(value) if callable(value) and not inspect.isclass(value) else value
    return [value] if isinstance(value, types.FunctionType) else []


def _names(code: types.CodeType) -> set[str]:
    """Return the names a function and what stands in it use."""
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= _names(const)
    return found


def _assigned(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: Any = statement.targets[0]
    else:
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
    return target.id if isinstance(target, ast.Name) else None


def scope_of(cls: Any, more: tuple[str, ...] = ()) -> tuple[Any, tuple[str, ...]]:
    """Return where the score of a class begins, and the modules it stands in.

    A class that :func:`~agentenvs.core.simple.world` made is scored by the method ``score`` of the class it was put on;
    any other by ``rejudge``.

    Args:
        cls: A class of environments.
        more: Modules to look into beyond the packages of class and scoring.
    """
    plain: Any = getattr(cls, "plain", None)
    entry: Any = cls.rejudge if plain is None else plain.score
    home = cls.__module__.partition(".")[0]
    known = sorted(sys.modules)
    if home == "agentenvs":
        own = [name for name in known if _is_score(name)]
    else:
        own = [name for name in known if name == cls.__module__ or name.startswith(f"{home}.")]
    return entry, tuple(dict.fromkeys([*own, *more]))


def _is_score(name: str) -> bool:
    parts = name.split(".")
    return (
        parts[0] == "agentenvs_scoring" and len(parts) == 2 and parts[1] not in ("stats", "audits", "probes", "cards")
    )
