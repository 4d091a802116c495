"""Clients that play, reset and close without pause, and write down every turn they were answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentenvs.client import AsyncRemoteEnv, ClientSettings
from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.streams import Stream
from agentenvs.core.task import TaskRef
from tests.faults.calling import Answer, Batcher, Caller, GaveUp, Refused, Swapped
from tests.faults.twins import Twin, seen, shown

DURABILITY = (*["group"] * 7, "strict")
MOST_TURNS = {"household": 40, "ledger": 24, "clerk": 20}


@dataclass
class Tale:
    """One episode as its client saw it."""

    env: str
    name: str
    ref: TaskRef
    opening: str
    """Digest of the first observation."""
    session: str | None
    """Where its record can be asked for."""
    turns: list[tuple[int, Any, str, float]] = field(default_factory=list)
    """Turn, action, digest of the observation, reward."""
    ended: bool = False
    record: bytes | None = None
    """The record, where its client fetched it."""


@dataclass
class Book:
    """What all clients saw."""

    tales: list[Tale] = field(default_factory=list)
    sessions: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Kind and words of everything that must not be."""
    turns: int = 0

    def note(self, error: Exception, who: str) -> None:
        """Note why a client's career ended."""
        kinds: dict[type[Exception], str] = {Swapped: "swapped", GaveUp: "failed", Refused: "refused"}
        self.faults.append((kinds.get(type(error), "failed"), f"{who}: {type(error).__name__}: {error}"[:600]))


Step = Callable[[str, dict[str, Any]], Awaitable[Answer]]


