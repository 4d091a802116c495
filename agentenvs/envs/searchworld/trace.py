"""What a turn observed, used and wrote, as facts; computed when somebody asks.

A fact is ``(entity, relation, value)``: ``(title, "found", id)`` of what a search listed, ``(title, "opened", id)`` of
an article that was shown in full, and, in a universe, each fact that article states: ``(subject, relation, object)``.
An answer uses the supporting articles that were opened, and writes ``("player", "answered", …)``.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentenvs.core.actions import ToolCall
from agentenvs.core.trace import Fact
from agentenvs.core.turn import TraceParts
from agentenvs.envs.searchworld.actions import Answer, Read, Search
from agentenvs.envs.searchworld.holdings import Holding
from agentenvs.envs.searchworld.rules import Event, World
from agentenvs_scenarios.searchworld.model import Scenario


def parts(world: World, event: Event, holding: Holding, scenario: Scenario) -> TraceParts:
    """Return the facts of the last turn."""
    if event.error is not None or event.command is None:
        return TraceParts()
    library = world.library
    observed = [
        Fact(library.title(item.number), "found", library.id_of(item.number), world.found[item.number])
        for item in event.found
    ]
    for number in event.opened:
        observed += _opened(world, holding, number)
    if not isinstance(event.command, Answer):
        return TraceParts(tuple(observed), canonical=_canonical(event, world))
    supports = set(scenario.question.supports)
    used = [
        Fact(library.title(number), "opened", library.id_of(number), turn)
        for number, turn in world.opened.items()
        if library.id_of(number) in supports
    ]
    written = tuple(Fact("player", "answered", text) for text in event.command.answers)
    return TraceParts((), tuple(used), written, ("answered",), _canonical(event, world))


def _opened(world: World, holding: Holding, number: int) -> Iterable[Fact]:
    library, turn = world.library, world.opened[number]
    yield Fact(library.title(number), "opened", library.id_of(number), turn)
    if holding.shelf is not None:
        for fact in holding.reader.facts(number):
            yield Fact(fact.subject, fact.name, fact.value, turn)


def _canonical(event: Event, world: World) -> ToolCall | str | None:
    """Return the one spelling of a command; a search in tags, which no tool does, stays as it was said."""
    command = event.command
    if isinstance(command, Search):
        if command.tags:
            return f"<search>{command.query}</search>"
        return ToolCall("search", {"query": command.query, "k": command.k})
    if isinstance(command, Read):
        return ToolCall("read", {"article": world.library.id_of(event.opened[0])})
    return ToolCall("answer", {"answers": list(command.answers)}) if isinstance(command, Answer) else None
