"""Draws questions: programs with an answer, or none, of a kind and a number of hops.

A *hop* is an article that must be opened: every relation walked, attribute read or byname resolved is one, and each has
an article of its own, which no other hop of the question uses. A draft starts from an entity in the middle, walks back
to an anchor it can be reached from, and on to an answer; at each step only relations that lead somewhere new, to few,
are drawn from, which is what makes long chains cheap. Nobody is visited twice.

Drafts are proposals: whether one may be asked is for the gates to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from agentenvs.core.streams import Stream
from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.schema import INVERSE, TYPES, Attribute, Direction, directions, reverse, schema
from agentenvs_scenarios.searchworld.universe import Universe

KINDS: Final = ("chain", "attribute", "set", "constraint", "comparison", "intersection", "count", "twin")
FEWEST: Final = {
    "chain": 1,
    "attribute": 1,
    "set": 1,
    "constraint": 2,
    "comparison": 6,
    "intersection": 4,
    "count": 1,
    "twin": 1,
}
"""The fewest hops a kind can have."""

MOST_ANSWERS: Final = 5
MOST_BETWEEN: Final = 2
"""Members a set on the way may have."""
COUNTS: Final = (2, 6)
"""The least and the most that is asked to be counted."""
MOST_CANDIDATES: Final = 6
"""Members of a set that a constraint chooses from."""

_TRIES: Final = 40
_WEIGHTS: Final = {"person": 60, "settlement": 10, "guild": 10, "event": 10, "artefact": 10}
_WIDTH: Final = 300
"""Years or stones of a range, at most on either side: so many that nobody finds whoever is meant by the range alone."""
_LETTERS: Final = 10
"""The same of letters."""


class Draft(NamedTuple):
    """A question that is proposed."""

    kind: str
    hops: int
    program: Program
    answerable: bool = True
    twin: Program | None = None
    """Of an (un)answerable twin: the question it is the twin of."""


class _Trail(NamedTuple):
    """A way from an anchor to one entity."""

    entity: int
    program: Program
    seen: frozenset[int]
    articles: frozenset[int]


_Step: TypeAlias = tuple[Direction, tuple[int, ...], frozenset[int]]
"""A direction, the entities it leads to, and whose articles say so."""

_NONE: Final[frozenset[int]] = frozenset()


class Sampler:
    """Draws questions about a universe.

    Args:
        universe: The universe.
        stream: Where chance comes from.
    """

    def __init__(self, universe: Universe, stream: Stream) -> None:
        self._universe = universe
        self._stream = stream
        self._variant = 0

    def draft(self, kind: str, hops: int, variant: int) -> Draft | None:
        """Return a draft, or None where none was found in some tries.

        Args:
            kind: Its kind.
            hops: Its hops.
            variant: Any number; decides what must be dealt evenly: what a count comes to, and whether a twin has an
                answer.
        """
        make = _MAKERS[kind]
        self._variant = variant
        for _ in range(_TRIES):
            made = make(self, hops)
            if made is not None:
                return made
        return None

    # ---- kinds -----------------------------------------------------------------------------------------------------

    def _chain(self, hops: int) -> Draft | None:
        program = self._through(hops, lambda step: 1 <= len(step[1]) <= MOST_ANSWERS)
        return None if program is None else Draft("chain", hops, program)

    def _several(self, hops: int) -> Draft | None:
        program = self._through(hops, lambda step: 2 <= len(step[1]) <= MOST_ANSWERS)
        return None if program is None else Draft("set", hops, program)

    def _attribute(self, hops: int) -> Draft | None:
        entity = self._somebody()
        attribute = self._asked(entity)
        trail = self._approach(entity, hops - 1, articles=frozenset((entity,)), veil=True)
        if attribute is None or trail is None:
            return None
        return Draft("attribute", hops, ("value", attribute.name, trail.program))

    def _count(self, hops: int) -> Draft | None:
        wanted = COUNTS[0] + self._variant % (COUNTS[1] - COUNTS[0] + 1)
        way = self._stream.choice([way for name in TYPES for way in directions()[name] if way.way == INVERSE])
        known = self._universe.having(way, wanted)
        if not len(known):
            return None
        entity = known.item(self._stream.below(len(known)))
        edges = self._universe.edges(way, entity)
        counted, told = frozenset(target for target, _ in edges), frozenset(article for _, article in edges)
        trail = self._approach(entity, hops - 1, counted, told, veil=True)
        return trail and Draft("count", hops, ("count", way.relation.name, way.way, trail.program))

    def _comparison(self, hops: int) -> Draft | None:
        kind = "person" if self._stream.chance(1, 2) else self._stream.choice(TYPES[1:])
        attribute = next(item for item in schema().attributes if item.type == kind and item.name in schema().compare)
        first, second = self._one_of(kind), self._one_of(kind)
        values = [self._universe.number(attribute, entity) for entity in (first, second)]
        if first == second or values[0] == values[1]:
            return None
        whole = hops - 2
        left = self._approach(first, whole // 2, frozenset((second,)), frozenset((first, second)))
        if left is None:
            return None
        right = self._approach(second, whole - whole // 2, left.seen, left.articles | {first, second})
        if right is None:
            return None
        pair = (left.program, right.program) if self._stream.chance(1, 2) else (right.program, left.program)
        return Draft("comparison", hops, ("pick", attribute.name, self._stream.below(2), *pair))

    def _intersection(self, hops: int) -> Draft | None:
        entity = self._somebody()
        sides = [found for way in self._ways(entity) if (found := self._shared(way, entity)) is not None]
        if len(sides) < 2:
            return None
        (way, source, told), (other, second, also) = self._stream.sample(sides, 2)
        these, those = self._targets(way, source), self._targets(other, second)
        common = these & those
        if source == second or told == also or len(common) > MOST_ANSWERS or common in (these, those):
            return None
        barred = frozenset(common) | {second}
        left = self._approach(source, (hops - 2) // 2, barred, frozenset((told, also)))
        if left is None:
            return None
        right = self._approach(second, hops - 2 - (hops - 2) // 2, left.seen | common, left.articles)
        if right is None:
            return None
        programs = (_step(way, left.program), _step(other, right.program))
        return Draft("intersection", hops, ("both", *programs))

    def _constraint(self, hops: int) -> Draft | None:
        entity = self._somebody()
        sides = [found for way in self._ways(entity) if (found := self._shared(way, entity)) is not None]
        sides = [side for side in sides if self._universe.degree(side[0], side[1]) <= MOST_CANDIDATES]
        if not sides:
            return None
        way, source, told = self._stream.choice(sides)
        base = self._targets(way, source)
        tests = self._tests(entity, base)
        if not tests:
            return None
        articles = frozenset(article for _, article in self._universe.edges(way, source)) | {entity}
        trail = self._approach(source, hops - 1 - (told != entity), frozenset(base), articles, veil=True)
        return trail and Draft("constraint", hops, ("where", tests, _step(way, trail.program)))

    def _twin(self, hops: int) -> Draft | None:
        """A question whose last relation is told of nobody, or the one like it whose last relation is."""
        entity = self._somebody()
        ways = [way for way in self._ways(entity) if way.way != INVERSE]
        empty = [way for way in ways if not self._universe.degree(way, entity)]
        told = [way for way in ways if self._universe.degree(way, entity)]
        answerable = self._variant % 2 == 0
        if not empty or not told:
            return None
        without, way = self._stream.choice(empty), self._stream.choice(told)
        ((target, article),) = self._universe.edges(way, entity)
        trail = self._approach(entity, hops - 1, frozenset((target,)), frozenset((article, entity)), veil=True)
        if trail is None:
            return None
        pair = _step(way, trail.program), _step(without, trail.program)
        return Draft("twin", hops, pair[not answerable], answerable, pair[answerable])

    # ---- ways ------------------------------------------------------------------------------------------------------

    def _through(self, hops: int, wanted: Callable[[_Step], bool]) -> Program | None:
        """Return a chain through an entity in the middle, whose last step is as wanted."""
        back = self._stream.below(hops)
        trail = self._approach(self._somebody(), back, veil=True)
        return None if trail is None else self._onwards(trail, hops - back, wanted)

    def _onwards(self, trail: _Trail, count: int, wanted: Callable[[_Step], bool]) -> Program | None:
        program, seen, articles = trail.program, set(trail.seen), set(trail.articles)
        members: tuple[int, ...] = (trail.entity,)
        for left in range(count, 0, -1):
            step = self._feasible(members, seen, articles, wanted if left == 1 else _is_small)
            if step is None:
                return None
            way, members, told = step
            program = _step(way, program)
            seen.update(members)
            articles |= told
        return program

    def _feasible(
        self, members: tuple[int, ...], seen: set[int], articles: set[int], wanted: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return one of the steps that lead to somebody new by articles not yet used; all equally likely."""
        ways = list(self._ways(members[0]))
        self._stream.shuffle(ways)
        for way in ways:
            if sum(self._universe.degree(way, member) for member in members) > 2 * MOST_ANSWERS:
                continue
            edges = [edge for member in members for edge in self._universe.edges(way, member)]
            targets = tuple(sorted({target for target, _ in edges}))
            step = way, targets, frozenset(article for _, article in edges)
            if targets and seen.isdisjoint(targets) and articles.isdisjoint(step[2]) and wanted(step):
                return step
        return None

    def _approach(
        self,
        entity: int,
        count: int,
        seen: frozenset[int] = _NONE,
        articles: frozenset[int] = _NONE,
        veil: bool = False,
    ) -> _Trail | None:
        """Return a way of ``count`` hops that leads to an entity and to nobody else, found by walking back from it.

        Args:
            entity: Where it leads.
            count: Hops.
            seen: Entities it must not visit.
            articles: Entities whose articles it must not use.
            veil: Whether the anchor may be named by its byname, which is a hop.
        """
        been, used, here = {*seen, entity}, set(articles), entity
        ways: list[Direction] = []
        for left in range(count, 0, -1):
            if veil and left == 1 and self._stream.chance(1, 3) and (alias := self._alias(here, used)):
                return _Trail(entity, _along(("called", alias), ways), frozenset(been), frozenset(used | {here}))
            found = self._back(here, been, used)
            if found is None:
                return None
            way, here, told = found
            ways.append(way)
            been.add(here)
            used.add(told)
        anchor = ("entity", self._universe.name(here))
        return _Trail(entity, _along(anchor, ways), frozenset(been), frozenset(used))

    def _back(self, entity: int, seen: set[int], articles: set[int]) -> tuple[Direction, int, int] | None:
        """Return a way to an entity alone from somebody new; all ways equally likely."""
        ways = list(self._ways(entity))
        self._stream.shuffle(ways)
        for way in ways:
            edges = self._universe.edges(way, entity)
            if not edges:
                continue
            source, told = edges[self._stream.below(len(edges))]
            towards = reverse(way)
            if source not in seen and told not in articles and self._universe.degree(towards, source) == 1:
                return towards, source, told
        return None

    # ---- small things ----------------------------------------------------------------------------------------------

    def _ways(self, entity: int) -> tuple[Direction, ...]:
        return directions()[self._universe.type_of(entity)]

    def _somebody(self) -> int:
        return self._one_of(self._stream.weighted(TYPES, [_WEIGHTS[name] for name in TYPES]))

    def _one_of(self, kind: str) -> int:
        return self._universe.first[kind] + self._stream.below(self._universe.counts[TYPES.index(kind)])

    def _alias(self, entity: int, articles: set[int]) -> str | None:
        attribute = schema().attribute("alias")
        if self._universe.type_of(entity) != attribute.type or entity in articles:
            return None
        return self._universe.value(attribute, entity)

    def _targets(self, way: Direction, entity: int) -> set[int]:
        return {target for target, _ in self._universe.edges(way, entity)}

    def _shared(self, way: Direction, entity: int) -> tuple[Direction, int, int] | None:
        """Return how an entity is reached together with others: the way to it, from whom, and who tells."""
        if way.way == INVERSE or way.relation.symmetric or not (edges := self._universe.edges(way, entity)):
            return None
        source, told = edges[0]
        towards = reverse(way)
        return (towards, source, told) if self._universe.degree(towards, source) >= 2 else None

    def _asked(self, entity: int) -> Attribute | None:
        """Return an attribute to ask for; frequent values are drawn less often, so that no guess is a good one."""
        kind = self._universe.type_of(entity)
        attribute = self._stream.choice([item for item in schema().attributes if item.type == kind])
        value = self._universe.number(attribute, entity)
        if value is None:
            return None
        if attribute.kind != "words":
            return attribute
        frequencies = self._universe.frequencies[attribute.number]
        fair = max(int(frequencies.sum()) // (2 * len(frequencies)), 1)
        return attribute if self._stream.below(int(frequencies[value])) < fair else None

    def _tests(self, entity: int, base: set[int]) -> tuple[Program, ...]:
        """Return one to three constraints that an entity holds to and not everybody of a set does; empty for none."""
        kind = self._universe.type_of(entity)
        known = [item for item in schema().attributes if item.type == kind and item.name in schema().filters]
        tests: list[Program] = []
        wanted = self._stream.between(1, min(3, len(known)))
        for attribute in self._stream.sample(known, len(known)):
            value = self._universe.number(attribute, entity)
            if value is not None and len(tests) < wanted and (test := self._test(attribute, value, base)) is not None:
                tests.append(test)
        kept = [other for other in sorted(base) if all(self._passes(test, other) for test in tests)]
        return tuple(tests) if tests and len(kept) < len(base) else ()

    def _test(self, attribute: Attribute, value: int, base: set[int]) -> Program | None:
        """Return a constraint that a value holds to; None where somebody of the set would be at its very edge."""
        if attribute.kind == "number":
            low = max(value - 1 - self._stream.below(_WIDTH), schema().first_year - 1)
            high = min(value + 1 + self._stream.below(_WIDTH), schema().last_year + 1)
            is_clear = {low, high}.isdisjoint(self._universe.number(attribute, other) for other in base)
            return ("range", attribute.name, low, high) if is_clear else None
        letter = ord(self._universe.words[attribute.number][value][0])
        low = max(letter - self._stream.below(_LETTERS), ord("a"))
        high = min(letter + self._stream.below(_LETTERS), ord("z"))
        return ("letters", attribute.name, chr(low), chr(high)) if low < high else None

    def _passes(self, test: Program, entity: int) -> bool:
        attribute = schema().attribute(test[1])
        value = self._universe.number(attribute, entity)
        if value is None:
            return False
        if test[0] == "range":
            return bool(test[2] <= value <= test[3])
        return bool(test[2] <= self._universe.words[attribute.number][value][0] <= test[3])


def _is_small(step: _Step) -> bool:
    return len(step[1]) <= MOST_BETWEEN and len(step[2]) <= MOST_BETWEEN


def _step(way: Direction, program: Program) -> Program:
    return ("step", way.relation.name, way.way, program)


def _along(anchor: Program, ways: Iterable[Direction]) -> Program:
    program = anchor
    for way in reversed(list(ways)):
        program = _step(way, program)
    return program


_MAKERS: Final[dict[str, Callable[[Sampler, int], Draft | None]]] = {
    "chain": Sampler._chain,
    "attribute": Sampler._attribute,
    "set": Sampler._several,
    "constraint": Sampler._constraint,
    "comparison": Sampler._comparison,
    "intersection": Sampler._intersection,
    "count": Sampler._count,
    "twin": Sampler._twin,
}
