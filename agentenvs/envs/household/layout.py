"""A scenario compiled for play: immutable tables that all episodes of it share.

Receptacles, objects and places are indices in id order; what an object can do and what it is at the moment are bits of
one byte. State keys are sums over the facts that hold, modulo the prime 2**128 - 159, of ``entity key * value key``,
both drawn from the scenario's digest: a sum does not depend on the path, a change costs one multiplication, and two
different sets of facts meet with probability at most 2**-127 (Schwartz and Zippel: the difference is a polynomial of
degree two).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, get_args

from agentenvs_scenarios.household.model import Receptacle, Scenario, TextVersion, Thing

Profile: TypeAlias = Literal["original", "compat", "native"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)

PICKUPABLE: Final = 1
CLEANABLE: Final = 2
HEATABLE: Final = 4
COOLABLE: Final = 8
TOGGLEABLE: Final = 16
SLICEABLE: Final = 32
CONTAINER: Final = 64
WANTED: Final = 128
"""An object that counts for the goal: of its class and, where a state is asked for, able to have it."""

CLEAN: Final = 1
HOT: Final = 2
COOL: Final = 4
SLICED: Final = 8
TOGGLED: Final = 16

PRIME: Final = 2**128 - 159

_FLAG_BITS: Final = {
    "pickupable": PICKUPABLE,
    "cleanable": CLEANABLE,
    "heatable": HEATABLE,
    "coolable": COOLABLE,
    "toggleable": TOGGLEABLE,
    "sliceable": SLICEABLE,
    "container": CONTAINER,
}
STATE_BITS: Final = {"clean": CLEAN, "hot": HOT, "cool": COOL, "sliced": SLICED, "toggled": TOGGLED}
_APPLIANCES: Final = {"sinkbasin": CLEAN, "microwave": HOT, "fridge": COOL}
_CUTTERS: Final = ("knife", "butterknife")
_ASKED: Final = {
    "pick_clean_then_place_in_recep": (CLEANABLE, CLEAN),
    "pick_heat_then_place_in_recep": (HEATABLE, HOT),
    "pick_cool_then_place_in_recep": (COOLABLE, COOL),
}
"""Ability and state a goal asks of its object."""


class Keys:
    """Random numbers below :data:`PRIME` behind the state keys; see the module's first lines."""

    __slots__ = ("at", "gone", "hand", "inside", "open", "place", "state", "thing")

    def __init__(self, seed: str, things: int, receptacles: int, places: int) -> None:
        sizes = (places, receptacles, things, receptacles, places, receptacles)
        count = sum(sizes) + 1 + 32
        data = hashlib.shake_128(seed.encode()).digest(16 * count)
        numbers = iter([int.from_bytes(data[i : i + 16], "big") % PRIME for i in range(0, len(data), 16)])
        self.place, self.open, self.thing, self.inside, self.at, self.gone = (_take(numbers, size) for size in sizes)
        self.hand = next(numbers)
        """Value key of being held; the base of all keys is :attr:`state` ``[0]``, no state at all."""
        bits = _take(numbers, 5)
        self.state = [sum(key for bit, key in enumerate(bits) if state >> bit & 1) for state in range(32)]
        """Value key of each combination of states: the sum of the keys of its bits."""


def _take(numbers: Iterator[int], count: int) -> list[int]:
    return [next(numbers) for _ in range(count)]


