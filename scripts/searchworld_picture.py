"""Draws docs/searchworld.svg: one question of a small universe, the way to its answer, and what stands beside it.

    python scripts/searchworld_picture.py            # write
    python scripts/searchworld_picture.py --check    # exit 1 where the picture is not what the universe says

The universe and the question are those of a seed, so the picture cannot drift from the generator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from agentenvs.core import registry
from agentenvs_scenarios.searchworld import programs
from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.schema import directions
from agentenvs_scenarios.searchworld.universe import Universe

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "searchworld.svg"

_WIDTH, _LEFT, _STEP, _TOP, _RISE = 960, 90, 156, 150, 74
_MOST_BESIDE = 2
_COLOURS = {"person": "#2b6cb0", "settlement": "#2f855a", "guild": "#b7791f", "event": "#9b2c2c", "artefact": "#6b46c1"}


class Node(NamedTuple):
    """An entity in the picture."""

    name: str
    kind: str
    x: int
    y: int


def picture() -> str:
    """Return the picture."""
    env: Any = registry.make("searchworld", people="500", difficulty="medium")
    for index in range(200):
        scenario = env.scenario("train", index)
        way = list(_way(scenario.question.program))
        if scenario.question.kind == "chain" and len(way) == 5 and _is_single(env, way):
            return _drawn(env, scenario, way)
    raise SystemExit("no question of this universe can be drawn")


def _way(program: Program) -> Iterator[Program]:
    """Yield the parts of a chain from its anchor on, without the anchor."""
    while program[0] == "step":
        yield program
        program = program[3]
    if program[0] == "called":
        yield program


def _is_single(env: Any, way: list[Program]) -> bool:
    shelf = env._held.shelf
    found = [programs.run(shelf.universe, shelf.names, part).values for part in way]
    return way[-1][0] == "step" and all(len(values) == 1 for values in found)


def _drawn(env: Any, scenario: Any, way: list[Program]) -> str:
    shelf = env._held.shelf
    universe: Universe = shelf.universe
    steps = [part for part in reversed(way) if part[0] == "step"]
    entities = [shelf.names.number(steps[0][3][1])]
    entities += [shelf.names.number(programs.run(universe, shelf.names, part).values[0]) for part in steps]
    nodes = [
        Node(universe.name(entity), universe.type_of(entity), _LEFT + _STEP * place, _TOP)
        for place, entity in enumerate(entities)
    ]
    parts = [_head(scenario, nodes)]
    for place, entity in enumerate(entities):
        parts += _beside(universe, nodes[place], entity, set(entities), place)
    for place, part in enumerate(steps):
        parts += _arrow(universe, nodes, place, part, entities)
    parts += [_node(node, place in (0, len(nodes) - 1)) for place, node in enumerate(nodes)]
    parts += _legend(universe)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _head(scenario: Any, nodes: list[Node]) -> str:
    said = escape(scenario.question.sentence)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 330" font-family="sans-serif" font-size="12">\n'
        f"<title>A question, and the way to its answer</title>\n"
        f"<desc>From {escape(nodes[0].name)} over four others to {escape(nodes[-1].name)}.</desc>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#444"/></marker></defs>\n'
        f'<rect width="{_WIDTH}" height="330" fill="#fff"/>\n'
        f'<text x="20" y="30" font-size="14">{said}</text>'
    )


def _beside(universe: Universe, node: Node, entity: int, shown: set[int], place: int) -> list[str]:
    """Return a few neighbours that are not on the way, faded."""
    parts: list[str] = []
    others = [
        target
        for way in directions()[node.kind]
        for target, _ in universe.edges(way, entity)[:1]
        if target not in shown
    ]
    for number, other in enumerate(dict.fromkeys(others[:_MOST_BESIDE])):
        rise = _RISE if (number + place) % 2 else -_RISE
        y, kind = node.y + rise + (10 if rise > 0 else 0), universe.type_of(other)
        parts.append(
            f'<g opacity="0.45"><path d="M{node.x} {node.y} L{node.x} {y}" stroke="#999" stroke-dasharray="3 3"/>'
            f'<circle cx="{node.x}" cy="{y}" r="6" fill="{_COLOURS[kind]}"/>'
            f'<text x="{node.x}" y="{y + (20 if rise > 0 else -12)}" text-anchor="middle" font-size="10">'
            f"{escape(universe.name(other))}</text></g>"
        )
    return parts


def _arrow(universe: Universe, nodes: list[Node], place: int, part: Program, entities: list[int]) -> list[str]:
    """Return a step of the way, with whose article tells of it."""
    left, right = nodes[place], nodes[place + 1]
    along = programs.direction(part[1], part[2])
    told = next(article for target, article in universe.edges(along, entities[place]) if target == entities[place + 1])
    teller = left if told == entities[place] else right
    x = (left.x + right.x) // 2
    return [
        f'<path d="M{left.x + 12} {left.y} L{right.x - 14} {right.y}" stroke="#444" stroke-width="1.6" '
        'marker-end="url(#tip)"/>',
        f'<text x="{x}" y="{left.y - 8}" text-anchor="middle" font-size="11">{along.phrase.removesuffix(" of")}</text>',
        f'<circle cx="{teller.x + (24 if teller is left else -24)}" cy="{left.y + 13}" r="4" fill="#444"/>',
    ]


def _node(node: Node, end: bool) -> str:
    first, _, second = node.name.partition(" ")
    weight = ' font-weight="bold"' if end else ""
    return (
        f'<circle cx="{node.x}" cy="{node.y}" r="11" fill="{_COLOURS[node.kind]}" stroke="#222" '
        f'stroke-width="{2 if end else 0}"/>'
        f'<text x="{node.x}" y="{node.y + 28}" text-anchor="middle"{weight}>{escape(first)}</text>'
        f'<text x="{node.x}" y="{node.y + 42}" text-anchor="middle"{weight}>{escape(second)}</text>'
    )


def _legend(universe: Universe) -> list[str]:
    parts = []
    for place, (kind, colour) in enumerate(_COLOURS.items()):
        x, count = 24 + 130 * place, universe.counts[place]
        word = "people" if kind == "person" else f"{kind}s"
        parts.append(
            f'<circle cx="{x}" cy="304" r="6" fill="{colour}"/><text x="{x + 12}" y="308">{count} {word}</text>'
        )
    parts.append('<circle cx="690" cy="304" r="3.5" fill="#444"/><text x="700" y="308">whose article tells it</text>')
    return parts


def main() -> int:
    """Write the picture, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the picture is out of date")
    args = parser.parse_args()
    drawn = picture()
    if not args.check:
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != drawn:
        sys.stderr.write(f"{PICTURE.name} is out of date; run python scripts/searchworld_picture.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
