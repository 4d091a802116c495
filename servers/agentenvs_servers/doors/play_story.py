"""What has happened in an episode, as a person reads it: turns with what was done and what was seen.

The record has the actions, and of observations the digests. What was seen is remembered here as far as it fits; what is
not (another worker played it, a program did, the server was restarted) is seen again by playing the record in a world
of its own, and shown where its digest is the recorded one. So nothing has to be kept, and nothing is ever guessed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.observation import Observation
from agentenvs.core.record import Recorded, effects_of
from agentenvs.core.task import TaskRef
from agentenvs_servers.dumping import dump
from agentenvs_servers.episodes import Episode
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.worlds import World

MOST_SEEN_BYTES = 32 * 2**20
"""The most that remembered observations may take."""

BREATH_TURNS = 25
"""Turns of a replay after which others are let in between."""

log = logging.getLogger("agentenvs.server")


@dataclass(frozen=True, slots=True)
class Story:
    """How an episode stands."""

    session: str
    world: World
    open: bool
    """Whether its session is."""
    episode: str
    task: Mapping[str, Any]
    turn: int
    lines: Sequence[Mapping[str, JSON]]
    """Its record: header, turns, and a footer where it has ended."""
    observation: bytes | None
    """The last one, as JSON; None where its world is gone."""
    legal: tuple[str, ...] | None
    """What can be done now as text, where the world tells."""
    ending: str | None
    verdict: Mapping[str, Any] | None
    scenario: str | None
    """Readable name of its scenario, once it has ended."""
    earlier: tuple[str, ...] = ()
    """Earlier episodes of the session whose records are kept."""

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.ending is not None

    @property
    def turns(self) -> Sequence[Mapping[str, JSON]]:
        """The lines of its turns."""
        return self.lines[1 : self.turn + 1]

    @property
    def can_go_back(self) -> bool:
        """Whether turns can be taken back: the session is open, and the same actions lead to the same world."""
        same = self.world.spec.capabilities.deterministic and not any(line.get("effects") for line in self.lines)
        return self.open and same and self.turn > 0 and len(self.turns) == self.turn


class Seen:
    """What players have seen, by episode and turn.

    Args:
        most: The most bytes that are kept; whole episodes go, those that nobody looks at first.
    """

    def __init__(self, most: int = MOST_SEEN_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[str, dict[int, bytes]] = OrderedDict()
        self.size = 0
        """Bytes that are kept."""

    def note(self, episode: str, turn: int, observation: bytes) -> None:
        """Remember an observation."""
        turns = self._kept.setdefault(episode, {})
        self._kept.move_to_end(episode)
        self.size += len(observation) - len(turns.get(turn, b""))
        turns[turn] = observation
        while self.size > self._most:
            _, gone = self._kept.popitem(last=False)
            self.size -= sum(map(len, gone.values()))

    def of(self, episode: str) -> Mapping[int, bytes]:
        """Return what is remembered of an episode, by turn."""
        return self._kept.get(episode, {})


async def story_of(hall: Hall, session: Session) -> Story:
    """Return how the episode of a session stands, also of one that is closed or expired.

    Raises:
        ProblemError: ``sealed_closed``; ``closed`` or ``expired``, where nothing is kept of it; or why the world of an
            open session cannot be had.
    """
    if session.sealed:
        raise ProblemError("sealed_closed", "it is played through the native protocol alone")
    if session.over is None:

        async def look(episode: Episode) -> Story:
            return await _running(hall, session, episode)

        try:
            return await session.between_turns(look)
        except ProblemError as problem:
            if problem.code not in ("closed", "expired"):
                raise
    return await _past(session)


async def _running(hall: Hall, session: Session, episode: Episode) -> Story:
    env, caller = episode.env, hall.tools.caller
    legal, scenario = None, None
    try:
        if episode.ended:
            scenario, _ = await caller.call(env, episode.known)
        else:
            legal = await caller.call(env, env.admissible)
    except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
        log.error("the environment failed when the page of %s was made: %s", episode.name, told(error))
    lines = _parsed(episode.record()) if episode.ended else episode.recorded.save()["lines"]
    return Story(
        session.name,
        session.world,
        True,
        episode.name,
        episode.task,
        min(episode.turn, sum(line["kind"] == "turn" for line in lines)),
        lines,
        episode.observation,
        legal,
        episode.ending(),
        episode.told_verdict(),
        scenario,
        tuple(name for name in session.records if name != episode.name),
    )


async def _past(session: Session) -> Story:
    """Return the last episode of a session that is over.

    Raises:
        ProblemError: ``closed`` or ``expired``, where nothing is kept of it.
    """
    try:
        lines = _parsed(await session.record(None))
        farewell = json.loads(session.farewell or b"null")
    except (ProblemError, ValueError):
        lines, farewell = [], None
    if not farewell or not lines:
        session.must_be_open()
        raise ProblemError("closed")
    return Story(
        session.name,
        session.world,
        False,
        farewell["episode"],
        farewell["task"],
        sum(line["kind"] == "turn" for line in lines),
        lines,
        None,
        None,
        farewell["ending"],
        farewell["verdict"],
        farewell["scenario"],
        tuple(name for name in session.records if name != farewell["episode"]),
    )


async def seen(hall: Hall, story: Story, turns: Collection[int], kept: Seen) -> dict[int, Observation]:
    """Return what was seen in turns; those of which it is not known any more are left out.

    Args:
        hall: The sessions.
        story: The episode.
        turns: Which; 0 is the beginning.
        kept: What is remembered; what is found out goes there.
    """
    if story.observation is not None:
        kept.note(story.episode, story.turn, story.observation)
    wanted = [turn for turn in turns if turn < len(story.lines)]
    missing = [turn for turn in wanted if turn not in kept.of(story.episode)]
    known = dict(kept.of(story.episode))
    if missing and story.world.spec.capabilities.replayable:
        try:
            await _play_again(hall, story, max(missing), kept, known)
        except (AgentEnvsError, ProblemError) as error:
            log.info("what was seen in %s is not found out again: %s", story.episode, told(error))
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            log.error("the environment failed when %s was played again: %s", story.episode, told(error))
    found = {turn: Observation.from_json(json.loads(known[turn])) for turn in wanted if turn in known}
    return {turn: each for turn, each in found.items() if each.digest() == story.lines[turn]["observation"]}


async def _play_again(hall: Hall, story: Story, last: int, kept: Seen, known: dict[int, bytes]) -> None:
    world, caller = story.world, hall.tools.caller
    env = await caller.call(world, world.make, dict(story.task["options"]))
    try:
        recorded, ref = Recorded(env), story.task["ref"]
        effects = effects_of(story.lines[0]["effects"])
        first = await caller.call(env, lambda: recorded.reset(TaskRef(ref["split"], ref["index"]), effects=effects))
        _take(story, 0, first, kept, known)
        for turn, line in enumerate(story.turns[:last], 1):
            result = await caller.step(recorded, line["action"], effects=effects_of(line["effects"]))
            _take(story, turn, result.observation, kept, known)
            if turn % BREATH_TURNS == 0:
                await asyncio.sleep(0)
    finally:
        await caller.call(env, env.close)


def _take(story: Story, turn: int, observation: Observation, kept: Seen, known: dict[int, bytes]) -> None:
    known[turn] = dump(observation.to_json())
    kept.note(story.episode, turn, known[turn])


def _parsed(record: bytes) -> list[dict[str, JSON]]:
    return [json.loads(line) for line in record.splitlines() if line]


# ---- words -----------------------------------------------------------------------------------------------------------


def spoken(action: JSON) -> str:
    """Return an action in a line, as a person would write it down."""
    if isinstance(action, str):
        return action
    if not isinstance(action, Mapping):
        return canonical(action)
    if "tool" in action:
        given = action.get("arguments", {})
        return f"{action['tool']}({', '.join(f'{name}={canonical(value)}' for name, value in given.items())})"
    if "calls" in action:
        calls = " · ".join(spoken(call) for call in action["calls"])
        return f"{calls} · “{action['text']}”" if action.get("text") else calls
    if "message" in action:
        return f"“{action['message']}”"
    if "end" in action:
        return f"the end: {action['end']}" if action["end"] else "the end"
    raw = action.get("malformed", action)
    return raw if isinstance(raw, str) else canonical(raw)


def speaker_of(action: JSON) -> str:
    """Return who answers an action: the other speaker where something was said to one, else the world."""
    return "The other speaker" if isinstance(action, Mapping) and "message" in action else "The world"


def digest_of(observation: Mapping[str, JSON]) -> str:
    """Return the digest that a record has of an observation."""
    return Observation.from_json(observation).digest()
