"""An episode as trainers want it: messages go to the model, its words or calls come back, facts of the turn beside.

What a model is told, and how its words are read, is the protocol ``native`` of the harness: one strict line
``Action: …``, else the turn is used up. So a model is trained on what it is judged on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import agentenvs
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError
from agentenvs.core.playable import Playable
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Verdict
from agentenvs.harness import protocol as protocols
from agentenvs.harness.chat import Reply
from agentenvs.harness.history import show
from agentenvs.harness.prompting import head
from agentenvs.harness.reading import read_text

TTL = 3600
"""Seconds a session on a server may idle, so that it outlives the optimizer's steps and evaluations in between."""


class Heard(NamedTuple):
    """What came of a turn."""

    text: str
    """What the model is shown next."""
    reward: float
    terminated: bool
    truncated: bool
    facts: dict[str, JSON]
    """``turn``, ``valid``, ``error``, ``state_before``, ``state_key`` (after the turn) and ``potential``; for the
    trainer, never for the model."""

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class Episode:
    """One episode after the other of an environment, here or on a server.

    Args:
        env: As :func:`agentenvs.make` takes it.
        url: A server; ``token`` and ``settings`` are then those of :class:`agentenvs.client.RemoteEnv`.
        tools: The model calls tools, and is told so, instead of writing action lines.
        **options: Options of the environment.

    Raises:
        UserError: As for :func:`agentenvs.make`.
    """

    def __init__(self, env: str, *, url: str | None = None, tools: bool = False, **options: Any) -> None:
        self.env = _made(env, url, options)
        self.protocol = protocols.load("native")
        self.tools = tools
        self.paid = 0.0

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself."""
        return self.env.spec

    @property
    def system(self) -> str:
        """What a model is told before everything else."""
        return "\n\n".join(str(message["content"]) for message in head(self.protocol, self.spec, tools=self.tools))

    @property
    def anchor(self) -> str:
        """The key of the state as it is; on a server the address of the scenario until the first turn is played."""
        key = getattr(self.env, "state_key", None)
        if isinstance(key, str):
            return key
        trace = self.env.last_trace
        return f"{self.spec.id}/{self.env.ref}" if trace is None else trace.state_after

    def address(self, split: str | None, index: int) -> TaskRef:
        """Return the address of a scenario; in a finite split the index is taken modulo its size.

        Raises:
            SplitError: There is no such split.
        """
        ref = TaskRef(split or self.spec.default_split, index)
        found = self.env.splits().get(ref.split)
        if found is not None and found.size:
            ref = TaskRef(ref.split, index % found.size)
        self.env.check_ref(ref)
        return ref

    def tasks(self, split: str | None, start: int, count: int) -> list[TaskRef]:
        """Return addresses of a split, ``count`` at the most.

        Raises:
            SplitError: There is no such split.
            ConfigError: There are none.
        """
        name = split or self.spec.default_split
        found = self.env.splits().get(name)
        most = count if found is None or found.size is None else min(count, found.size - start)
        if most < 1:
            raise ConfigError(f"split {name!r} has no {count} scenarios from {start} on", fix="ask for others")
        self.env.check_ref(TaskRef(name, start))
        return [TaskRef(name, start + place) for place in range(most)]

    def begin(self, ref: TaskRef) -> str:
        """Begin an episode and return what the model is shown first, without :attr:`system`.

        Raises:
            SplitError: No such scenario.
        """
        self.paid = 0.0
        return self._opening(self.env.reset(ref))

    def messages(self, ref: TaskRef) -> list[dict[str, JSON]]:
        """Begin an episode and return its first prompt as chat messages."""
        first = self.begin(ref)
        return [{"role": "system", "content": self.system}, {"role": "user", "content": first}]

    def read(self, words: str) -> Any:
        """Return the action that a reply of a model holds; a malformed one where it holds none."""
        reply = Reply(words, (), None, None, None, None, None, ())
        return read_text(reply, self.protocol, self.spec, self.env.observation.admissible or ()).action

    def say(self, words: str) -> Heard:
        """Play what a model says.

        Raises:
            EpisodeError: Before the first begin, and after the end.
        """
        return self.play(self.read(words))

    async def asay(self, words: str) -> Heard:
        """Like :meth:`say`, without blocking the event loop where that can be."""
        return self._heard(await self.env.astep(self.read(words)))

    def play(self, action: Any) -> Heard:
        """Play an action; see :meth:`say`."""
        return self._heard(self.env.step(action))

    async def aplay(self, action: Any) -> Heard:
        """Like :meth:`play`, without blocking the event loop where that can be."""
        return self._heard(await self.env.astep(action))

    def verdict(self) -> Verdict:
        """Return the verdict; an episode that runs is ended as one that a limit cut off.

        Raises:
            EpisodeNotStarted: Before the first begin.
        """
        return self.env.finish("truncated")

    def close(self) -> None:
        """Give up what the environment holds. May be called twice."""
        self.env.close()

    def _opening(self, observation: Any) -> str:
        instruction = self.env.task().instruction
        shown = show(self.protocol, observation, first=True).full
        return f"{instruction}\n\n{shown}" if instruction and instruction not in shown else shown

    def _heard(self, result: StepResult) -> Heard:
        self.paid += result.reward
        trace = self.env.last_trace
        facts: dict[str, JSON] = {"turn": self.env.turn, "valid": not result.info["invalid"]}
        if trace is not None:
            facts["error"], facts["potential"] = trace.error, trace.potential
            facts["state_before"], facts["state_key"] = trace.state_before, trace.state_after
        text = show(self.protocol, result.observation, first=False).full
        return Heard(text, result.reward, result.terminated, result.truncated, facts)


def outcome(verdict: Verdict) -> dict[str, float]:
    """Return the numbers of a verdict by name: ``success`` and the components of the reward."""
    return {"success": float(verdict.success), **verdict.components}


def _made(env: str, url: str | None, options: Mapping[str, Any]) -> Playable:
    if url is None:
        here: Playable = agentenvs.make(env, **options)
        return here
    from agentenvs.client import ClientSettings

    served: Playable = agentenvs.make(env, url=url, trace=True, **{"settings": ClientSettings(ttl=TTL), **options})
    return served
