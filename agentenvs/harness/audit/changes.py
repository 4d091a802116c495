"""The changes that make mutants: each is one node of a syntax tree put in place of another, and back.

Docstrings, annotations and defaults are left alone: they decide nothing of a verdict, or not in a way that a mutant of
the function's code could show.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TICK = "__audit_tick__"
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a tree."""

    operator: str
    label: str
    line: int
    owner: Any
    """The node, or the list of nodes, in which something is replaced."""
    key: Any
    """Name of the field, or index in the list."""
    fresh: Any

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make the change, and undo it."""
        listed = isinstance(self.owner, list)
        before = self.owner[self.key] if listed else getattr(self.owner, self.key)
        if isinstance(self.fresh, ast.AST):
            _placed(self.fresh, self.line)
        self._put(self.fresh)
        try:
            yield
        finally:
            self._put(before)

    def _put(self, value: Any) -> None:
        if isinstance(self.owner, list):
            self.owner[self.key] = value
        else:
            setattr(self.owner, self.key, value)


def of_function(function: ast.AST) -> Iterator[Change]:
    """Yield the changes of a function's body."""
    body = function.body  # type: ignore[attr-defined]
    first = body[0]
    plain = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    for number in range(1 if plain else 0, len(body)):
        yield from (change for change in _of(body, number) if TICK not in change.label)


def of_value(statement: Any) -> Iterator[Change]:
    """Yield the changes of the value that a statement assigns."""
    yield from _of(statement, "value")


def _of(owner: Any, key: Any) -> Iterator[Change]:
    node = owner[key] if isinstance(owner, list) else getattr(owner, key)
    if not isinstance(node, ast.AST):
        return
    for operator, fresh in _changed(node):
        yield Change(operator, _label(node, fresh), getattr(node, "lineno", 1), owner, key, fresh)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "ctx", "ops", "op", "format_spec"):
            continue
        if isinstance(value, list):
            for number in range(len(value)):
                yield from _of(value, number)
        elif isinstance(value, ast.AST) and not isinstance(node, ast.arguments):
            yield from _of(node, name)


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node may be replaced by."""
    for change in _CHANGES.get(type(node), ()):
        yield from change(node)


def _compare(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for number, op in enumerate(node.ops):
        for other in _COMPARED[type(op)]:
            ops = [*node.ops[:number], other(), *node.ops[number + 1 :]]
            yield "comparison", ast.Compare(node.left, ops, node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[tuple[str, ast.AST]]:
    yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for number in range(len(node.values)):
        kept = [*node.values[:number], *node.values[number + 1 :]]
        yield "clause dropped", kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)


def _unary(node: ast.UnaryOp) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield "negation dropped", node.operand


def _binary(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    other = _COMPUTED.get(type(node.op))
    if other is not None and not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
        yield "arithmetic", ast.BinOp(node.left, other(), node.right)


def _constant(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield from (("off by one", ast.Constant(value + 1)), ("off by one", ast.Constant(value - 1)))
    elif isinstance(value, float):
        yield from (("constant", ast.Constant(other)) for other in (0.0, 1.0, 0.5) if other != value)
    elif isinstance(value, str):
        yield "constant", ast.Constant(value + "~" if value else "~")


def _condition(node: Any) -> Iterator[tuple[str, ast.AST]]:
    """Negate a condition, and take one branch always."""
    kind, rest = type(node), {name: getattr(node, name) for name in node._fields}
    yield "condition negated", kind(**{**rest, "test": ast.UnaryOp(ast.Not(), node.test)})
    yield "branch removed", kind(**{**rest, "test": ast.Constant(False)})
    yield "branch removed", kind(**{**rest, "test": ast.Constant(True)})


def _call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.func, ast.Name) and node.func.id in _NAMED:
        other = ast.Name(_NAMED[node.func.id], ast.Load())
        yield "least/most", ast.Call(other, node.args, node.keywords)
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            kept = [*node.keywords[:number], *node.keywords[number + 1 :]]
            yield "argument dropped", ast.Call(node.func, node.args, kept)


def _returned(node: ast.Return) -> Iterator[tuple[str, ast.AST]]:
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield "nothing returned", ast.Return(ast.Constant(None))
    if isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        first, second = node.value.elts
        yield "components swapped", ast.Return(ast.Tuple([second, first], ast.Load()))


def _mapping(node: ast.Dict) -> Iterator[tuple[str, ast.AST]]:
    for number in range(len(node.keys)):
        keys = [*node.keys[:number], *node.keys[number + 1 :]]
        yield "component dropped", ast.Dict(keys, [*node.values[:number], *node.values[number + 1 :]])


def _comprehended(node: ast.comprehension) -> Iterator[tuple[str, ast.AST]]:
    for number in range(len(node.ifs)):
        kept = [*node.ifs[:number], *node.ifs[number + 1 :]]
        yield "filter dropped", ast.comprehension(node.target, node.iter, kept, node.is_async)


def _removed(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "statement removed", ast.Pass()


def _handled(node: ast.ExceptHandler) -> Iterator[tuple[str, ast.AST]]:
    yield "handler raises", ast.ExceptHandler(node.type, node.name, [ast.Raise()])


_CHANGES: dict[type[ast.AST], tuple[Any, ...]] = {
    ast.Compare: (_compare,),
    ast.BoolOp: (_boolean,),
    ast.UnaryOp: (_unary,),
    ast.BinOp: (_binary,),
    ast.Constant: (_constant,),
    ast.If: (_condition,),
    ast.IfExp: (_condition,),
    ast.Call: (_call,),
    ast.Return: (_returned,),
    ast.Dict: (_mapping,),
    ast.comprehension: (_comprehended,),
    ast.Expr: (_removed,),
    ast.AugAssign: (_removed,),
    ast.Continue: (_removed,),
    ast.Break: (_removed,),
    ast.ExceptHandler: (_handled,),
}


def count_loops(tree: ast.AST) -> None:
    """Have each loop that a mutant may never leave call ``__audit_tick__`` first, which raises in the end."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While):
            tick = ast.Expr(ast.Call(ast.Name(TICK, ast.Load()), [], []))
            node.body.insert(0, _placed(tick, node.lineno))


def _placed(node: Any, line: int) -> Any:
    """Give a fresh node and what is new in it a place, as the compiler wants one."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr | ast.stmt | ast.excepthandler | ast.keyword) and not hasattr(part, "lineno"):
            part.lineno, part.col_offset, part.end_lineno, part.end_col_offset = line, 0, line, 0
    return node


def _label(before: ast.AST, after: ast.AST) -> str:
    if isinstance(before, ast.If):
        return f"if {_words(before.test)} -> if {_words(after.test)}"  # type: ignore[attr-defined]
    return f"{_words(before)} -> {_words(after)}"


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.ExceptHandler):
        return "except" if node.type is None else f"except {ast.unparse(node.type)}"
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:60]}…{text[-25:]}"