class Layout:
    """Everything about a scenario that does not change during play.

    Args:
        scenario: The scenario.
        profile: ``original`` keeps the defects, ``compat`` closes the holes, ``native`` also gives every receptacle a
            place of its own.
        text: Words to use; the scenario's where None.
        aliases: Whether both ``put X in/on Y`` and ``move X to Y`` are understood.
    """

    __slots__ = (
        "accepting",
        "aliases",
        "appliances",
        "ask",
        "at",
        "compat",
        "contents",
        "cuts",
        "flags",
        "go_commands",
        "here",
        "initial_key",
        "keys",
        "knives",
        "lamps",
        "look",
        "native",
        "openable",
        "opening",
        "place_names",
        "place_of",
        "profile",
        "receptacle_index",
        "receptacles",
        "scenario",
        "shared",
        "shut",
        "sliceables",
        "start",
        "states",
        "targets",
        "text",
        "thing_index",
        "things",
        "two",
        "wanted",
        "within",
    )

    def __init__(
        self,
        scenario: Scenario,
        profile: Profile = "compat",
        text: TextVersion | None = None,
        aliases: bool = False,
    ) -> None:
        self.scenario = scenario
        self.profile = profile
        self.compat = profile != "original"
        self.native = profile == "native"
        self.text = text or scenario.text_version
        self.aliases = aliases
        self.receptacles = [item.name for item in scenario.receptacles]
        self.things = [item.name for item in scenario.things]
        self.receptacle_index = {name: index for index, name in enumerate(self.receptacles)}
        self.thing_index = {name: index for index, name in enumerate(self.things)}
        self._set_places(scenario)
        self._set_abilities(scenario.receptacles, scenario.things)
        self._set_start(scenario.receptacles, scenario.things)
        self._set_goal(scenario)
        seed = f"agentenvs/household/state/1\x00{scenario.digest}\x00{profile}"
        self.keys = Keys(seed, len(self.things), len(self.receptacles), len(self.place_names))
        self.initial_key = 0
        """Key of the initial state, kept here by the rules once they have computed it."""

    def _set_places(self, scenario: Scenario) -> None:
        """Set where receptacles stand; in ``native`` each has a place of its own, and the start is the last place."""
        receptacles = scenario.receptacles
        if self.native:
            self.place_names = [f"loc {index + 1}" for index in range(len(receptacles) + 1)]
            self.place_of = list(range(len(receptacles)))
            self.start = len(receptacles)
            self.at = [item.within for item in scenario.things]
        else:
            self.place_names = list(scenario.places)
            self.place_of = [item.place for item in receptacles]
            self.start = scenario.start
            self.at = [item.at for item in scenario.things]
        here: list[list[int]] = [[] for _ in self.place_names]
        for index, place in enumerate(self.place_of):
            here[place].append(index)
        self.here = [tuple(items) for items in here]
        """Receptacles at each place, in id order."""
        self.shared = bytes(len(here[place]) > 1 for place in self.place_of)
        """Whether a receptacle shares its place."""
        ordered = sorted((f"go to {name}", place) for name, place in zip(self.receptacles, self.place_of, strict=True))
        self.go_commands = tuple(command for command, _ in ordered)
        cuts: list[list[int]] = [[] for _ in self.place_names]
        for position, (_, place) in enumerate(ordered):
            cuts[place].append(position)
        self.cuts = [tuple(items) for items in cuts]
        """Positions in :attr:`go_commands` of the receptacles at each place, ascending."""

    def _set_abilities(self, receptacles: tuple[Receptacle, ...], things: tuple[Thing, ...]) -> None:
        self.openable = bytes(item.openable for item in receptacles)
        self.appliances = bytes(_APPLIANCES.get(item.cls, 0) for item in receptacles)
        """State each receptacle can give: :data:`CLEAN`, :data:`HOT`, :data:`COOL` or 0."""
        takes = dict(self.scenario.accepts)
        masks: dict[str, int] = {}
        for index, item in enumerate(receptacles):
            for cls in takes.get(item.cls, ()):
                masks[cls] = masks.get(cls, 0) | 1 << index
        self.accepting = [masks.get(item.cls, 0) for item in things]
        """Bit mask of the receptacles that take each object."""
        flags = (sum(_FLAG_BITS[flag] for flag in item.flags) for item in things)
        self.flags = bytearray(flags)
        self.knives = bytes(item.cls in _CUTTERS for item in things)
        self.sliceables = tuple(index for index, flag in enumerate(self.flags) if flag & SLICEABLE)
        self.lamps = tuple(index for index, flag in enumerate(self.flags) if flag & TOGGLEABLE)
        """Objects that can be used."""

    def _set_start(self, receptacles: tuple[Receptacle, ...], things: tuple[Thing, ...]) -> None:
        """Set the initial state."""
        self.shut = bytes(item.openable and not item.open for item in receptacles)
        self.states = bytes(sum(STATE_BITS[state] for state in item.states) for item in things)
        self.within = [item.within for item in things]
        inside: list[list[int]] = [[] for _ in receptacles]
        for index, item in enumerate(things):
            for receptacle in item.within:
                inside[receptacle].append(index)
        self.contents = [tuple(items) for items in inside]
        """Objects in each receptacle, in id order."""

    def _set_goal(self, scenario: Scenario) -> None:
        goal = scenario.goal
        ability, self.ask = _ASKED.get(goal.task, (0, 0))
        self.look = goal.task == "look_at_obj_in_light"
        self.two = goal.task == "pick_two_obj_and_place"
        wanted = [
            index
            for index, item in enumerate(scenario.things)
            if item.cls == goal.thing and self.flags[index] & ability == ability
        ]
        for index in wanted:
            self.flags[index] |= WANTED
        self.wanted = tuple(wanted)
        """Objects that count for the goal."""
        if self.look:
            self.targets = tuple(index for index in self.lamps if scenario.things[index].cls == goal.target)
        else:
            self.targets = tuple(index for index, item in enumerate(scenario.receptacles) if item.cls == goal.target)
        """Receptacles that count for the goal; lamps, where it is to look at something."""
        self.opening = ""
        """The first observation, kept here by the words once they have composed it."""
