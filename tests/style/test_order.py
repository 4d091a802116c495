"""What no linter sees: worlds, scoring and scenarios neither call ``hash()`` nor walk through an unordered set."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PURE = ("agentenvs/core", "agentenvs/envs", "scenarios/agentenvs_scenarios", "scoring/agentenvs_scoring")


_KEEP_ORDER = ("enumerate", "iter", "list", "next", "reversed", "tuple", "zip")


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left) or _is_set(node.right)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")


def _walked(node: ast.AST) -> list[ast.expr]:
    """The expressions that a node goes through in their own order."""
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "tuple", "enumerate")
    ):
        return node.args[:1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return node.args[:1]
    return []


def _faults(tree: ast.AST, inside: str = "") -> list[int]:
    lines = []
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else inside
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
        if (called == "hash" and name != "__hash__") or any(_is_set(walked) for walked in _walked(node)):
            lines.append(getattr(node, "lineno", 0) or _walked(node)[0].lineno)
        lines += _faults(node, name)
    return lines


@pytest.mark.parametrize("folder", PURE)
def test_nothing_depends_on_the_order_of_a_set_or_on_hash(root: Path, folder: str) -> None:
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted((root / folder).rglob("*.py"))
        for line in _faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("hash('a')", [1]),
        ("class A:\n  def __hash__(self):\n    return hash(self.b)", []),
        ("for a in {1, 2}: pass", [1]),
        ("x = [a for a in set(b)]", [1]),
        ("','.join({a for a in b})", [1]),
        ("tuple(set(a) - b)", [1]),
        ("sorted({1, 2})", []),
        ("1 in {1, 2}", []),
    ],
)
def test_faults_are_found(source: str, lines: list[int]) -> None:
    assert _faults(ast.parse(source)) == lines
