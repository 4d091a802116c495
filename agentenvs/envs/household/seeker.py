"""Players that look for things: the hand-coded expert, and one that knows nothing but where things usually lie.

Both see only what every player sees, with or without the list of admissible commands. They find a goal object, take
it, treat it if the task says so, and bring it where it belongs; to find means to visit receptacles in some order and
to open the closed ones. They differ in that order, in what they remember and in whether they close what they opened.
Nothing in them is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.envs.household.belief import Belief, class_of
from agentenvs_scenarios.household.tables import Room, tables

_TREATMENTS = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasin"),
    "pick_heat_then_place_in_recep": ("heat", "microwave"),
    "pick_cool_then_place_in_recep": ("cool", "fridge"),
}
_ROOM_SIGNS: tuple[tuple[str, Room], ...] = (("microwave", "kitchen"), ("toilet", "bathroom"), ("bed", "bedroom"))


class Seeker:
    """What both have in common; see the module."""

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Forget the episode before."""
        self._belief: Belief | None = None
        self._said: str = ""
        self._target: str | None = None
        self._focus: str | None = None
        self._looked_into: set[str] = set()

    def act(self, observation: Observation) -> str:
        """Return the next command."""
        belief = self._belief
        if belief is None:
            self._belief = belief = Belief(observation.text)
            command = self._first(belief)
        else:
            belief.update(self._said, observation.text, observation.admissible)
            self._looked_into.update(name for name in belief.around() if name in belief.contents)
            command = self._next(belief)
        self._said = command
        return command

    def _first(self, belief: Belief) -> str:
        return self._next(belief)

    def _order(self, belief: Belief, cls: str) -> Iterable[str]:
        """Return all receptacles in the order in which they are visited to find an object of a class."""
        raise NotImplementedError

    def _seen(self, belief: Belief, cls: str) -> Iterable[tuple[str, str]]:
        """Return the objects of a class, with their receptacles, that it knows of."""
        raise NotImplementedError

    def _tidy(self) -> str | None:
        """Return a command that clears up before it walks on."""
        return None

    def _next(self, belief: Belief) -> str:
        meaning = belief.meaning
        if meaning is None or not belief.receptacles:
            return "look"  # a sentence no template wrote: it does not know what to do
        held = belief.held
        if held is None:
            return self._fetch(belief, meaning.thing)
        if meaning.task == "look_at_obj_in_light":
            return self._light(belief, meaning.target)
        treatment = _TREATMENTS.get(meaning.task)
        if treatment is not None and belief.treated.get(held) != treatment[0]:
            return self._treat(belief, held, *treatment)
        return self._place(belief, held, meaning.target)

    def _fetch(self, belief: Belief, cls: str) -> str:
        for thing, receptacle in self._seen(belief, cls):
            if receptacle != self._target and f"take {thing} from {receptacle}" not in belief.refused:
                return self._reach(belief, receptacle) or f"take {thing} from {receptacle}"
        return self._search(belief, cls)

    def _light(self, belief: Belief, cls: str) -> str:
        for lamp, receptacle in self._seen(belief, cls):
            if f"use {lamp}" not in belief.refused:
                return f"use {lamp}" if belief.is_here(receptacle) else f"go to {receptacle}"
        return self._search(belief, cls)

    def _treat(self, belief: Belief, held: str, verb: str, cls: str) -> str:
        for name in self._of_class(belief, cls):
            command = f"{verb} {held} with {name}"
            if command not in belief.refused:
                return command if belief.is_here(name) else f"go to {name}"
        return "look"

    def _place(self, belief: Belief, held: str, cls: str) -> str:
        commands = {name: _placing(belief, held, name) for name in self._of_class(belief, cls)}
        names = [name for name, command in commands.items() if command]
        if not names:
            return "look"
        if self._target not in names:
            self._target = min(names, key=lambda name: (not belief.is_here(name), name in belief.closed))
        return self._reach(belief, self._target) or commands[self._target]

    def _reach(self, belief: Belief, receptacle: str) -> str | None:
        """Return the next command on the way to reach into a receptacle, or None where nothing is in the way."""
        if not belief.is_here(receptacle):
            return f"go to {receptacle}"
        if receptacle in belief.closed:
            return f"open {receptacle}"
        return None if receptacle in belief.contents else f"examine {receptacle}"

    def _search(self, belief: Belief, cls: str) -> str:
        """Return the next command of a visit to all receptacles that were not looked into."""
        if self._focus is not None and belief.is_here(self._focus):
            opening = f"open {self._focus}"
            if self._focus not in self._looked_into and opening not in belief.refused:
                return opening if self._focus in belief.closed else f"examine {self._focus}"
            if tidying := self._tidy():
                return tidying
        for _ in range(2):
            for name in self._order(belief, cls):
                if name not in self._looked_into and f"open {name}" not in belief.refused:
                    self._focus = name
                    if belief.is_here(name):
                        return f"open {name}" if name in belief.closed else f"examine {name}"
                    return f"go to {name}"
            self._looked_into.clear()  # it was nowhere: look everywhere once more
        return "look"

    def _of_class(self, belief: Belief, cls: str) -> Iterator[str]:
        """Return the receptacles of a class, those here first, then in reverse order of the room sentence."""
        names = [name for name in reversed(belief.receptacles) if class_of(name) == cls]
        yield from sorted(names, key=lambda name: not belief.is_here(name))


def _placing(belief: Belief, held: str, receptacle: str) -> str:
    """Return the command that places an object, in words that were not refused; empty if all were."""
    spellings = {"0.3": f"put {held} in/on {receptacle}", "0.4": f"move {held} to {receptacle}"}
    known = [spellings[belief.version]] if belief.version else list(spellings.values())
    return next((command for command in known if command not in belief.refused), "")


class Expert(Seeker):
    """The rule agent of the field (ALFWorld, agents/expert/handcoded_expert.py), its bookkeeping mended.

    It looks around first, visits the receptacles that may hold the object in reverse order of the room sentence, then
    all others, opens closed ones and closes them again before it walks on, and remembers everything it saw. Where the
    original chooses at random among what it sees, it takes the first.
    """

    def _first(self, belief: Belief) -> str:
        return "look"

    def _order(self, belief: Belief, cls: str) -> Iterable[str]:
        likely = tables().accepts.get(cls, ())
        backwards = belief.receptacles[::-1]
        return sorted(backwards, key=lambda name: class_of(name) not in likely)

    def _seen(self, belief: Belief, cls: str) -> Iterable[tuple[str, str]]:
        return belief.find(cls)

    def _tidy(self) -> str | None:
        return f"close {self._focus}" if self._said == f"open {self._focus}" else None


class Prior(Seeker):
    """The baseline that knows where things usually lie, and looks nowhere else first.

    It visits receptacles by how often the field's rooms have an object of the goal's class in or on one of that class
    (the table of placements, by kind of room, shared among the receptacles of a class), then all others. It remembers
    where it has looked but nothing of what it saw: an object counts only while it stands before it.
    """

    def _order(self, belief: Belief, cls: str) -> Iterable[str]:
        classes = [class_of(name) for name in belief.receptacles]
        room: Room = next((room for sign, room in _ROOM_SIGNS if sign in classes), "livingroom")
        percent = tables().placements[room].get(cls, {})
        return sorted(
            belief.receptacles,
            key=lambda name: -percent.get(class_of(name), 0) / classes.count(class_of(name)),
        )

    def _seen(self, belief: Belief, cls: str) -> Iterable[tuple[str, str]]:
        return [(thing, receptacle) for thing, receptacle in belief.find(cls) if belief.is_here(receptacle)]
