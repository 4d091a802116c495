"""A readable map of a scenario: what its library holds, its question, and the proof, hop by hop."""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.envs.searchworld.holdings import Holding, UniverseShelf
from agentenvs_scenarios.searchworld import programs
from agentenvs_scenarios.searchworld.model import Scenario
from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.schema import TYPES, schema

_MOST_SHOWN = 3
_WIDTH = 14


def describe(scenario: Scenario, holding: Holding) -> str:
    """Return the map of a scenario; it gives the answer away."""
    asked = scenario.question
    lines = [*_map(holding), "", f"question   {asked.sentence}", f"kind       {asked.kind}, {asked.hops} hops"]
    said = "; ".join(spellings[0] for spellings in asked.answers) or "none: the articles do not say"
    lines.append(f"answer     {said}")
    if asked.twin:
        lines.append(f"twin       {asked.twin}")
    if holding.shelf is not None and asked.program:
        lines += ["", "proof", *(f"  {line}" for line in _proof(holding.shelf, asked.program))]
    lines += ["", "articles it rests on", *(f"  {line}" for line in _evidence(scenario, holding))]
    return "\n".join(lines)


def _map(holding: Holding) -> Iterator[str]:
    library, shelf = holding.library, holding.shelf
    if shelf is None:
        yield f"a corpus of {len(library):,} articles"
        return
    universe = shelf.universe
    size = len(universe.texts.data)
    yield f"a universe of {universe.people:,} people: {len(library):,} articles, {size:,} characters"
    for name, count in zip(TYPES, universe.counts, strict=True):
        first = universe.first[name]
        shown = ", ".join(universe.name(first + place) for place in range(min(count, _MOST_SHOWN)))
        yield f"  {name:<{_WIDTH}} {count:>7,}  {shown}, …"
    yield "relations"
    for relation, links in zip(schema().relations, universe.links, strict=True):
        count = int((links.objects >= 0).sum())
        mine = int((links.mine & (links.objects >= 0)).sum())
        told = f"{count:>7,} facts, {100 * mine // max(count, 1):>3} % told by the {relation.subject}"
        yield f"  {relation.name:<{_WIDTH}} {told}  ({relation.subject} → {relation.object})"


def _proof(shelf: UniverseShelf, program: Program) -> Iterator[str]:
    """Yield what each part of a program comes to, innermost first."""
    for part in program[1:]:
        if isinstance(part, tuple) and part and part[0] in _PARTS:
            yield from _proof(shelf, part)
    if program[0] == "entity":
        return
    found = programs.run(shelf.universe, shelf.names, program).values
    yield f"{_wording(program)} = {', '.join(found) or 'nobody and nothing'}"


_PARTS = frozenset(("entity", "called", "step", "value", "count", "pick", "where", "both"))


def _wording(program: Program) -> str:
    if program[0] in ("entity", "called", "step"):
        return programs.phrase(program)
    return programs.question(program)


def _evidence(scenario: Scenario, holding: Holding) -> Iterator[str]:
    library = holding.library
    for name in scenario.question.supports:
        number = library.number_of(name)
        if number is not None:
            yield f"[{name}] {library.title(number)}"
