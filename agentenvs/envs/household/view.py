"""How the household speaks: replies, the first observation and the admissible commands; it changes nothing.

Every string is that of the original, in both text versions. The description of a receptacle and the commands a place
offers are kept in the state until a rule drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from agentenvs.envs.household.layout import (
    CLEAN,
    CLEANABLE,
    CONTAINER,
    COOL,
    COOLABLE,
    HEATABLE,
    HOT,
    PICKUPABLE,
    SLICED,
    TOGGLEABLE,
    TOGGLED,
    Layout,
)
from agentenvs.envs.household.rules import Event, Offer, State, can_reach_to_slice

NOTHING: Final = "Nothing happens."

BANNER: Final = "-= Welcome to TextWorld, ALFRED! =-"

HELP_TEXT: Final = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

_STATE_WORDS: Final = (
    (CLEAN | HOT | SLICED, "hot and clean sliced "),
    (CLEAN | COOL | SLICED, "cool and clean sliced "),
    (CLEAN | SLICED, "clean sliced "),
    (HOT | SLICED, "hot sliced "),
    (COOL | SLICED, "cool sliced "),
    (CLEAN | HOT, "hot and clean "),
    (CLEAN | COOL, "cool and clean "),
    (HOT, "hot "),
    (CLEAN, "clean "),
    (COOL, "cold "),
)
"""How ``examine`` calls an object; the first line whose states all hold applies."""


def listed(names: Sequence[str], article: str = "a ") -> str:
    """Return ``a fork 1, and a peppershaker 1`` for names; ``nothing`` for none."""
    if not names:
        return "nothing"
    if len(names) == 1:
        return article + names[0]
    joint = ", " + article
    return f"{article}{joint.join(names[:-1])}, and {article}{names[-1]}"


def opening(layout: Layout) -> str:
    """Return the first observation: banner, room sentence, task sentence."""
    if not layout.opening:
        room = listed(layout.receptacles)
        layout.opening = (
            f"{BANNER}\n\nYou are in the middle of a room. Looking quickly around you, you see {room}.\n\n"
            f"Your task is to: {layout.scenario.goal.sentence}"
        )
    return layout.opening


def describe(state: State, receptacle: int) -> str:
    """Return what there is to see of a receptacle."""
    text = state.views[receptacle]
    if text is None:
        layout = state.layout
        name = layout.receptacles[receptacle]
        if state.shut[receptacle]:
            text = f"The {name} is closed."
        else:
            things = layout.things
            contents = listed([things[thing] for thing in state.contents[receptacle]])
            if layout.openable[receptacle]:
                text = f"The {name} is open. In it, you see {contents}."
            else:
                text = f"On the {name}, you see {contents}."
        state.views[receptacle] = text
    return text


def reply(state: State, event: Event) -> str:
    """Return what a player reads after an event, ``state`` being the state right after it."""
    return NOTHING if event[3] is not None else WORDS[event[0]](state, event)


def _go(state: State, event: Event) -> str:
    layout = state.layout
    receptacle = event[1]
    where = layout.receptacles[receptacle] if layout.text == "0.4" else layout.place_names[state.place]
    return f"You arrive at {where}. {describe(state, receptacle)}"


def _open(state: State, event: Event) -> str:
    return f"You open the {state.layout.receptacles[event[1]]}. {describe(state, event[1])}"


def _close(state: State, event: Event) -> str:
    return f"You close the {state.layout.receptacles[event[1]]}."


def _take(state: State, event: Event) -> str:
    layout = state.layout
    return f"You pick up the {layout.things[event[1]]} from the {layout.receptacles[event[2]]}."


def _move(state: State, event: Event) -> str:
    layout = state.layout
    thing, receptacle = layout.things[event[1]], layout.receptacles[event[2]]
    if layout.text == "0.3":
        return f"You put the {thing} in/on the {receptacle}."
    return f"You move the {thing} to the {receptacle}."


def _treat(verb: str) -> Callable[[State, Event], str]:
    def words(state: State, event: Event) -> str:
        layout = state.layout
        return f"You {verb} the {layout.things[event[1]]} using the {layout.receptacles[event[2]]}."

    return words


def _use(state: State, event: Event) -> str:
    return f"You turn on the {state.layout.things[event[1]]}."


def _slice(state: State, event: Event) -> str:
    things = state.layout.things
    return f"You sliced the {things[event[1]]} with the {things[event[2]]}."


def _examine(state: State, event: Event) -> str:
    return describe(state, event[1])


def _inspect(state: State, event: Event) -> str:
    layout = state.layout
    thing = event[1]
    name, flags, states = layout.things[thing], layout.flags[thing], state.states[thing]
    if flags & CONTAINER:
        inside = listed([layout.things[item] for item in layout.scenario.things[thing].contents])
        return f"This is a normal {name}. In it, you see {inside}."
    for mask, words in _STATE_WORDS:
        if states & mask == mask:
            return f"This is a {words}{name}."
    if flags & TOGGLEABLE:
        return f"This {name} is {'on' if states & TOGGLED else 'off'}."
    if states & SLICED:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."


def _look(state: State, event: Event) -> str:
    layout = state.layout
    here = layout.here[event[1]]
    if not here:
        return "You are in the middle of a room. Looking quickly around you, you see nothing."
    facing = listed([layout.receptacles[receptacle] for receptacle in here], "")
    beside = listed([layout.things[thing] for thing in event[4] or ()])
    return f"You are facing the {facing}. Next to it, you see {beside}."


def _inventory(state: State, event: Event) -> str:
    held = event[1]
    return f"You are carrying: a {state.layout.things[held]}." if held >= 0 else "You are not carrying anything."


def _help(_: State, __: Event) -> str:
    return HELP_TEXT


def _nothing(_: State, __: Event) -> str:
    return NOTHING


Words: TypeAlias = Callable[[State, Event], str]

WORDS: Final[tuple[Words, ...]] = (
    _nothing,
    _go,
    _open,
    _close,
    _take,
    _move,
    _treat("clean"),
    _treat("heat"),
    _treat("cool"),
    _use,
    _slice,
    _examine,
    _inspect,
    _look,
    _inventory,
    _help,
)
"""The words of each operation that was done, by number."""


def admissible(state: State) -> tuple[str, ...]:
    """Return the commands that would be done now, sorted as plain strings."""
    layout = state.layout
    place = state.place
    before: Sequence[str]
    after: Sequence[str]
    heating: Sequence[str] = ()
    if state.held >= 0:
        before, heating, after = _held_offer(state, place)
    else:
        offer = state.offers[place]
        if offer is None:
            offer = state.offers[place] = _offer(state, place)
        before, after = offer
    bare = _BARE[layout.text]
    commands = layout.go_commands
    cuts = layout.cuts[place]
    if len(cuts) == 1:
        cut = cuts[0]
        return (*before, *commands[:cut], *commands[cut + 1 :], *heating, *bare, *after)
    if cuts:
        commands = tuple(command for position, command in enumerate(commands) if position not in cuts)
    return (*before, *commands, *heating, *bare, *after)


_BARE: Final = {"0.3": ("inventory", "look"), "0.4": ("help", "inventory", "look")}


def _offer(state: State, place: int) -> Offer:
    """Return what a place offers an empty hand: commands that sort before ``go to``, and those after ``look``."""
    layout = state.layout
    before: list[str] = []
    after: list[str] = []
    for receptacle in layout.here[place]:
        name = layout.receptacles[receptacle]
        before.append(f"examine {name}")
        if state.shut[receptacle]:
            after.append(f"open {name}")
            continue
        if layout.openable[receptacle]:
            before.append(f"close {name}")
        things, flags = layout.things, layout.flags
        end = f" from {name}"
        after += [f"take {things[thing]}{end}" for thing in state.contents[receptacle] if flags[thing] & PICKUPABLE]
    if layout.lamps:
        after += _uses(state, place)
    before.sort()
    after.sort()
    return tuple(before), tuple(after)


def _uses(state: State, place: int) -> Iterable[str]:
    """Return a command for each lamp in a receptacle at a place, closed or not."""
    layout = state.layout
    return [
        f"use {layout.things[lamp]}"
        for lamp in layout.lamps
        if any(layout.place_of[receptacle] == place for receptacle in state.within[lamp])
    ]


def _held_offer(state: State, place: int) -> tuple[list[str], Sequence[str], list[str]]:
    """Return what a place offers a hand that holds something: before ``go to``, ``heat``, and after ``look``."""
    layout = state.layout
    held = state.held
    thing, accepting = layout.things[held], layout.accepting[held]
    put, link = ("put", "in/on") if layout.text == "0.3" else ("move", "to")
    before = [f"examine {thing}"]
    after: list[str] = []
    heating: list[str] = []
    for receptacle in layout.here[place]:
        name = layout.receptacles[receptacle]
        before.append(f"examine {name}")
        if state.shut[receptacle]:
            after.append(f"open {name}")
        else:
            if layout.openable[receptacle]:
                before.append(f"close {name}")
            if accepting >> receptacle & 1:
                after.append(f"{put} {thing} {link} {name}")
        treatment = _TREATMENTS.get(layout.appliances[receptacle])
        if treatment and layout.flags[held] & treatment[0]:
            (heating if treatment[1] == "heat" else before).append(f"{treatment[1]} {thing} with {name}")
    if layout.knives[held]:
        reachable = (item for item in layout.sliceables if can_reach_to_slice(state, item))
        after += [f"slice {layout.things[item]} with {thing}" for item in reachable]
    if layout.lamps:
        after += _uses(state, place)
    before.sort()
    after.sort()
    heating.sort()
    return before, heating, after


_TREATMENTS: Final = {CLEAN: (CLEANABLE, "clean"), HOT: (HEATABLE, "heat"), COOL: (COOLABLE, "cool")}