class Career:
    """One client that plays one session after another over HTTP, or in batches with others.

    Args:
        env: What it plays.
        caller: Its way to the server.
        batcher: Takes its steps; each goes alone where None.
        stream: Chance.
        book: Takes what it sees.
        durability: Asked for at create; drawn from these.
    """

    def __init__(
        self,
        env: str,
        caller: Caller,
        batcher: Batcher | None,
        stream: Stream,
        book: Book,
        durability: Sequence[str] = DURABILITY,
    ) -> None:
        self._caller = caller
        self._batcher = batcher
        self._stream = stream
        self._book = book
        self._durability = durability
        self._twin = Twin(env, stream)
        self._agent_key: str | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Play until told to stop, then to the end of the session."""
        try:
            while not stop.is_set():
                await self._session(stop)
        except Exception as error:  # noqa: BLE001 - boundary: the account says what came of it
            self._book.note(error, f"{self._twin.slug} over HTTP")
        finally:
            await self._caller.close()

    async def _session(self, stop: asyncio.Event) -> None:
        twin, ref = self._twin, self._twin.ref()
        body = {
            "env": twin.slug,
            "key": self._key(),
            "task": {"split": ref.split, "seed": ref.index},
            "options": twin.options,
            "durability": self._stream.choice(self._durability),
            "trace": self._stream.chance(1, 6),
        }
        form = self._must(201, await self._caller.ask("POST", "/v1/sessions", body))
        path = f"/v1/sessions/{form['session']}"
        self._book.sessions += 1
        while True:
            tale = self._begin(form, ref, path)
            await self._episode(tale, path, stop)
            if stop.is_set() or self._stream.chance(1, 2):
                break
            ref, form = await self._reset(path, tale)
        ending = "truncated" if self._stream.chance(1, 3) else "abandoned"
        closed = self._must(200, await self._caller.ask("DELETE", f"{path}?ending={ending}"))
        self._same((tale.name, len(tale.turns)), (closed["episode"], closed["turn"]))
        if not tale.ended:
            self._same(ending, closed["ending"])

    def _begin(self, form: dict[str, Any], ref: TaskRef, path: str) -> Tale:
        first = self._twin.reset(ref).to_json()
        self._same(first, form["observation"])
        self._agent_key = form["agent_key"] if self._stream.chance(1, 4) else None
        tale = Tale(self._twin.spec.id, form["episode"], ref, seen(first), path)
        self._book.tales.append(tale)
        return tale

    async def _episode(self, tale: Tale, path: str, stop: asyncio.Event) -> None:
        for turn in range(1, self._stream.between(1, MOST_TURNS[self._twin.slug]) + 1):
            if stop.is_set() or tale.ended:
                return
            action = self._twin.choose()
            body = {"turn": turn, "action": action}
            form = self._must(200, await self._step(path, tale.name, body))
            expected = shown(await self._twin.play(action))
            self._same({"episode": tale.name, "turn": turn, **expected}, form)
            _write(tale, turn, action, form["observation"], form["reward"])
            tale.ended = form["terminated"] or form["truncated"]
            self._book.turns += 1
            if self._stream.chance(1, 25):
                status = self._must(200, await self._caller.ask("GET", path))
                self._same((tale.name, turn), (status["episode"], status["turn"]))

    async def _step(self, path: str, episode: str, body: dict[str, Any]) -> Answer:
        if self._agent_key is not None:
            return await self._caller.ask("POST", "/v1/agent/step", body, self._agent_key)
        full = {"episode": episode, **body}
        if self._batcher is not None:
            return await self._batcher.step({"session": path.rpartition("/")[2], **full})
        return await self._caller.ask("POST", f"{path}/step", full)

    async def _reset(self, path: str, tale: Tale) -> tuple[TaskRef, dict[str, Any]]:
        ref = self._twin.ref()
        following = TaskRef(tale.ref.split, tale.ref.index + 1)
        explicit = {"split": ref.split, "seed": ref.index}
        ref, task = self._stream.choice(((ref, explicit), (tale.ref, "same"), (following, None)))
        body = {"key": self._key(), "ends": tale.name, "task": task}
        return ref, self._must(200, await self._caller.ask("POST", f"{path}/reset", body))

    def _key(self) -> str:
        return f"{self._stream.bits(96):x}"

    @staticmethod
    def _must(status: int, answer: Answer) -> dict[str, Any]:
        if answer.status != status:
            raise Refused(f"{answer.status} {answer.body[:400]!r}")
        form: dict[str, Any] = answer.form
        return form

    @staticmethod
    def _same(expected: Any, found: Any) -> None:
        if expected != found:
            raise Swapped(f"expected {expected!r:.250}, found {found!r:.250}")


class Shipped:
    """A client of the package's own, over the socket that it shares with others.

    Args:
        env: What it plays.
        url: The server.
        stream: Chance.
        book: Takes what it sees.
    """

    def __init__(self, env: str, url: str, stream: Stream, book: Book) -> None:
        self._twin = Twin(env, stream)
        self._url = url
        self._stream = stream
        self._book = book

    async def run(self, stop: asyncio.Event) -> None:
        """Play until told to stop, then to the end of the session."""
        try:
            settings = ClientSettings(backoff=0.05, max_wait=0.5)
            remote = AsyncRemoteEnv(self._twin.slug, self._url, options=self._twin.options, settings=settings)
            async with remote:
                while not stop.is_set():
                    await self._episode(remote, stop)
        except AgentEnvsError as error:
            self._book.faults.append(("failed", f"{self._twin.slug} over the socket: {error}"[:600]))
        except Exception as error:  # noqa: BLE001 - boundary: the account says what came of it
            self._book.note(error, f"{self._twin.slug} over the socket")

    async def _episode(self, remote: AsyncRemoteEnv, stop: asyncio.Event) -> None:
        ref = self._twin.ref()
        first = await remote.reset(ref)
        self._same(self._twin.reset(ref).to_json(), first.to_json())
        tale = Tale(self._twin.spec.id, remote.episode, ref, seen(first.to_json()), None)
        self._book.tales.append(tale)
        for turn in range(1, self._stream.between(1, MOST_TURNS[self._twin.slug]) + 1):
            if tale.ended or stop.is_set():
                break
            action = self._twin.choose()
            expected = shown(await self._twin.play(action))
            result = await remote.step(action)
            self._same(expected, shown(result))
            _write(tale, turn, action, result.observation.to_json(), result.reward)
            tale.ended = result.terminated or result.truncated
            self._book.turns += 1
        if not tale.ended:
            await remote.finish("abandoned")
        tale.record = await remote.record()

    @staticmethod
    def _same(expected: Any, found: Any) -> None:
        if expected != found:
            raise Swapped(f"expected {expected!r:.250}, found {found!r:.250}")


def _write(tale: Tale, turn: int, action: Any, observation: Any, reward: float) -> None:
    tale.turns.append((turn, to_json(parse_action(action)), seen(observation), reward))
