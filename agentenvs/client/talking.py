"""Many dialogues side by side: the steps that they ask for at a time become one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple

from agentenvs.client.calls import Answer, Call, Dialogue, T
from agentenvs.client.problems import nonsense
from agentenvs.client.reading import loads

MOST_ITEMS = 1024
"""Steps of one request; fewer where a server says so."""

MOST_BYTES = 1 << 20

_STEPS = "/v1/steps"
_WRONG = (KeyError, TypeError, ValueError)


class Talk(Generic[T]):
    """Dialogues, each at its next request or at its end.

    Args:
        dialogues: What is to be said.
    """

    def __init__(self, dialogues: Sequence[Dialogue[T]]) -> None:
        self._dialogues = dialogues
        self._calls: dict[int, Call] = {}
        self._results: dict[int, T | Exception] = {}
        for place, dialogue in enumerate(dialogues):
            self._go_on(place, partial(next, dialogue))

    def calls(self) -> list[Call]:
        """Return the requests of those that have not ended, in order."""
        return list(self._calls.values())

    def answer(self, answers: Sequence[Answer]) -> None:
        """Hand on the answers, and come to the next requests."""
        calls, self._calls = self._calls, {}
        for place, answer in zip(calls, answers, strict=True):
            self._go_on(place, partial(self._dialogues[place].send, answer))

    def fail(self, error: Exception) -> None:
        """Tell all that there is no answer."""
        calls, self._calls = self._calls, {}
        for place in calls:
            self._go_on(place, partial(self._dialogues[place].throw, error))

    @property
    def results(self) -> list[T | Exception]:
        """What came of each: what it returned, or the exception it raised."""
        return [self._results[place] for place in range(len(self._dialogues))]

    def _go_on(self, place: int, go: Callable[[], Call]) -> None:
        try:
            self._calls[place] = go()
        except StopIteration as done:
            self._results[place] = done.value
        except Exception as error:  # noqa: BLE001 - boundary: the failure of one dialogue must not take the others
            self._results[place] = error


class Unit(NamedTuple):
    """One request, and whose: several steps at once, or one call of any kind."""

    call: Call
    places: Sequence[int]
    is_batch: bool

    def answers(self, answer: Answer, host: str) -> Sequence[Answer]:
        """Return the answers to what was asked at each place.

        Raises:
            ServiceError: They make no sense.
        """
        if not self.is_batch or answer.status != 200:
            return [answer] * len(self.places)
        try:
            form = loads(answer.data) if answer.form is None else answer.form
            items = [_item(item) for item in form["items"]]
        except _WRONG as error:
            raise nonsense(host, f"{type(error).__name__}: {error}"[:300]) from error
        if len(items) != len(self.places):
            raise nonsense(host, f"{len(items)} answers to {len(self.places)} steps")
        return items


def _item(form: dict[str, object]) -> Answer:
    status, wait = form["status"], form.get("retry_after")
    if type(status) is not int:
        raise TypeError("a status is a whole number")
    said = form["result"] if status == 200 else form["problem"]
    return Answer(status, float(wait) if isinstance(wait, int | float) else None, b"", said)


def units(calls: Sequence[Call], places: Sequence[int], most: int) -> list[Unit]:
    """Return the requests that ask for some of the calls; steps go together that one worker has in memory.

    Args:
        calls: All of them.
        places: Which are to be asked for.
        most: How many steps a request may have.
    """
    found: list[Unit] = []
    groups: dict[str, list[int]] = {}
    for place in places:
        if calls[place].op == "step" and most > 1:
            groups.setdefault(calls[place].route, []).append(place)
        else:
            found.append(Unit(calls[place], [place], False))
    for route, group in groups.items():
        found += [_together(calls, part, route) for part in _parts(calls, group, most)]
    return found


def _parts(calls: Sequence[Call], places: Sequence[int], most: int) -> Iterator[list[int]]:
    """Cut steps into requests that are neither too long nor too large."""
    part: list[int] = []
    size = 0
    for place in places:
        length = len(calls[place].body or b"")
        if part and (len(part) >= most or size + length > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(place)
        size += length
    if part:
        yield part


def _together(calls: Sequence[Call], places: list[int], route: str) -> Unit:
    if len(places) == 1:
        return Unit(calls[places[0]], places, False)
    body = b'{"items":[%b]}' % b",".join([calls[place].item() for place in places])
    return Unit(Call("POST", _STEPS, body, op="steps", route=route), places, True)
