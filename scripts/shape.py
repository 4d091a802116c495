"""Measures the shape of the code: lengths of modules and functions, and how many public names are documented.

    python scripts/shape.py            # the report
    python scripts/shape.py --check    # exit 1 where a hard cap is broken

A module's length is its number of lines; a function's runs from ``def`` to its last line, nested functions counted in
both. The caps are held by tests/style/test_shape.py as well; medians and 95th percentiles are to be kept low, not held.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agentenvs", "servers/agentenvs_servers", "scenarios/agentenvs_scenarios", "scoring/agentenvs_scoring")

MODULE_CAP = 600
FUNCTION_CAP = 80
MODULE_AIM = (150, 450)
FUNCTION_AIM = (10, 45)

DATA_TABLES: frozenset[str] = frozenset()
"""Modules that hold nothing but a table, by path from the root: free of the cap on length."""


@dataclass(frozen=True)
class Module:
    """One source file and its syntax tree."""

    path: str
    lines: int
    tree: ast.Module


@dataclass(frozen=True)
class Function:
    """One function or method, and where it starts."""

    where: str
    name: str
    lines: int


@dataclass(frozen=True)
class Shape:
    """All that is measured.

    Attributes:
        modules: Every module of the packages.
        functions: Every function of theirs, methods and nested ones too.
        documented: Number of public names with a docstring.
        undocumented: Places of the public names without one.
    """

    modules: tuple[Module, ...]
    functions: tuple[Function, ...]
    documented: int
    undocumented: tuple[str, ...]

    def broken(self) -> list[str]:
        """Return a line for each broken cap."""
        long_modules = [
            f"{module.path}: {module.lines} lines, the cap is {MODULE_CAP}"
            for module in self.modules
            if module.lines > MODULE_CAP and module.path not in DATA_TABLES
        ]
        long_functions = [
            f"{function.where}: {function.name} has {function.lines} lines, the cap is {FUNCTION_CAP}"
            for function in self.functions
            if function.lines > FUNCTION_CAP
        ]
        return long_modules + long_functions


def measure(root: Path = ROOT) -> Shape:
    """Measure the four packages under a root."""
    modules = tuple(_modules(root))
    functions = tuple(function for module in modules for function in _functions(module))
    names = [(where, has_doc) for module in modules for where, has_doc in _public_names(module)]
    missing = tuple(where for where, has_doc in names if not has_doc)
    return Shape(modules, functions, len(names) - len(missing), missing)


def percentile(values: list[int], share: float) -> int:
    """Return the smallest value that at least ``share`` of the values do not exceed; 0 for none."""
    ordered = sorted(values)
    if not ordered:
        return 0
    rank = -(-len(ordered) * share // 1)
    return ordered[max(int(rank) - 1, 0)]


def report(shape: Shape) -> str:
    """Return the report as text."""
    rows = [
        ("modules", [module.lines for module in shape.modules], MODULE_AIM, MODULE_CAP),
        ("functions", [function.lines for function in shape.functions], FUNCTION_AIM, FUNCTION_CAP),
    ]
    lines = ["lines of         number   median (aim)    95 % (aim)     max (cap)"]
    for name, values, (median_aim, high_aim), cap in rows:
        middle, high, top = percentile(values, 0.5), percentile(values, 0.95), max(values, default=0)
        lines.append(
            f"{name:<14}{len(values):>9}{middle:>9} ({median_aim:>3}){high:>8} ({high_aim:>3}){top:>8} ({cap:>3})"
        )
    total = shape.documented + len(shape.undocumented)
    lines.append(f"public names documented: {shape.documented} of {total}")
    lines += [f"  without a docstring: {where}" for where in shape.undocumented]
    return "\n".join(lines)


def _modules(root: Path) -> Iterator[Module]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield Module(path.relative_to(root).as_posix(), len(text.splitlines()), ast.parse(text))


def _functions(module: Module) -> Iterator[Function]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(f"{module.path}:{node.lineno}", node.name, lines)


def _public_names(module: Module) -> Iterator[tuple[str, bool]]:
    """Yield the module and its public classes, functions and methods, with whether each has a docstring."""
    if any(part.startswith("_") and part != "__init__.py" for part in Path(module.path).parts):
        return
    yield module.path, ast.get_docstring(module.tree) is not None
    todo: list[ast.AST] = [module.tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            if not _is_overload(node):
                yield f"{module.path}:{node.lineno} {node.name}", ast.get_docstring(node) is not None
            if isinstance(node, ast.ClassDef):
                todo.append(node)


def _is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)]
    return "overload" in names or "override" in names


def main() -> int:
    """Print the report; with ``--check``, fail where a cap is broken."""
    parser = argparse.ArgumentParser(description="Report the shape of the code.")
    parser.add_argument("--check", action="store_true", help="exit 1 where a hard cap is broken")
    arguments = parser.parse_args()
    shape = measure()
    print(report(shape))
    broken = shape.broken()
    for line in broken:
        print(f"error: {line}", file=sys.stderr)
    return 1 if broken and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
